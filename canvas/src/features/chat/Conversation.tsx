/** The chat with one agent: messages, messages in delivery, and the input. */

import { Suspense, useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from "react";
import { useData, useSession } from "../../core/app";
import { Button } from "../../ui/Button";
import { lazyPart } from "../../ui/lazyPart";
import { useNow } from "../../ui/useNow";
import { Notice } from "../../ui/Notice";
import { incompleteLine } from "../../core/state/obligationUpdates";
import { approvalsByWorkspace, placedWithin, type PlacedApproval } from "../../core/state/approvals";
import { isEnded } from "../../core/state/liveTurns";
import { choicesOf, conversationItems } from "./conversationItems";
import type { Delegation } from "../../core/state/delegations";
import { waitReason } from "../../core/state/delivery";
import { EMPTY_CHAT, type Chat, type Line } from "../../core/state/model";
import { useStored } from "../../core/store/store";
import { RETRY_MS } from "../../core/session/problemLists";
import { Composer } from "./Composer";
import css from "./Conversation.module.css";
import { DelegationGroup } from "../delegations/DelegationGroup";
import { DelegationItem } from "../delegations/DelegationItem";
import { useLiveTurns } from "../liveTurns/useLiveTurns";
import { LiveTurnItem } from "./LiveTurnItem";
import { MessageItem } from "./MessageItem";
import { useNewestPage, useRetriedRead, type RetriedRead } from "../../core/session/useNewestPage";
import { useTranscript, type Transcript } from "./useTranscript";
import { useFileDrop } from "./useFileDrop";
import { useReadMarks, useAnnouncedMessages, useAnnouncedDelegations } from "./useReading";

const EmptyChat = lazyPart(() => import("./EmptyChat").then((found) => found.EmptyChat));
const ApprovalItem = lazyPart(() => import("../approvals/ApprovalItem").then((found) => found.ApprovalItem));

interface Props {
  workspaceId: string;
  /** A message to scroll to, named by a link. */
  messageId?: string | null;
  focusComposer?: boolean;
}

export function Conversation({ workspaceId, messageId = null, focusComposer = false }: Props) {
  const session = useSession();
  const workspace = useData((state) => state.workspaces.get(workspaceId));
  const chat = useData((state) => state.chats.get(workspaceId)) ?? EMPTY_CHAT;
  const entries = useStored(session.outbox.entries);
  const unsent = useMemo(() => entries.filter((each) => each.workspaceId === workspaceId), [entries, workspaceId]);
  const now = useNow();
  const { problem, retry } = useNewestPage(workspaceId, chat.loaded);
  const readOlder = useCallback(() => session.readOlder(workspaceId), [session, workspaceId]);
  const [unreadAfter] = useState(() => (chat.unread > 0 ? chat.readSeq : null));
  const transcript = useTranscript({ chat, unsent: unsent.length, messageId, unreadAfter, readOlder });
  const newAfter = useReadMarks(workspaceId, chat, transcript.following);
  useIncompleteMessages(workspaceId, chat);
  useAnnouncedMessages(workspace?.name ?? "", chat.lines, chat.loaded);
  const delegations = useData((state) => state.delegations);
  useAnnouncedDelegations(workspace?.name ?? "An agent", transcript.lines, delegations, chat.loaded);
  const pendingApproval = useApprovals(workspaceId, chat.loaded);
  const { lines, atEnd, hasOlder } = transcript;
  const approvals = useMemo(() => (chat.loaded || lines.length > 0 ? placedWithin(pendingApproval.placed, lines, { atBegin: !hasOlder, atEnd }) : []), [pendingApproval.placed, lines, hasOlder, atEnd, chat.loaded]);
  const groups = useOpenGroups(messageId);
  const { isGroupOpen } = groups;
  const items = useMemo(
    () => conversationItems({ lines, unsent: atEnd ? unsent : [], delegations, approvals, isGroupOpen, newAfter, now }),
    [lines, atEnd, unsent, delegations, approvals, isGroupOpen, newAfter, now],
  );
  const liveTurns = useLiveTurns({ workspaceId });
  const choices = useMemo(() => choicesOf(chat.lines, unsent), [chat.lines, unsent]);
  const name = workspace?.name ?? "this agent";
  const me = session.identity.user.name;
  const waits = workspace === undefined ? null : waitReason(workspace, now);
  const root = useRef<HTMLDivElement>(null);
  const sendExample = (text: string): void => {
    void session.sendMessage(workspaceId, text);
    root.current?.querySelector("textarea")?.focus(); // the button is gone
  };
  const drop = useFileDrop(session.canSend ? (files) => session.chosenFiles.add(workspaceId, files) : null);
  return (
    <div className={css.conversation} ref={root} {...drop.handlers}>
      <div className={css.view}>
        <div className={css.scroller} ref={transcript.scroller} onScroll={transcript.onScroll}>
          {items.length === 0 ? (
            <Empty loaded={chat.loaded} problem={problem} onRetry={retry}>
              <EmptyChat workspace={workspace} name={name} onSend={sendExample} />
            </Empty>
          ) : (
            <>
              <Top transcript={transcript} reachedEnd={chat.reachedEnd} name={name} />
              <ol className={css.list} aria-label={`Messages with ${name}`} ref={transcript.list} onKeyDown={transcript.onKeyDown}>
                {items.map((item, at) => {
                  if (item.kind === "day") {
                    return (
                      <li key={item.key} className={css.day}>
                        <h3>{item.heading}</h3>
                      </li>
                    );
                  }
                  if (item.kind === "new") {
                    return (
                      <li key={item.key} className={css.new} data-new>
                        <span>New</span>
                      </li>
                    );
                  }
                  if (item.kind === "delegation") {
                    const marked = item.delegation.id === messageId;
                    return <DelegationItem key={item.key} delegation={item.delegation} sourceName={name} tabStop={at === items.length - 1} marked={marked} inGroup={item.inGroup} />;
                  }
                  if (item.kind === "group") {
                    return (
                      <DelegationGroup key={item.key} id={item.key} delegations={item.delegations} sourceName={name} expanded={item.isOpen} tabStop={at === items.length - 1} onToggle={groups.toggle} />
                    );
                  }
                  if (item.kind === "approval") {
                    return (
                      <Suspense key={item.key}>
                        <ApprovalItem approval={item.approval} at={item.at} tabStop={at === items.length - 1} brief={item.approval.workspaceId !== workspaceId} />
                      </Suspense>
                    );
                  }
                  return (
                    <MessageItem
                      key={item.key}
                      message={item}
                      workspaceId={workspaceId}
                      agentName={name}
                      ownName={me}
                      tabStop={at === items.length - 1}
                      waits={waits}
                      chosen={item.id === null ? null : (choices.get(item.id) ?? null)}
                      marked={item.id !== null && item.id === messageId}
                      onRetry={() => void session.outbox.retry(item.key)}
                      onDiscard={() => session.discard(item.key)}
                      onReply={(target) => session.replyTargets.choose(workspaceId, target)}
                    />
                  );
                })}
                {atEnd && liveTurns.map((turn) => <LiveTurnItem key={`turn ${turn.activityId}`} turn={turn} agentName={name} lines={chat.lines} />)}
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
      {problem !== null && items.length > 0 && <NewBelow words={`Could not load new messages: ${problem}`} onRetry={retry} />}
      {pendingApproval.problem !== null && <NewBelow words={`Could not load approvals for this chat: ${pendingApproval.problem}`} onRetry={pendingApproval.retry} />}
      {drop.over && (
        <p className={css.drop}>
          <span>
            Drop files here to attach them to your message to <bdi>{name}</bdi>
          </span>
        </p>
      )}
      <Composer key={workspaceId} workspaceId={workspaceId} name={name} autoFocus={focusComposer} working={liveTurns.some((turn) => !isEnded(turn))} onSent={transcript.toEnd} />
    </div>
  );
}

/** Groups of delegations that the person opened or closed; one with a linked delegation begins open. */
function useOpenGroups(messageId: string | null) {
  const [chosen, setChosen] = useState<ReadonlyMap<string, boolean>>(new Map());
  const toggle = useCallback((key: string, open: boolean): void => setChosen((all) => new Map(all).set(key, open)), []);
  const isGroupOpen = useCallback(
    (key: string, delegations: readonly Delegation[]): boolean => chosen.get(key) ?? delegations.some(({ id }) => id === messageId),
    [chosen, messageId],
  );
  return { isGroupOpen, toggle };
}

const NOTHING: readonly PlacedApproval[] = [];

/** Approvals of this chat: older ones are read with its newest page. */
function useApprovals(workspaceId: string, loaded: boolean): RetriedRead & { placed: readonly PlacedApproval[] } {
  const { decisions } = useSession();
  const placed = useData((state) => approvalsByWorkspace(state.approvals).get(workspaceId)) ?? NOTHING;
  return { placed, ...useRetriedRead({ of: workspaceId, due: loaded, read: () => decisions.readOf(workspaceId) }) };
}

/** Events that arrive within this time are handled together. */
const GATHER_MS = 150;

/** Some events contain only ids; the rest is read once for each message, and retried when that fails. */
function useIncompleteMessages(workspaceId: string, chat: Chat): void {
  const session = useSession();
  const lost = useStored(session.connection.view).mode === "lost";
  const asked = useRef(new Map<string, "asked" | "failed">());
  const [failures, setFailures] = useState(0);
  const part = chat.loaded ? incompleteLine(chat)?.line : undefined;
  const what = part === undefined ? null : `${part.id} ${part.lastEventSeq}`;
  useEffect(() => {
    // A reconnect may make known lines incomplete again.
    if (!chat.loaded) asked.current.clear();
    if (what === null || lost) return;
    const before = asked.current.get(what);
    if (before === "asked") return;
    const timer = setTimeout(
      () => {
        asked.current.set(what, "asked");
        session.readIncomplete(workspaceId).catch(() => {
          asked.current.set(what, "failed");
          setFailures((count) => count + 1);
        });
      },
      before === "failed" ? RETRY_MS : GATHER_MS,
    );
    return () => clearTimeout(timer);
  }, [session, workspaceId, chat.loaded, what, lost, failures]);
}

function NewBelow({ words, onRetry }: { words: string; onRetry: () => void }) {
  return (
    <p role="alert" className={css.behind}>
      {words}{" "}
      <Button kind="quiet" onClick={onRetry}>
        Try again
      </Button>
    </p>
  );
}

function Empty({ loaded, problem, onRetry, children }: { loaded: boolean; problem: string | null; onRetry: () => void; children: ReactNode }) {
  if (problem !== null) {
    return (
      <Notice icon="warning" title="Could not load messages" actions={<Button onClick={onRetry}>Try again</Button>}>
        {problem}
      </Notice>
    );
  }
  if (!loaded) return <Notice icon="clock" title="Loading messages…" />;
  return <Suspense>{children}</Suspense>;
}

export function Top({ transcript, reachedEnd, name }: { transcript: Pick<Transcript<Line>, "hasOlder" | "loadingOlder" | "older" | "olderProblem">; reachedEnd: boolean; name: string }) {
  if (!transcript.hasOlder) return reachedEnd ? <p className={css.begin}>This is the beginning of the chat with {name}.</p> : null;
  return (
    <div className={css.older}>
      <Button kind="quiet" disabled={transcript.loadingOlder} onClick={transcript.older}>
        {transcript.loadingOlder ? "Loading older messages…" : "Load older messages"}
      </Button>
      {transcript.olderProblem !== null && <p role="alert">{transcript.olderProblem}</p>}
    </div>
  );
}
