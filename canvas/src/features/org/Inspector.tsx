/** The panel of the selected agent, beside the organisation. */

import { Suspense, useEffect, useRef } from "react";
import { useApp, useData, useSettings } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { Badge } from "../../ui/Badge";
import { Button, IconButton } from "../../ui/Button";
import { useLayer } from "../../ui/keyboard";
import { lazyPart } from "../../ui/lazyPart";
import { Notice } from "../../ui/Notice";
import { AgentStatusMark } from "../../ui/AgentStatusMark";
import { Tabs } from "../../ui/Tabs";
import { NARROW, useMedia } from "../../ui/useMedia";
import type { Panel } from "../../core/router";
import { isOpen } from "../../core/state/delegations";
import type { Workspace } from "../../core/state/model";
import { taskOf } from "../../core/state/agentStatus";
import { delegationsByWorkspace } from "../../core/state/delegationLists";
import { Conversation } from "../chat";
import { DEFAULT_WIDTH, PanelSplitter, WIDE_WIDTH } from "./PanelSplitter";
import css from "./Inspector.module.css";

const About = lazyPart(() => import("./inspectorTabs").then((found) => found.About));
const MessagesTab = lazyPart(() => import("../peers").then((found) => found.MessagesTab));
const PromptTab = lazyPart(() => import("../prompts/PromptPanel").then((found) => found.PromptTab));
const ThreadsTab = lazyPart(() => import("../threads").then((found) => found.ThreadsTab));
const DelegationsTab = lazyPart(() => import("./inspectorTabs").then((found) => found.DelegationsTab));

interface Props {
  workspaceId: string;
  tab: Panel;
  onTab: (tab: Panel) => void;
  /** Open the menu of the agent below a button. */
  onMenu: (button: Element) => void;
  onClose: () => void;
}

export function Inspector({ workspaceId, tab, onTab, onMenu, onClose }: Props) {
  const workspace = useData((state) => state.workspaces.get(workspaceId));
  const unread = useData((state) => state.chats.get(workspaceId)?.unread ?? 0);
  const working = useData((state) => (delegationsByWorkspace(state.delegations).get(workspaceId) ?? []).filter(isOpen).length);
  const narrow = useMedia(NARROW);
  const heading = useRef<HTMLHeadingElement>(null);
  useLayer(onClose);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  return (
    <aside className={css.inspector} aria-label={workspace?.name ?? "Agent"}>
      {!narrow && <PanelSplitter />}
      <header className={css.head}>
        {narrow && <IconButton icon="back" label="Back to organisation" onClick={onClose} />}
        {workspace && <Avatar id={workspaceId} name={workspace.name} size="large" />}
        <div className={css.who}>
          <h2 className={css.name} ref={heading} tabIndex={-1}>
            {workspace?.name ?? "Unknown agent"}
          </h2>
          {workspace && <StatusLine workspace={workspace} />}
        </div>
        {workspace && <IconButton icon="more" label={`Actions for ${workspace.name}`} aria-haspopup="menu" onClick={(event) => onMenu(event.currentTarget)} />}
        {!narrow && (
          <>
            <WidenButton />
            <IconButton icon="close" label="Close panel" onClick={onClose} />
          </>
        )}
      </header>
      {workspace === undefined ? (
        <Notice icon="search" title="Agent not found" actions={<Button onClick={onClose}>Back to organisation</Button>}>
          It was removed, or the link belongs to another organisation.
        </Notice>
      ) : (
        <Tabs
          label="Agent"
          dense
          tabs={[
            {
              name: "chat",
              label: (
                <>
                  Chat <Badge unread={tab === "chat" ? 0 : unread} />
                </>
              ),
            },
            { name: "messages", label: "Messages" },
            {
              name: "work",
              label: (
                <>
                  Delegations <Badge unread={working} word="open" />
                </>
              ),
            },
            { name: "threads", label: "Threads" },
            { name: "prompt", label: "Prompt" },
            { name: "about", label: "About" },
          ]}
          current={tab}
          onChange={onTab}
        >
          <Suspense fallback={<Notice icon="clock" title="Loading…" />}>
            {tab === "chat" && <Conversation workspaceId={workspaceId} />}
            {tab === "messages" && <MessagesTab key={workspaceId} workspaceId={workspaceId} />}
            {tab === "work" && <DelegationsTab workspaceId={workspaceId} />}
            {tab === "threads" && <ThreadsTab key={workspaceId} workspaceId={workspaceId} />}
            {tab === "prompt" && <PromptTab key={workspaceId} workspaceId={workspaceId} />}
            {tab === "about" && <About workspace={workspace} />}
          </Suspense>
        </Tabs>
      )}
    </aside>
  );
}

/** The same as dragging the border, for people who cannot drag. */
function WidenButton() {
  const { settings } = useApp();
  const { panelWidth } = useSettings();
  const isWide = (panelWidth ?? DEFAULT_WIDTH) > DEFAULT_WIDTH;
  return (
    <IconButton
      className={css.widen}
      icon="wider"
      label={isWide ? "Narrow panel" : "Widen panel"}
      onClick={() => settings.change({ panelWidth: isWide ? null : WIDE_WIDTH })}
    />
  );
}

function StatusLine({ workspace }: { workspace: Workspace }) {
  const what = taskOf(workspace) ?? workspace.role;
  return (
    <p className={css.standing}>
      <AgentStatusMark workspace={workspace} />
      {what && <span className={css.what}>{what}</span>}
    </p>
  );
}
