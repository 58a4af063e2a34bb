import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./core/app";
import "./core/live/workerUrl";
import { showsChat } from "./core/router";
import { preloadChat } from "./features/chat";
import { startClock } from "./ui/useNow";
import { followTheme } from "./ui/theme";
import "./ui/style/tokens.css";
import "./ui/style/base.css";
import { Root } from "./features/shell/Root";

const holder = document.getElementById("root");
if (holder === null) throw new Error("The page has no root element.");

const app = new App();
if (showsChat(app.router.place.get())) void preloadChat(); // beside the requests that it needs, and not after them
followTheme(app.settings);
startClock();
void app.authenticate();
createRoot(holder).render(
  <StrictMode>
    <Root app={app} />
  </StrictMode>,
);
