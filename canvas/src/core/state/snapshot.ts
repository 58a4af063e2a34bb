/** Build the state from a snapshot, and merge a snapshot into an older state. */

import type { Snapshot, SnapshotChat, SnapshotRejection } from "../wire";
import { approvalOf, withApprovals, withoutPending, type Approvals } from "./approvals";
import { isSettled, unansweredOf } from "./obligationUpdates";
import { isOpen, ofSnapshot, type Delegation } from "./delegations";
import { headOf } from "./lines";
import { EMPTY_CHAT, orgNodeOf, type Chat, type Line, type RefusedDelegation, type State } from "./model";
import { list } from "./json";

/** The state as of the snapshot. From the previous state only what a snapshot does not contain is kept: chat lines, marked
 * with a gap where the chat went on meanwhile; ended delegations, and formerly open ones whose end is still to be read; and
 * counters. */
export function applySnapshot(before: State | null, snapshot: Snapshot): State {
  const known = before?.org.id === snapshot.org.id && before.epoch === snapshot.epoch ? before : null;
  return {
    epoch: snapshot.epoch,
    last: snapshot.as_of,
    org: snapshot.org,
    user: snapshot.user,
    limits: snapshot.limits,
    workspaces: new Map(snapshot.workspaces.map((each) => [each.id, { ...each, reported_at: null }])),
    orgNodes: new Map(snapshot.workspaces.map((each) => [each.id, orgNodeOf(each)])),
    chats: chatsOf(snapshot, known),
    unanswered: new Map(snapshot.unanswered.map((each) => [each.workspace_id, unansweredOf(each)])),
    delegations: delegationsOf(snapshot, known),
    approvals: approvalsOf(snapshot, known),
    asking: known?.asking ?? new Set(),
    refused: snapshot.refusals.map(refusalOf).reverse(),
    stuckSeconds: snapshot.limits.stuck_seconds,
    removed: new Map(),
    unknownEvents: before?.unknownEvents ?? 0,
  };
}

function delegationsOf(snapshot: Snapshot, known: State | null): ReadonlyMap<string, Delegation> {
  const open = snapshot.delegations.map(ofSnapshot);
  const all = new Map([...(known?.delegations ?? [])].map(([id, each]) => [id, isOpen(each) ? { ...each, complete: false } : each]));
  // An ended delegation stays ended, whatever an older snapshot says.
  for (const each of open) if (isOpen(all.get(each.id) ?? each)) all.set(each.id, each);
  return all;
}

function approvalsOf(snapshot: Snapshot, known: State | null): Approvals {
  const pending = list(snapshot, "approvals").map(approvalOf).filter((each) => each !== null);
  return withApprovals(withoutPending(known?.approvals ?? new Map()), pending);
}

function refusalOf({ seq, at, source_id, target_id, task_preview, limit, use, most, remedy }: SnapshotRejection): RefusedDelegation {
  return { seq, at, sourceId: source_id, targetId: target_id, task: task_preview, limit, use, most, remedy };
}

function chatsOf(snapshot: Snapshot, known: State | null): ReadonlyMap<string, Chat> {
  const chats = new Map(snapshot.chats.map((each) => [each.workspace_id, chatOf(each, known?.chats.get(each.workspace_id))]));
  // A chat without messages may have delegations, which a snapshot does not contain.
  for (const { id } of snapshot.workspaces) {
    const chat = known?.chats.get(id);
    if (chat !== undefined && chat.last === null && !chats.has(id)) chats.set(id, { ...chat, ...cutOff(chat) });
  }
  return chats;
}

function chatOf(chat: SnapshotChat, known: Chat | undefined): Chat {
  const author = chat.last.role === "agent" ? "agent" : "user";
  const { id, content, timestamp, seq } = chat.last;
  const lines = known?.lines ?? [];
  return {
    ...EMPTY_CHAT,
    ...known,
    lines: lines.map((line) => (isOver(line) ? line : { ...line, complete: false })),
    // Only the pages contain what happened meanwhile to messages in delivery, and delegations that were created and ended.
    ...cutOff(known ?? EMPTY_CHAT),
    unread: chat.unread,
    readSeq: chat.read_seq,
    // It may contain more than its position in the journal; those events are still to come.
    countedSeq: seq,
    last: headOf({ id, author, text: content, at: timestamp, seq }),
  };
}

/** Of two gaps the first one counts: a page that reaches the lines before it covers both. Without lines the gap is at the
 * beginning. */
function cutOff({ lines, holeAfter, reachedEnd }: Chat): Pick<Chat, "loaded" | "holeAfter" | "reachedEnd"> {
  return { loaded: false, holeAfter: holeAfter ?? lines.at(-1)?.seq ?? null, reachedEnd: reachedEnd && lines.length > 0 };
}

/** Whether no missed event can have changed it. A dead letter may have been requeued. */
function isOver({ delivery, obligation, complete }: Line): boolean {
  const arrived = delivery === null || delivery === "acked";
  return complete && arrived && (obligation === null || isSettled(obligation.state));
}
