/** The list of chats, and the open one. */

import { useApp, useData } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { Button, IconButton } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { AgentStatusMark } from "../../ui/AgentStatusMark";
import { NARROW, useMedia } from "../../ui/useMedia";
import type { Place } from "../../core/router";
import { taskOf } from "../../core/state/agentStatus";
import { ChatList } from "./ChatList";
import css from "./ChatsView.module.css";
import { Conversation } from "./Conversation";

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

function OpenChat({ workspaceId, messageId, back }: { workspaceId: string; messageId: string | null; back: boolean }) {
  const { router } = useApp();
  const workspace = useData((state) => state.workspaces.get(workspaceId));
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
        <Avatar id={workspace.id} name={workspace.name} size="large" />
        <div className={css.who}>
          <h2>{workspace.name}</h2>
          <p className={css.standing}>
            <AgentStatusMark workspace={workspace} />
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
