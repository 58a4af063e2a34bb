/** Delegations: work that one agent gives another. History, snapshots and live events say parts of the same thing; whatever
 * comes first, late or twice, they give the same one. Nothing that has ended goes on, and nothing goes back. */

import type { DelegationItem, EventFrame, DelegationProgress, SnapshotDelegation, TimelineDelegation } from "../wire";
import { list, number, text } from "./json";

export type DelegationStatus = "pending" | "dispatched" | "queued" | "unknown_after_send" | "completed" | "failed" | "cancelled";

/** What the working agent said last of how far it is. */
export interface Progress {
  at: string;
  step: string;
  tools: readonly string[];
  eta: string;
  percent: number | null;
}

export interface Delegation {
  id: string;
  /** Who gave the work, and to whom. */
  sourceId: string;
  targetId: string;
  /** The beginning of it. */
  task: string;
  status: DelegationStatus;
  phase: string;
  /** How often it has changed, as events count it; 0 if no event told of it. */
  rev: number;
  attempt: number;
  /** Its place in the log of its source. */
  seq: number;
  parentId: string | null;
  rootId: string;
  depth: number;
  createdAt: string;
  /** When an agent took it first. */
  takenAt: string | null;
  /** The last sign of life of the work. */
  lifeAt: string;
  settledAt: string | null;
  deadlineAt: string;
  /** When it changed last. */
  updatedAt: string;
  error: string | null;
  reason: string | null;
  advice: string | null;
  /** The answer, or its beginning. */
  reply: string | null;
  replyComplete: boolean;
  retryOf: string | null;
  progress: Progress | null;
  /** The number of the last event that told something of it. */
  lastEventSeq: number;
  /** All of it is known: it was read, or its first event was seen, and nothing can have been missed since. */
  complete: boolean;
}

export const RANK: Readonly<Record<DelegationStatus, number>> = {
  pending: 0,
  dispatched: 1,
  queued: 2,
  unknown_after_send: 3,
  completed: 4,
  failed: 4,
  cancelled: 4,
};

/** Previews of answers are cut by the server to so many bytes; one that is shorter than any cut leaves is all there is. */
const PREVIEW_BYTES = 200;
const LONGEST_CHARACTER = 4;

/** The beginning of a task is cut by the server to so many bytes. */
const TASK_BYTES = 100;

/** More than these are not kept; ended ones go first. */
const MAX_KEPT = 5_000;
/** So many are dropped at once, for looking for them costs. */
const DROP_COUNT = 250;

export function isOpen({ status }: Pick<Delegation, "status">): boolean {
  return RANK[status] < RANK.completed;
}

export type DelegationUpdate = Partial<Delegation> & { id: string };

/** What is known and what is new, as one. The order in which news come does not matter. */
export function mergeDelegation(known: Delegation | undefined, news: DelegationUpdate, rev: number): Delegation {
  if (known === undefined) return { ...blank(news.id), ...news, rev };
  const fresh = isFresher(known, news, rev);
  const [newer, older]: [DelegationUpdate, DelegationUpdate] = fresh ? [news, known] : [known, news];
  const merged: Delegation = { ...blank(news.id), ...older, ...newer };
  return {
    ...merged,
    ...origin(known, news),
    reply: merged.status !== "completed" ? null : known.replyComplete ? known.reply : (newer.reply ?? older.reply ?? null),
    replyComplete: merged.status === "completed" && (known.replyComplete || news.replyComplete === true),
    attempt: Math.max(known.attempt, news.attempt ?? 0),
    takenAt: known.takenAt ?? news.takenAt ?? null,
    lifeAt: later(known.lifeAt, news.lifeAt ?? ""),
    updatedAt: later(known.updatedAt, news.updatedAt ?? ""),
    settledAt: RANK[merged.status] < RANK.completed ? null : (newer.settledAt ?? older.settledAt ?? null),
    progress: newest(known.progress, news.progress ?? null),
    lastEventSeq: Math.max(known.lastEventSeq, news.lastEventSeq ?? 0),
    complete: known.complete || news.complete === true,
    rev: fresh ? rev || known.rev : known.rev,
  };
}

/** Whether the news say how it stands now. Two ends: the first one is true. */
function isFresher(known: Delegation, news: DelegationUpdate, rev: number): boolean {
  if (news.status === undefined) return false;
  const ahead = RANK[news.status] - RANK[known.status];
  if (ahead !== 0) return ahead > 0;
  if (rev > 0 && known.rev > 0) return isOpen(known) ? rev > known.rev : rev < known.rev;
  return isOpen(known) && (news.updatedAt ?? "") >= known.updatedAt;
}

/** What only its first event and pages tell, and nothing changes. */
function origin(known: Delegation, news: DelegationUpdate): Partial<Delegation> {
  const told = known.createdAt === "" && news.createdAt !== undefined ? { ...known, ...news } : known;
  const { sourceId, targetId, task, seq, parentId, rootId, depth, createdAt, deadlineAt, retryOf } = told;
  return { sourceId, targetId, task, seq, parentId, rootId, depth, createdAt, deadlineAt, retryOf };
}

function blank(id: string): Delegation {
  return {
    id,
    sourceId: "",
    targetId: "",
    task: "",
    status: "pending",
    phase: "waiting",
    rev: 0,
    attempt: 0,
    seq: 0,
    parentId: null,
    rootId: id,
    depth: 1,
    createdAt: "",
    takenAt: null,
    lifeAt: "",
    settledAt: null,
    deadlineAt: "",
    updatedAt: "",
    error: null,
    reason: null,
    advice: null,
    reply: null,
    replyComplete: false,
    retryOf: null,
    progress: null,
    lastEventSeq: 0,
    complete: false,
  };
}

function later(one: string, other: string): string {
  return one >= other ? one : other;
}

function newest(one: Progress | null, other: Progress | null): Progress | null {
  if (one === null || other === null) return one ?? other;
  if (one.at !== other.at) return one.at > other.at ? one : other;
  return JSON.stringify(one) >= JSON.stringify(other) ? one : other;
}

function statusOf(word: string | null): DelegationStatus {
  return word !== null && word in RANK ? (word as DelegationStatus) : "pending";
}

/** A row of a page, also of the time line of a workspace. */
export function ofHistory(item: DelegationItem | TimelineDelegation): Delegation {
  const status = statusOf(item.status);
  const reply = status === "completed" ? cutReply(item.result ?? item.response_preview ?? "") : null;
  return {
    ...blank(item.delegation_id),
    sourceId: item.source_id,
    targetId: item.target_id,
    task: item.summary,
    status,
    phase: item.phase,
    attempt: item.attempt,
    seq: item.seq,
    parentId: item.parent_id,
    rootId: item.root_id,
    depth: item.depth,
    createdAt: item.created_at,
    takenAt: item.taken_at,
    lifeAt: item.last_heartbeat ?? item.updated_at,
    settledAt: item.settled_at,
    deadlineAt: item.deadline,
    updatedAt: item.updated_at,
    error: item.error,
    reason: item.reason,
    advice: item.advice,
    reply,
    replyComplete: reply !== null && isWholePreview(reply),
    retryOf: item.retry_of,
    progress: item.progress === null ? null : progressOf(item.progress, item.progress.at ?? ""),
    complete: true,
  };
}

/** An open delegation of a snapshot. */
export function ofSnapshot(one: SnapshotDelegation): Delegation {
  return {
    ...blank(one.delegation_id),
    sourceId: one.source_id,
    targetId: one.target_id,
    task: one.task_preview,
    status: statusOf(one.status),
    phase: one.phase,
    rev: one.rev,
    attempt: one.attempt,
    seq: one.seq,
    parentId: one.parent_id,
    rootId: one.root_id,
    depth: one.depth,
    createdAt: one.created_at,
    takenAt: one.taken_at,
    lifeAt: one.life_at,
    deadlineAt: one.deadline_at,
    updatedAt: one.life_at,
    error: one.error,
    retryOf: one.retry_of,
    progress: one.progress === null ? null : progressOf(one.progress, one.progress.at ?? ""),
    complete: true,
  };
}

/** What an event says; null if it has another shape than this page knows. Of `known` only what events do not tell is used. */
export function ofEvent(known: Delegation | undefined, frame: EventFrame): Delegation | null {
  const news = updateOf(frame);
  return news === null ? null : mergeDelegation(known, news, frame.seq === undefined ? 0 : frame.entity.rev);
}

function updateOf(frame: EventFrame): DelegationUpdate | null {
  const { event, payload, timestamp, seq } = frame;
  const [id, targetId] = [text(payload, "delegation_id"), text(payload, "target_id")];
  if (id === null || targetId === null) return null;
  const told = { id, sourceId: frame.workspace_id, targetId, lifeAt: timestamp, updatedAt: timestamp, lastEventSeq: seq ?? 0 };
  const ended = { ...told, phase: "ended", settledAt: timestamp };
  switch (event) {
    case "DELEGATION_SENT":
      return { ...told, ...originOf(frame), status: "pending", phase: "waiting", complete: true };
    case "DELEGATION_STATUS":
      return seq === undefined ? { id, sourceId: frame.workspace_id, targetId, lifeAt: timestamp, ...progressMembers(frame) } : { ...told, ...statusMembers(payload) };
    case "DELEGATION_COMPLETE": {
      const reply = cutReply(text(payload, "response_preview") ?? "");
      return { ...ended, status: "completed", reply, replyComplete: isWholePreview(reply), error: null, reason: null, advice: null };
    }
    case "DELEGATION_FAILED":
      return {
        ...ended,
        status: text(payload, "status") === "cancelled" ? "cancelled" : "failed",
        error: text(payload, "error"),
        reason: text(payload, "reason"),
        advice: text(payload, "advice"),
      };
    default:
      return null;
  }
}

function originOf({ payload, timestamp }: EventFrame): Partial<Delegation> {
  return {
    task: text(payload, "task_preview") ?? "",
    seq: number(payload, "seq") ?? 0,
    rootId: text(payload, "root_id") ?? text(payload, "delegation_id") ?? "",
    depth: number(payload, "depth") ?? 1,
    deadlineAt: text(payload, "deadline_at") ?? "",
    parentId: text(payload, "parent_id"),
    retryOf: text(payload, "retry_of"),
    createdAt: timestamp,
  };
}

function statusMembers(payload: unknown): Partial<Delegation> {
  return {
    status: statusOf(text(payload, "status")),
    phase: text(payload, "phase") ?? "waiting",
    attempt: number(payload, "attempt") ?? 0,
    takenAt: text(payload, "taken_at"),
    error: text(payload, "error"),
  };
}

/** How far the work is changes nothing of where it stands. */
function progressMembers({ payload, timestamp }: EventFrame): Partial<Delegation> {
  const told = {
    current_step: text(payload, "current_step") ?? "",
    tools_used: list(payload, "tools_used").filter((each) => typeof each === "string"),
    eta_hint: text(payload, "eta_hint") ?? "",
  };
  const percent = number(payload, "percent");
  return { progress: progressOf(percent === null ? told : { ...told, percent }, timestamp) };
}

function progressOf(told: DelegationProgress, when: string): Progress {
  return { at: when, step: told.current_step ?? "", tools: told.tools_used ?? [], eta: told.eta_hint ?? "", percent: told.percent ?? null };
}

/** The beginning of an answer, cut where the server cuts it: between letters, to so many bytes. */
export function cutReply(reply: string): string {
  const bytes = new TextEncoder().encode(reply.slice(0, PREVIEW_BYTES));
  const room = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.slice(0, PREVIEW_BYTES), { stream: true });
  return room;
}

/** The beginning of a task as it is shown: with a mark where there may be more of it. */
export function shownTask(task: string): string {
  return new TextEncoder().encode(task).length <= TASK_BYTES - LONGEST_CHARACTER ? task : `${task}…`;
}

function isWholePreview(reply: string): boolean {
  return new TextEncoder().encode(reply).length <= PREVIEW_BYTES - LONGEST_CHARACTER;
}

/** The table with one more, and within its bounds. The map is changed: it must be the caller's own. */
export function keepRecent(delegations: Map<string, Delegation>, one: Delegation): void {
  delegations.set(one.id, one);
  if (delegations.size > MAX_KEPT + DROP_COUNT) shrink(delegations);
}

function shrink(delegations: Map<string, Delegation>): void {
  const age = (each: Delegation): string => (isOpen(each) ? `1${each.createdAt}` : `0${each.settledAt ?? ""}`);
  const oldest = [...delegations.values()].sort((one, other) => (age(one) < age(other) ? -1 : 1));
  for (const { id } of oldest.slice(0, delegations.size - MAX_KEPT)) delegations.delete(id);
}

export type DelegationState = "sent" | "dispatched" | "queued" | "working" | "stuck" | "unknown" | "completed" | "failed" | "cancelled" | "expired";

type StateInput = Pick<Delegation, "status" | "phase" | "reason" | "takenAt" | "lifeAt">;

/** What an agent said of itself last. */
export interface Heartbeat {
  current_task: string | null;
  active_tasks: number;
  last_heard_at: string | null;
}

/** How it stands in one word. `target`: the agent that has it; `stuckSeconds`: without a sign of life for so long, work is
 * stuck. */
export function delegationState(one: StateInput, target: Heartbeat | undefined, now: number, stuckSeconds: number): DelegationState {
  switch (one.status) {
    case "completed":
    case "cancelled":
      return one.status;
    case "failed":
      return one.reason === "expired" ? "expired" : "failed";
    default:
      if (isStuck(one, target, now, stuckSeconds)) return "stuck";
      if (one.status === "unknown_after_send" && !isClaimed(one)) return "unknown";
      if (isClaimed(one)) return "working";
      return one.status === "pending" ? "sent" : one.status === "dispatched" ? "dispatched" : "queued";
  }
}

/** An agent has it now. */
function isClaimed({ phase }: StateInput): boolean {
  return phase === "claimed" || phase === "working";
}

export function isStuck(one: StateInput, target: Heartbeat | undefined, now: number, stuckSeconds: number): boolean {
  return one.takenAt !== null && isClaimed(one) && now - Date.parse(lastActivity(one, target)) > stuckSeconds * 1_000;
}

/** When anything was seen last of the work. An agent that says it is at work is seen, as the server counts it. */
export function lastActivity({ lifeAt }: Pick<Delegation, "lifeAt">, target: Heartbeat | undefined): string {
  const isAtWork = target !== undefined && (Boolean(target.current_task) || target.active_tasks > 0);
  return isAtWork ? later(lifeAt, target.last_heard_at ?? "") : lifeAt;
}
