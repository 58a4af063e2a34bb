/** The frame around every view: rail, header, banner, the view itself, and what needs a person. */

import { useEffect, useLayoutEffect, useState } from "react";
import { useApp, useDesk, usePlace, useSettings } from "../app";
import { Announcer } from "../parts/Announcer";
import { Button } from "../parts/Button";
import { useSingleKeys } from "../parts/keys";
import { Guard } from "../parts/Guard";
import { Notice } from "../parts/Notice";
import { ORG } from "../router";
import { countText, unreadTotal } from "../state/attention";
import type { State } from "../state/model";
import { useStored } from "../state/store";
import { Banner } from "./Banner";
import { ChatsView } from "./ChatsView";
import { ConnectView } from "./ConnectView";
import { Header } from "./Header";
import { OrgView } from "./OrgView";
import { Palette } from "./Palette";
import { ProblemsView } from "./ProblemsView";
import { Rail } from "./Rail";
import { SettingsView } from "./SettingsView";
import css from "./Shell.module.css";
import { Shortcuts } from "./Shortcuts";
import { Strip } from "./Strip";
import { UndoBar } from "./UndoBar";
import { useAttention } from "./useAttention";

type Layer = "palette" | "shortcuts" | null;

export function Shell() {
  const desk = useDesk();
  const state = useStored(desk.calm);
  const [layer, setLayer] = useState<Layer>(null);
  useTitle(state, desk.session.org.name);
  usePaletteKey(() => setLayer("palette"));
  const place = usePlace();
  useLayoutEffect(() => {
    document.getElementById("view")?.scrollTo(0, 0); // what it answers is no clean-up
  }, [place.view]);
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#view" onClick={skipToView}>
        Skip to the view
      </a>
      <Rail onShortcuts={() => setLayer("shortcuts")} unread={state === null ? 0 : unreadTotal(state.chats)} />
      <Header onSearch={() => setLayer("palette")} />
      <Banner />
      <main className={css.view} id="view" tabIndex={-1}>
        <Guard key={place.view} fallback={<Broken />}>
          {state === null ? <Opening /> : <View />}
        </Guard>
      </main>
      <UndoBar />
      {state !== null && <Attention onShortcuts={() => setLayer("shortcuts")} />}
      {layer === "palette" && state !== null && <Palette onClose={() => setLayer(null)} />}
      {layer === "shortcuts" && <Shortcuts onClose={() => setLayer(null)} />}
      <Announcer />
    </div>
  );
}

function Broken() {
  return (
    <Notice icon="warning" title="This view has met a mistake of ours" actions={<Button onClick={() => location.reload()}>Load the page again</Button>}>
      Nothing is lost: what you wrote is kept, and the other views go on.
    </Notice>
  );
}

function skipToView(event: React.MouseEvent): void {
  event.preventDefault();
  document.getElementById("view")?.focus();
}

function View() {
  const place = usePlace();
  const { router } = useApp();
  switch (place.view) {
    case "org":
      return <OrgView place={place} />;
    case "chats":
      return <ChatsView place={place} />;
    case "problems":
      return <ProblemsView />;
    case "connect":
      return <ConnectView />;
    case "settings":
      return <SettingsView />;
    case "unknown":
      return (
        <Notice icon="search" title="There is no such page" actions={<Button onClick={() => router.go(ORG)}>Go to the organisation</Button>}>
          The address may be of a newer version, or it was cut when it was copied.
        </Notice>
      );
  }
}

function Opening() {
  const { problem } = useDesk();
  const words = useStored(problem);
  if (words === null) return <Notice icon="clock" title="Reading the organisation…" />;
  return (
    <Notice icon="warning" title="The organisation could not be read">
      {words} The page goes on trying.
    </Notice>
  );
}

/** The strip, and the keys that walk through what needs a person. */
function Attention({ onShortcuts }: { onShortcuts: () => void }) {
  const attention = useAttention();
  const { singleKeys } = useSettings();
  useSingleKeys({ a: attention.next, n: attention.nextUnread, "?": onShortcuts }, singleKeys);
  return <Strip attention={attention} />;
}

function useTitle(state: State | null, orgName: string): void {
  const unread = state === null ? 0 : unreadTotal(state.chats);
  const name = state?.org.name ?? orgName;
  useEffect(() => {
    document.title = `${unread > 0 ? `(${countText(unread)}) ` : ""}${name} · Molecule`;
  }, [unread, name]);
}

function usePaletteKey(open: () => void): void {
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key.toLowerCase() !== "k" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      if (document.querySelector("dialog[open]") === null) open();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });
}

