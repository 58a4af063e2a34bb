/** All conversations, newest first, and the open one. */

import { useMemo, useRef } from "react";
import { useApp, useData } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { Badge } from "../../ui/Badge";
import { Button, IconButton } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { AgentStatusMark } from "../../ui/AgentStatusMark";
import { Time } from "../../ui/Time";
import { NARROW, useMedia } from "../../ui/useMedia";
import type { Place } from "../../core/router";
import { chatOrder } from "./chatOrder";
import type { Chat, Workspace } from "../../core/state/model";
import { taskOf } from "../../core/state/agentStatus";
import { preview } from "../../core/text/strings";
import css from "./ChatsView.module.css";
import { Conversation } from "./Conversation";
import { useListKeys } from "../../ui/useListKeys";
import { useRowWindow } from "../../ui/useRowWindow";
import { useAgentStatus } from "../../core/state/useAgentStatus";

type ChatsPlace = Extract<Place, { view: "chats" }>;

export function ChatsView({ place }: { place: ChatsPlace }) {
  const narrow = useMedia(NARROW);
  const { workspaceId } = place;
  return (
    <div className={css.chats}>
      {!(narrow && workspaceId !== null) && <ChatList current={workspaceId} />}
      {workspaceId !== null ? (
        <OpenChat key={workspaceId} workspaceId={workspaceId} messageId={place.messageId} back={narrow} />
      ) : (
        !narrow && (
          <Notice icon="chats" title="No chat selected">
            Select an agent on the left to read and send messages.
          </Notice>
        )
      )}
    </div>
  );
}

/** Row height in rem; the style sheet has the same value. */
const ROW = 3.75;

function ChatList({ current }: { current: string | null }) {
  const { router } = useApp();
  const workspaces = useData((state) => state.workspaces);
  const chats = useData((state) => state.chats);
  const order = useMemo(() => chatOrder(workspaces, chats), [workspaces, chats]);
  const scroller = useRef<HTMLDivElement>(null);
  const at = order.findIndex(({ workspace }) => workspace.id === current);
  const { shown, virtual, rowHeight } = useRowWindow(scroller, order.length, at, ROW);
  useListKeys(scroller);
  if (order.length === 0) {
    return (
      <section className={css.side} aria-label="Conversations">
        <Notice icon="chats" title="No chats yet" actions={<Button onClick={() => router.go({ view: "connect" })}>Connect an agent</Button>}>
          Each agent in the organisation has a chat.
        </Notice>
      </section>
    );
  }
  return (
    <section className={css.side} aria-label="Conversations">
      <h2 className={css.heading}>Chats</h2>
      <div className={css.scroller} ref={scroller}>
        <ul className={css.list} style={virtual ? { height: order.length * rowHeight } : undefined}>
          {shown.map((index) => {
            const entry = order[index];
            return (
              entry && (
                <li
                  key={entry.workspace.id}
                  className={virtual ? css.virtual : undefined}
                  style={virtual ? { transform: `translateY(${index * rowHeight}px)` } : undefined}
                  aria-posinset={virtual ? index + 1 : undefined}
                  aria-setsize={virtual ? order.length : undefined}
                >
                  <Entry workspace={entry.workspace} chat={entry.chat} current={index === at} />
                </li>
              )
            );
          })}
        </ul>
      </div>
    </section>
  );
}

function Entry({ workspace, chat, current }: { workspace: Workspace; chat: Chat | undefined; current: boolean }) {
  const last = chat?.last ?? null;
  const unread = chat?.unread ?? 0;
  return (
    <Link
      to={{ view: "chats", workspaceId: workspace.id, messageId: null }}
      className={`${css.entry} ${unread > 0 ? css.unread : ""}`}
      aria-current={current ? "page" : undefined}
    >
      <Avatar name={workspace.name} size="large" />
      <span className={css.words}>
        <span className={css.line}>
          <span className={css.name}>{workspace.name}</span>
          {last !== null && <Time at={last.at} short className={css.time} />}
        </span>
        <span className={css.line}>
          <span className={css.last} dir="auto">{last === null ? "No messages yet" : (last.author === "user" ? "You: " : "") + preview(last.text)}</span>
          <Badge unread={unread} />
        </span>
      </span>
    </Link>
  );
}

function OpenChat({ workspaceId, messageId, back }: { workspaceId: string; messageId: string | null; back: boolean }) {
  const { router } = useApp();
  const workspace = useData((state) => state.workspaces.get(workspaceId));
  const status = useAgentStatus(workspace);
  const toList = (): void => router.go({ view: "chats", workspaceId: null, messageId: null });
  if (workspace === undefined) {
    return (
      <Notice icon="search" title="Agent not found" actions={<Button onClick={toList}>Back to chats</Button>}>
        It was removed, or the link belongs to another organisation.
      </Notice>
    );
  }
  return (
    <section className={css.open} aria-label={`Chat with ${workspace.name}`}>
      <header className={css.head}>
        {back && <IconButton icon="back" label="Back to chats" onClick={toList} />}
        <Avatar name={workspace.name} size="large" />
        <div className={css.who}>
          <h2>{workspace.name}</h2>
          <p className={css.standing}>
            <AgentStatusMark status={status} limitedUntil={workspace.limited_until} />
            <span className={css.last} dir="auto">{taskOf(workspace) ?? workspace.role}</span>
          </p>
        </div>
        <Link className={css.about} to={{ view: "org", focus: workspaceId, panel: "about", filter: "" }}>
          View in org
        </Link>
      </header>
      <Conversation workspaceId={workspaceId} messageId={messageId} focusComposer={!back && messageId === null} />
    </section>
  );
}
