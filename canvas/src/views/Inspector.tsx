/** The agent that was opened, beside the organisation. */

import { Suspense, useEffect, useRef, useState } from "react";
import { useData } from "../app";
import { Avatar } from "../parts/Avatar";
import { Badge } from "../parts/Badge";
import { Button, IconButton } from "../parts/Button";
import { useLayer } from "../parts/keys";
import { later } from "../parts/later";
import { Notice } from "../parts/Notice";
import { Standing } from "../parts/Standing";
import { Tabs } from "../parts/Tabs";
import { NARROW, useMedia } from "../parts/useMedia";
import type { Panel } from "../router";
import { isOpen } from "../state/delegations";
import type { Workspace } from "../state/model";
import { taskOf } from "../state/standing";
import { worksOf } from "../state/working";
import { Conversation } from "./Conversation";
import css from "./Inspector.module.css";
import { useStanding } from "./useStanding";

const About = later(() => import("./AgentTabs").then((found) => found.About));
const PromptTab = later(() => import("../prompts/PromptPanel").then((found) => found.PromptTab));
const ThreadsTab = later(() => import("../threads").then((found) => found.ThreadsTab));
const WorkTab = later(() => import("./AgentTabs").then((found) => found.WorkTab));

interface Props {
  workspaceId: string;
  tab: Panel;
  onTab: (tab: Panel) => void;
  onClose: () => void;
}

export function Inspector({ workspaceId, tab, onTab, onClose }: Props) {
  const workspace = useData((state) => state.workspaces.get(workspaceId));
  const unread = useData((state) => state.chats.get(workspaceId)?.unread ?? 0);
  const working = useData((state) => (worksOf(state.delegations).get(workspaceId) ?? []).filter(isOpen).length);
  const narrow = useMedia(NARROW);
  const [wide, setWide] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);
  useLayer(onClose);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  return (
    <aside className={`${css.inspector} ${wide ? css.wide : ""}`} aria-label={workspace?.name ?? "Agent"}>
      <header className={css.head}>
        {narrow && <IconButton icon="back" label="Back to the organisation" onClick={onClose} />}
        {workspace && <Avatar name={workspace.name} size="large" />}
        <div className={css.who}>
          <h2 className={css.name} ref={heading} tabIndex={-1}>
            {workspace?.name ?? "No such agent"}
          </h2>
          {workspace && <StandingLine workspace={workspace} />}
        </div>
        {!narrow && (
          <>
            <IconButton className={css.widen} icon="wider" label={wide ? "Narrower panel" : "Wider panel"} onClick={() => setWide(!wide)} />
            <IconButton icon="close" label="Close panel" onClick={onClose} />
          </>
        )}
      </header>
      {workspace === undefined ? (
        <Notice icon="search" title="This agent is not here" actions={<Button onClick={onClose}>Back to the organisation</Button>}>
          It was removed, or the link is of another organisation.
        </Notice>
      ) : (
        <Tabs
          label="About this agent"
          tabs={[
            {
              name: "chat",
              label: (
                <>
                  Chat <Badge unread={tab === "chat" ? 0 : unread} />
                </>
              ),
            },
            {
              name: "work",
              label: (
                <>
                  Work <Badge unread={working} word="open" />
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
          {tab === "chat" && <Conversation workspaceId={workspaceId} />}
          <Suspense fallback={<Notice icon="clock" title="Opening…" />}>
            {tab === "work" && <WorkTab workspaceId={workspaceId} />}
            {tab === "threads" && <ThreadsTab key={workspaceId} workspaceId={workspaceId} />}
            {tab === "prompt" && <PromptTab key={workspaceId} workspaceId={workspaceId} />}
            {tab === "about" && <About workspace={workspace} />}
          </Suspense>
        </Tabs>
      )}
    </aside>
  );
}

function StandingLine({ workspace }: { workspace: Workspace }) {
  const what = taskOf(workspace) ?? workspace.role;
  return (
    <p className={css.standing}>
      <Standing standing={useStanding(workspace)} />
      {what && <span className={css.what}>{what}</span>}
    </p>
  );
}
