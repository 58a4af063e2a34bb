/** The conversations of one agent with other agents, and the open one. */

import { useMemo } from "react";
import { useApp, useData } from "../../core/app";
import { Avatar } from "../../ui/Avatar";
import { Button, IconButton } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { NARROW, useMedia } from "../../ui/useMedia";
import { ORG, type Place } from "../../core/router";
import css from "../chat/ChatsView.module.css";
import { PeerConversation } from "./PeerConversation";
import { PeerList } from "./PeerList";
import own from "./PeerList.module.css";
import { nameIn } from "./PeerMessageItem";

type PeersPlace = Extract<Place, { view: "peers" }>;

export function PeersView({ place }: { place: PeersPlace }) {
  const { workspaceId, peerId, messageId } = place;
  const { router } = useApp();
  const narrow = useMedia(NARROW);
  const one = useData((state) => state.workspaces.get(workspaceId)?.name);
  const other = useData((state) => state.workspaces.get(peerId)?.name);
  const names = useMemo(() => new Map([[workspaceId, one], [peerId, other]].filter((each): each is [string, string] => each[1] !== undefined)), [workspaceId, peerId, one, other]);
  if (one === undefined) {
    return (
      <Notice icon="search" title="Agent not found" actions={<Button onClick={() => router.go(ORG)}>Go to organisation</Button>}>
        It was removed, or the link belongs to another organisation.
      </Notice>
    );
  }
  const tab: Place = { view: "org", focus: workspaceId, panel: "messages", filter: "" };
  const both = `${one} and ${nameIn(names, peerId)}`;
  return (
    <div className={css.chats}>
      {!narrow && (
        <section className={css.side} aria-label={`Conversations of ${one}`}>
          <h2 className={css.heading}>Messages of {one}</h2>
          <PeerList key={workspaceId} workspaceId={workspaceId} current={peerId} />
        </section>
      )}
      <section className={css.open} aria-label={`Conversation of ${both}`}>
        <header className={css.head}>
          {narrow && <IconButton icon="back" label={`Back to messages of ${one}`} onClick={() => router.go(tab)} />}
          <Avatar id={peerId} name={nameIn(names, peerId)} size="large" />
          <div className={css.who}>
            <h2>{both}</h2>
            <p className={own.sub}>Messages between agents, read-only</p>
          </div>
          <Link className={css.about} to={tab}>
            View in org
          </Link>
        </header>
        <PeerConversation key={`${workspaceId} ${peerId}`} workspaceId={workspaceId} peerId={peerId} names={names} messageId={messageId} />
      </section>
    </div>
  );
}
