/** The frame around every view: rail, header, banner, the view itself, and what needs a person. */

import { lazy, Suspense, useEffect, useLayoutEffect, useState } from "react";
import { useApp, useSession, usePlace, useSettings } from "../../core/app";
import { announce, Announcer } from "../../ui/Announcer";
import { Button } from "../../ui/Button";
import { useSingleKeys } from "../../ui/keyboard";
import { ErrorBoundary } from "../../ui/ErrorBoundary";
import { lazyPart, preloadParts, retrying } from "../../ui/lazyPart";
import { Notice } from "../../ui/Notice";
import { ORG, type Place } from "../../core/router";
import { countText } from "../../core/text/strings";
import { unreadTotal } from "../attention/unread";
import { useNextUnread } from "../attention/useNextUnread";
import type { State } from "../../core/state/model";
import { useStored } from "../../core/store/store";
import { openDelegations } from "../../core/state/delegationLists";
import { Banner } from "./Banner";
import { ChatsView, preloadChat } from "../chat";
import { Header } from "./Header";
import { OrgView } from "../org/OrgView";
import { Palette } from "./Palette";
import { Rail } from "./Rail";
import css from "./Shell.module.css";
import { UndoBar } from "../../ui/UndoBar";
import { useShellWorker } from "./useShellWorker";

// The first script contains the first view; large and rarely used views are loaded on demand.
const InboxView = lazyPart(() => import("../inbox/InboxView").then((found) => found.InboxView));
const Attention = lazyPart(() => import("../attention/Attention").then((found) => found.Attention));
const PeersView = lazyPart(() => import("../peers").then((found) => found.PeersView));
const PromptView = lazyPart(() => import("../prompts/PromptView").then((found) => found.PromptView));
const ThreadView = lazyPart(() => import("../threads").then((found) => found.ThreadView));
const Notifier = lazyPart(() => import("../notifications/Notifier").then((found) => found.Notifier));
const ConnectView = lazyPart(() => import("../connect/ConnectView").then((found) => found.ConnectView));
const ProblemsView = lazyPart(() => import("../problems/ProblemsView").then((found) => found.ProblemsView));
const SettingsView = lazyPart(() => import("../settings/SettingsView").then((found) => found.SettingsView));
const WorkView = lazyPart(() => import("../delegations/WorkView").then((found) => found.WorkView));
const TraceView = lazyPart(() => import("../trace/TraceView").then((found) => found.TraceView));
const ActivityView = lazyPart(() => import("../activity/ActivityView").then((found) => found.ActivityView));
const SchedulesView = lazyPart(() => import("../schedules/SchedulesView").then((found) => found.SchedulesView));
const UsageView = lazyPart(() => import("../usage/UsageView").then((found) => found.UsageView));
const DelegationView = lazyPart(() => import("../delegations/DelegationView").then((found) => found.DelegationView));
const IssuedTokenDialog = lazyPart(() => import("../org/NewToken").then((found) => found.IssuedTokenDialog));
const Shortcuts = lazyPart(() => import("../settings/Shortcuts").then((found) => found.Shortcuts));
const InstructionsView = lazy(retrying(() => import("../instructions/InstructionsView")));

/** Delay after the first render before the other views are preloaded. */
const PRELOAD_AFTER_MS = 1_000;

type Layer = "palette" | "shortcuts" | null;

export function Shell() {
  const session = useSession();
  const state = useStored(session.throttledData);
  const [layer, setLayer] = useState<Layer>(null);
  const { singleKeys } = useSettings();
  const waiting = useStored(session.inbox).length;
  useTitle(state, session.identity.org.name, waiting);
  usePaletteKey(() => setLayer("palette"));
  useAnnouncedDecisions();
  const nextUnread = useNextUnread();
  const nextDelegation = useNextDelegation();
  useSingleKeys({ n: nextUnread, w: nextDelegation, "?": () => setLayer("shortcuts") }, singleKeys && state !== null);
  const place = usePlace();
  useLayoutEffect(() => {
    document.getElementById("view")?.scrollTo(0, 0); // its result is no clean-up function
  }, [place.view]);
  const isShown = state !== null;
  useEffect(() => {
    if (!isShown) return;
    void preloadChat();
    const timer = setTimeout(() => void preloadParts(), PRELOAD_AFTER_MS);
    return () => clearTimeout(timer);
  }, [isShown]);
  useShellWorker(isShown);
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#view" onClick={skipToView}>
        Skip to content
      </a>
      <Rail onShortcuts={() => setLayer("shortcuts")} waiting={waiting} unread={state === null ? 0 : unreadTotal(state.chats)} />
      <Header onSearch={() => setLayer("palette")} />
      <Banner />
      <main className={css.view} id="view" tabIndex={-1}>
        <ErrorBoundary key={place.view} fallback={<Broken />}>
          {state === null ? (
            <Opening />
          ) : (
            <Suspense fallback={<Notice icon="clock" title="Loading…" />}>
              <View />
            </Suspense>
          )}
        </ErrorBoundary>
      </main>
      <UndoBar />
      {state !== null && (
        <ErrorBoundary fallback={<div className={css.strip} />}>
          <Suspense fallback={<div className={css.strip} />}>
            <Attention />
          </Suspense>
        </ErrorBoundary>
      )}
      <ErrorBoundary key={layer} fallback={null}>
        <Suspense>
          {layer === "palette" && state !== null && <Palette onClose={() => setLayer(null)} />}
          {layer === "shortcuts" && <Shortcuts onClose={() => setLayer(null)} />}
        </Suspense>
      </ErrorBoundary>
      {state !== null && (
        <ErrorBoundary fallback={null}>
          <Suspense>
            <IssuedTokenDialog />
          </Suspense>
        </ErrorBoundary>
      )}
      {state !== null && (
        <ErrorBoundary fallback={null}>
          <Suspense>
            <Notifier />
          </Suspense>
        </ErrorBoundary>
      )}
      <Announcer />
    </div>
  );
}

function Broken() {
  return (
    <Notice icon="warning" title="This view has crashed" actions={<Button onClick={() => location.reload()}>Reload page</Button>}>
      Your drafts are saved, and other views still work.
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
    case "peers":
      return <PeersView place={place} />;
    case "delegation":
      return <DelegationView key={place.id} id={place.id} node={place.node} />;
    case "work":
      return <WorkView list={place.list} />;
    case "trace":
      return <TraceView key={place.id} id={place.id} />;
    case "activity":
      return <ActivityView filters={place.filters} />;
    case "usage":
      return <UsageView by={place.by} />;
    case "schedules":
      return <SchedulesView />;
    case "inbox":
      return <InboxView place={place} />;
    case "prompt":
      return <PromptView key={place.workspaceId} workspaceId={place.workspaceId} />;
    case "thread":
      return <ThreadView key={place.id} id={place.id} tab={place.tab} />;
    case "problems":
      return <ProblemsView />;
    case "instructions":
      return <Instructions templateId={place.templateId} />;
    case "connect":
      return <ConnectView />;
    case "settings":
      return <SettingsView />;
    case "unknown":
      return (
        <Notice icon="search" title="Page not found" actions={<Button onClick={() => router.go(ORG)}>Go to organisation</Button>}>
          The link may be incomplete, or from a newer version of Molecule.
        </Notice>
      );
  }
}

function Instructions({ templateId }: { templateId: string | null }) {
  const { identity } = useSession();
  if (identity.user.role !== "owner") {
    return (
      <Notice icon="book" title="Only owners can manage instructions">
        Your role is {identity.user.role}. Ask an owner to view or edit the instructions that are sent to agents.
      </Notice>
    );
  }
  return <InstructionsView templateId={templateId} />;
}

function Opening() {
  const { problem } = useSession();
  const words = useStored(problem);
  if (words === null) return <Notice icon="clock" title="Loading organisation…" />;
  return (
    <Notice icon="warning" title="Could not load organisation">
      {words} Retrying…
    </Notice>
  );
}

/** Go through the open delegations, newest first. */
function useNextDelegation(): () => void {
  const session = useSession();
  const { router } = useApp();
  return () => {
    const open = openDelegations(session.data.get()?.delegations ?? new Map());
    const place = router.place.get();
    const at = open.findIndex(({ id }) => place.view === "delegation" && place.id === id);
    const next = open[(at + 1) % open.length];
    if (next === undefined) announce("No open tasks");
    else router.go({ view: "delegation", id: next.id, node: null });
  };
}

/** The number is that of unread messages and of the inbox together. */
function useTitle(state: State | null, orgName: string, waiting: number): void {
  const unread = (state === null ? 0 : unreadTotal(state.chats)) + waiting;
  const name = state?.org.name ?? orgName;
  const view = viewTitle(usePlace(), state);
  useEffect(() => {
    document.title = `${unread > 0 ? `(${countText(unread)}) ` : ""}${view} · ${name} · Molecule`;
  }, [unread, view, name]);
  // Nothing of the organisation stays after a logout.
  useEffect(() => () => void (document.title = "Molecule"), []);
}

const VIEW_TITLES: Partial<Record<Place["view"], string>> = {
  org: "Org",
  chats: "Chats",
  delegation: "Delegation",
  work: "Work",
  trace: "Trace",
  activity: "Activity",
  inbox: "Inbox",
  prompt: "Prompt",
  thread: "Thread",
  problems: "Problems",
  instructions: "Instructions",
  connect: "Connect",
  settings: "Settings",
};

/** The name of the agent whose chat, panel or prompt is open, or of the view. */
function viewTitle(place: Place, state: State | null): string {
  const agent = place.view === "org" ? place.panel && place.focus : "workspaceId" in place ? place.workspaceId : null;
  const name = agent === null ? undefined : state?.workspaces.get(agent)?.name;
  return name ?? VIEW_TITLES[place.view] ?? "Page not found";
}

/** Announce the results of decisions, whichever view is shown. */
function useAnnouncedDecisions(): void {
  const outcome = useStored(useSession().decisions.outcome);
  useEffect(() => {
    if (outcome !== null) announce(outcome.words);
  }, [outcome]);
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

