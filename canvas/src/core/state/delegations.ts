/** Delegations. History, snapshots and live events each contain a part; merging them gives the same result in any order,
 * late or repeated. An ended delegation stays ended. */

import { plainLine } from "../text/plain";
import type { DelegationItem, EventFrame, DelegationProgress, SnapshotDelegation, TimelineDelegation } from "../wire";
import { at, list, number, text } from "./json";

export type DelegationStatus = "pending" | "dispatched" | "queued" | "unknown_after_send" | "completed" | "failed" | "cancelled";

/** The last progress report. */
export interface Progress {
  at: string;
  step: string;
  tools: readonly string[];
  eta: string;
  percent: number | null;
}

export interface Delegation {
  id: string;
  /** The delegating workspace, and the target. */
  sourceId: string;
  targetId: string;
  /** The beginning of the task. */
  task: string;
  status: DelegationStatus;
  phase: string;
  /** Revision as counted by events; 0 before the first one. */
  rev: number;
  attempt: number;
  /** Sequence number in the log of the source. */
  seq: number;
  parentId: string | null;
  rootId: string;
  depth: number;
  createdAt: string;
  /** Time of the first claim. */
  takenAt: string | null;
  /** Time of the last activity. */
  lifeAt: string;
  settledAt: string | null;
  deadlineAt: string;
  /** Time of the last change. */
  updatedAt: string;
  error: string | null;
  reason: string | null;
  advice: string | null;
  /** The answer, or its beginning. */
  reply: string | null;
  replyComplete: boolean;
  /** Whether the answer passed checks of the delegator; null: not completed. */
  verified: boolean | null;
  retryOf: string | null;
  progress: Progress | null;
  /** Sequence number of the last event about it. */
  lastEventSeq: number;
  /** Everything is known: it was read, or its first event arrived and none can have been missed since. */
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

/** The server cuts answers to this many bytes; a shorter preview is the whole answer. */
const PREVIEW_BYTES = 200;
const LONGEST_CHARACTER = 4;

/** The server cuts tasks to this many bytes. */
const TASK_BYTES = 100;

/** Upper bound; ended ones are dropped first. */
const MAX_KEPT = 5_000;
/** Dropped in batches, since finding candidates costs a full scan. */
const DROP_COUNT = 250;

export function isOpen({ status }: Pick<Delegation, "status">): boolean {
  return RANK[status] < RANK.completed;
}

/** Without those that were tried again. */
export function lastAttempts(delegations: readonly Delegation[]): readonly Delegation[] {
  const retried = new Set(delegations.map(({ retryOf }) => retryOf));
  return delegations.filter(({ id }) => !retried.has(id));
}

export type DelegationUpdate = Partial<Delegation> & { id: string };

/** Merge an update. The order of updates does not matter. */
export function mergeDelegation(known: Delegation | undefined, update: DelegationUpdate, rev: number): Delegation {
  if (known === undefined) return { ...blank(update.id), ...update, rev };
  const fresh = isFresher(known, update, rev);
  const [newer, older]: [DelegationUpdate, DelegationUpdate] = fresh ? [update, known] : [known, update];
  const merged: Delegation = { ...blank(update.id), ...older, ...newer };
  return {
    ...merged,
    ...origin(known, update),
    reply: merged.status !== "completed" ? null : known.replyComplete ? known.reply : (newer.reply ?? older.reply ?? null),
    verified: merged.status === "completed" ? (newer.verified ?? older.verified ?? null) : null,
    replyComplete: merged.status === "completed" && (known.replyComplete || update.replyComplete === true),
    attempt: Math.max(known.attempt, update.attempt ?? 0),
    takenAt: known.takenAt ?? update.takenAt ?? null,
    lifeAt: later(known.lifeAt, update.lifeAt ?? ""),
    updatedAt: later(known.updatedAt, update.updatedAt ?? ""),
    settledAt: RANK[merged.status] < RANK.completed ? null : (newer.settledAt ?? older.settledAt ?? null),
    progress: newest(known.progress, update.progress ?? null),
    lastEventSeq: Math.max(known.lastEventSeq, update.lastEventSeq ?? 0),
    complete: known.complete || update.complete === true,
    rev: fresh ? rev || known.rev : known.rev,
  };
}

/** Whether the update has the newer status. Of two ends the first one is true. */
function isFresher(known: Delegation, update: DelegationUpdate, rev: number): boolean {
  if (update.status === undefined) return false;
  const ahead = RANK[update.status] - RANK[known.status];
  if (ahead !== 0) return ahead > 0;
  if (rev > 0 && known.rev > 0) return isOpen(known) ? rev > known.rev : rev < known.rev;
  return isOpen(known) && (update.updatedAt ?? "") >= known.updatedAt;
}

/** Members that only the first event and pages contain, and that never change. */
function origin(known: Delegation, update: DelegationUpdate): Partial<Delegation> {
  const identity = known.createdAt === "" && update.createdAt !== undefined ? { ...known, ...update } : known;
  const { sourceId, targetId, task, seq, parentId, rootId, depth, createdAt, deadlineAt, retryOf } = identity;
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
    verified: null,
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

/** From a row of a page, also of a chat timeline. */
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
    verified: status === "completed" ? item.verified : null,
    retryOf: item.retry_of,
    progress: item.progress === null ? null : progressOf(item.progress, item.progress.at ?? ""),
    complete: true,
  };
}

/** From an open delegation of a snapshot. */
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

/** From an event; null if its shape is unknown. `known` supplies only what events do not contain. */
export function ofEvent(known: Delegation | undefined, frame: EventFrame): Delegation | null {
  const update = updateOf(frame);
  return update === null ? null : mergeDelegation(known, update, frame.seq === undefined ? 0 : frame.entity.rev);
}

function updateOf(frame: EventFrame): DelegationUpdate | null {
  const { event, payload, timestamp, seq } = frame;
  const [id, targetId] = [text(payload, "delegation_id"), text(payload, "target_id")];
  if (id === null || targetId === null) return null;
  const about = { id, sourceId: frame.workspace_id, targetId, lifeAt: timestamp, updatedAt: timestamp, lastEventSeq: seq ?? 0 };
  const ended = { ...about, phase: "ended", settledAt: timestamp };
  switch (event) {
    case "DELEGATION_SENT":
      return { ...about, ...originOf(frame), status: "pending", phase: "waiting", complete: true };
    case "DELEGATION_STATUS":
      return seq === undefined ? { id, sourceId: frame.workspace_id, targetId, lifeAt: timestamp, ...progressMembers(frame) } : { ...about, ...statusMembers(payload) };
    case "DELEGATION_COMPLETE": {
      const reply = cutReply(text(payload, "response_preview") ?? "");
      return { ...ended, status: "completed", reply, replyComplete: isWholePreview(reply), verified: at(payload, "verified") === true, error: null, reason: null, advice: null };
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

/** A progress report does not change the status. */
function progressMembers({ payload, timestamp }: EventFrame): Partial<Delegation> {
  const progress = {
    current_step: text(payload, "current_step") ?? "",
    tools_used: list(payload, "tools_used").filter((each) => typeof each === "string"),
    eta_hint: text(payload, "eta_hint") ?? "",
  };
  const percent = number(payload, "percent");
  return { progress: progressOf(percent === null ? progress : { ...progress, percent }, timestamp) };
}

function progressOf(progress: DelegationProgress, when: string): Progress {
  return { at: when, step: progress.current_step ?? "", tools: progress.tools_used ?? [], eta: progress.eta_hint ?? "", percent: progress.percent ?? null };
}

/** Cut an answer as the server does: between characters, to a number of bytes. */
export function cutReply(reply: string): string {
  const bytes = new TextEncoder().encode(reply.slice(0, PREVIEW_BYTES));
  const room = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.slice(0, PREVIEW_BYTES), { stream: true });
  return room;
}

/** The shown beginning of a task on one line, with an ellipsis where there may be more. */
export function shownTask(task: string): string {
  const isWhole = new TextEncoder().encode(task).length <= TASK_BYTES - LONGEST_CHARACTER;
  return plainLine(isWhole ? task : `${task}…`);
}

function isWholePreview(reply: string): boolean {
  return new TextEncoder().encode(reply).length <= PREVIEW_BYTES - LONGEST_CHARACTER;
}

/** Add one, within the bound. Mutates the map, which must be the caller's own copy. */
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

/** The last heartbeat of the agent. */
export interface Heartbeat {
  /** A limit of its vendor keeps the agent from working until then. */
  limited_until?: string | null;
  current_task: string | null;
  active_tasks: number;
  last_heard_at: string | null;
}

/** The shown state. `target`: the agent that has it; `stuckSeconds`: without activity for this long it is stuck. */
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

/** Whether an agent has claimed it. */
function isClaimed({ phase }: StateInput): boolean {
  return ["claimed", "working", "checking", "needs_work"].includes(phase);
}

export function isStuck(one: StateInput, target: Heartbeat | undefined, now: number, stuckSeconds: number): boolean {
  if (target?.limited_until != null) return false; // it goes on at a known time
  return one.takenAt !== null && isClaimed(one) && now - Date.parse(lastActivity(one, target)) > stuckSeconds * 1_000;
}

/** Time of the last activity. Heartbeats of an agent at work count, as on the server. */
export function lastActivity({ lifeAt }: Pick<Delegation, "lifeAt">, target: Heartbeat | undefined): string {
  const isAtWork = target !== undefined && (Boolean(target.current_task) || target.active_tasks > 0);
  return isAtWork ? later(lifeAt, target.last_heard_at ?? "") : lifeAt;
}
