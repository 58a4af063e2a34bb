import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app";
import { startClock } from "./parts/now";
import { followTheme } from "./parts/theme";
import "./style/tokens.css";
import "./style/base.css";
import { Root } from "./views/Root";

const holder = document.getElementById("root");
if (holder === null) throw new Error("The page has no root.");

const app = new App();
followTheme(app.settings);
startClock();
void app.enter();
createRoot(holder).render(
  <StrictMode>
    <Root app={app} />
  </StrictMode>,
);
