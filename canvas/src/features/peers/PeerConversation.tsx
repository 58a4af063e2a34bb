/** What two agents wrote to each other, as a chat to read only. */

import { Suspense, useEffect, useMemo, useRef } from "react";
import { useData, useSession } from "../../core/app";
import { announce } from "../../ui/Announcer";
import { Button } from "../../ui/Button";
import { lazyPart } from "../../ui/lazyPart";
import { Notice } from "../../ui/Notice";
import { useNow } from "../../ui/useNow";
import type { PeerLine } from "../../core/state/peerMessages";
import { Top } from "../chat/Conversation";
import css from "../chat/Conversation.module.css";
import { useTranscript } from "../chat/useTranscript";
import { DelegationItem } from "../delegations/DelegationItem";
import { peerItems } from "./peerItems";
import { nameIn, PeerMessageItem } from "./PeerMessageItem";
import { usePeerChat } from "./usePeerChat";

const ApprovalItem = lazyPart(() => import("../approvals/ApprovalItem").then((found) => found.ApprovalItem));

interface Props {
  workspaceId: string;
  peerId: string;
  names: ReadonlyMap<string, string>;
  /** A message to scroll to, named by a link. */
  messageId: string | null;
}

export function PeerConversation({ workspaceId, peerId, names, messageId }: Props) {
  const { chat, problem, readOlder, retry } = usePeerChat(workspaceId, peerId);
  const transcript = useTranscript({ chat, unsent: 0, messageId, readOlder });
  const delegations = useData((state) => state.delegations);
  const approvals = useData((state) => state.approvals);
  const now = useNow();
  const { lines } = transcript;
  const items = useMemo(() => peerItems({ lines, delegations, approvals, now }), [lines, delegations, approvals, now]);
  useAnnouncedLines(chat.lines, names, chat.loaded);
  const session = useSession();
  const newest = transcript.following ? chat.lines.at(-1)?.at : undefined;
  useEffect(() => {
    if (newest === undefined) return;
    session.peerReads.markRead(workspaceId, peerId, newest);
    session.peerReads.markRead(peerId, workspaceId, newest);
  }, [session, workspaceId, peerId, newest]);
  const both = `${nameIn(names, workspaceId)} and ${nameIn(names, peerId)}`;
  return (
    <div className={css.conversation}>
      <div className={css.view}>
        <div className={css.scroller} ref={transcript.scroller} onScroll={transcript.onScroll}>
          {items.length === 0 ? (
            <Empty loaded={chat.loaded} problem={problem} both={both} onRetry={retry} />
          ) : (
            <>
              <Top transcript={transcript} reachedEnd={chat.reachedEnd} name={both} />
              <ol className={css.list} aria-label={`Messages of ${both}`} ref={transcript.list} onKeyDown={transcript.onKeyDown}>
                {items.map((item, at) => {
                  const tabStop = at === items.length - 1;
                  switch (item.kind) {
                    case "day":
                      return (
                        <li key={item.key} className={css.day}>
                          <h3>{item.heading}</h3>
                        </li>
                      );
                    case "delegation":
                      return <DelegationItem key={item.key} delegation={item.delegation} sourceName={nameIn(names, item.delegation.sourceId)} tabStop={tabStop} marked={item.key === messageId} />;
                    case "approval":
                      return (
                        <Suspense key={item.key}>
                          <ApprovalItem approval={item.approval} at={item.at} tabStop={tabStop} />
                        </Suspense>
                      );
                    case "message":
                      return (
                        <PeerMessageItem key={item.key} line={item.line} workspaceId={workspaceId} names={names} joined={item.joined} tabStop={tabStop} marked={item.key === messageId} now={now} />
                      );
                  }
                })}
              </ol>
            </>
          )}
        </div>
        {!transcript.following && (
          <div className={css.jump}>
            <Button icon="down" className={css.jumpButton} onClick={transcript.toEnd}>
              {transcript.newer > 0 ? `${transcript.newer} new` : "Jump to latest"}
            </Button>
          </div>
        )}
      </div>
      {problem !== null && items.length > 0 && (
        <p role="alert" className={css.behind}>
          Could not load new messages: {problem}{" "}
          <Button kind="quiet" onClick={retry}>
            Try again
          </Button>
        </p>
      )}
    </div>
  );
}

function Empty({ loaded, problem, both, onRetry }: { loaded: boolean; problem: string | null; both: string; onRetry: () => void }) {
  if (problem !== null) {
    return (
      <Notice icon="warning" title="Could not load messages" actions={<Button onClick={onRetry}>Try again</Button>}>
        {problem}
      </Notice>
    );
  }
  if (!loaded) return <Notice icon="clock" title="Loading messages…" />;
  return (
    <Notice icon="chats" title="No messages yet">
      Messages of {both} to each other appear here.
    </Notice>
  );
}

/** Announce messages that arrive to screen readers. */
function useAnnouncedLines(lines: readonly PeerLine[], names: ReadonlyMap<string, string>, loaded: boolean): void {
  const announced = useRef<number | null>(null);
  const last = lines.at(-1);
  useEffect(() => {
    if (!loaded) return;
    const before = announced.current;
    announced.current = Math.max(before ?? 0, last?.seq ?? 0);
    if (before !== null && last !== undefined && last.seq > before) announce(`New message from ${nameIn(names, last.sourceId)}`);
  }, [last, names, loaded]);
}
