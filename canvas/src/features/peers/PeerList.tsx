/** The agents that exchanged messages with one agent, newest first. */

import { useRef } from "react";
import { useData, useSession } from "../../core/app";
import { unreadOfPeer } from "../../core/session/peerReads";
import { useSelected } from "../../core/store/store";
import { Avatar } from "../../ui/Avatar";
import { Badge } from "../../ui/Badge";
import { Button } from "../../ui/Button";
import { Link } from "../../ui/Link";
import { Notice } from "../../ui/Notice";
import { Time } from "../../ui/Time";
import { useListKeys } from "../../ui/useListKeys";
import { useRowWindow } from "../../ui/useRowWindow";
import { plainLine } from "../../core/text/plain";
import { plural } from "../../core/text/strings";
import type { ConversationPeer } from "../../core/wire";
import css from "../chat/ChatsView.module.css";
import own from "./PeerList.module.css";
import { kindText } from "./peerItems";
import { usePeers } from "./usePeers";

/** The tab of the agent panel. */
export function MessagesTab({ workspaceId }: { workspaceId: string }) {
  return <PeerList workspaceId={workspaceId} current={null} />;
}

/** Row height in rem; the style sheet has the same value. */
const ROW = 3.75;

export function PeerList({ workspaceId, current }: { workspaceId: string; current: string | null }) {
  const { peers, loaded, more, problem, readMore, retry } = usePeers(workspaceId);
  const name = useData((state) => state.workspaces.get(workspaceId)?.name) ?? "this agent";
  const scroller = useRef<HTMLDivElement>(null);
  const at = peers.findIndex(({ workspace_id }) => workspace_id === current);
  const { shown, virtual, rowHeight } = useRowWindow(scroller, peers.length, at, ROW);
  useListKeys(scroller);
  if (peers.length === 0) {
    if (problem !== null) {
      return (
        <Notice icon="warning" title="Could not load messages" actions={<Button onClick={retry}>Try again</Button>}>
          {problem}
        </Notice>
      );
    }
    if (!loaded) return <Notice icon="clock" title="Loading messages…" />;
    return (
      <Notice icon="chats" title="No messages yet">
        Messages between {name} and other agents appear here.
      </Notice>
    );
  }
  return (
    <div className={own.peers} ref={scroller}>
      {problem !== null && (
        <p role="alert" className={own.note}>
          Could not load new messages: {problem}{" "}
          <Button kind="quiet" onClick={retry}>
            Try again
          </Button>
        </p>
      )}
      <ul className={css.list} aria-label="Agents" style={virtual ? { height: peers.length * rowHeight } : undefined}>
        {shown.map((index) => {
          const peer = peers[index];
          return (
            peer && (
              <li
                key={peer.workspace_id}
                className={virtual ? css.virtual : undefined}
                style={virtual ? { transform: `translateY(${index * rowHeight}px)` } : undefined}
                aria-posinset={virtual ? index + 1 : undefined}
                aria-setsize={virtual ? peers.length : undefined}
              >
                <Entry workspaceId={workspaceId} peer={peer} current={index === at} />
              </li>
            )
          );
        })}
      </ul>
      {more && (
        <p className={own.note}>
          <Button kind="quiet" onClick={readMore}>
            Load more agents
          </Button>
        </p>
      )}
    </div>
  );
}

function Entry({ workspaceId, peer, current }: { workspaceId: string; peer: ConversationPeer; current: boolean }) {
  const { workspace_id: peerId, last, messages, more } = peer;
  const name = useData((state) => state.workspaces.get(peerId)?.name) ?? peer.name ?? "Removed agent";
  const ownName = useData((state) => state.workspaces.get(workspaceId)?.name) ?? "";
  const kind = kindText(last.message_kind);
  const { peerReads } = useSession();
  const unread = useSelected(peerReads, (all) => unreadOfPeer(all.get(workspaceId), peer));
  return (
    <Link to={{ view: "peers", workspaceId, peerId, messageId: null }} className={`${css.entry} ${unread > 0 ? css.unread : ""}`} aria-current={current ? "page" : undefined}>
      <Avatar id={peerId} name={name} size="large" />
      <span className={css.words}>
        <span className={css.line}>
          <span className={css.name}>{name}</span>
          <Time at={last.timestamp} short className={css.time} />
        </span>
        <span className={css.line}>
          <span className={css.last} dir="auto">
            {last.source_id === workspaceId ? `${ownName}: ` : ""}
            {kind === null ? "" : `${kind}: `}
            {plainLine(last.summary)}
          </span>
          <Badge unread={unread} />
          <span className={css.time}>{more ? `${messages.toLocaleString("en-GB")}+ messages` : plural(messages, "message")}</span>
        </span>
      </span>
    </Link>
  );
}
