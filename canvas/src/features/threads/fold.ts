/** Known state of threads, folded from reads and events: the same result in any order. Pure; repeated events change nothing,
 * and gaps are counted, so that they are read. */

import { at, list, members, number, text } from "../../core/state/json";
import type { CollabCallEntry, CollabPage, EntryItem, EventFrame, MailItem, ThreadItem, TurnAcceptedEntry, UsageEntry } from "../../core/wire";

/** A call between agents: its beginning, and its end once there is one. */
export interface CallState {
  key: string;
  /** The latest version: as it ended, or as it began. */
  call: CollabCallEntry;
  beganAt: string | null;
  endedAt: string | null;
}

/** A part of a log without gaps. */
export interface Log {
  lines: readonly EntryItem[];
  /** Ordinals up to this one are not in it. */
  from: number;
  /** Ordinal of the last known line. Lines up to it that are not here yet are still to be read. */
  lastSeen: number;
}

export interface ThreadsState {
  threads: ReadonlyMap<string, ThreadItem>;
  calls: ReadonlyMap<string, CallState>;
  mail: ReadonlyMap<string, MailItem>;
  /** Logs of threads whose lines are shown. */
  logs: ReadonlyMap<string, Log>;
  /** Counts the gaps that only a read can close. */
  gaps: number;
}

/** What a view covers: a tree, or the threads of a workspace. */
export type Scope = { rootId: string } | { workspaceId: string };

export const EMPTY_THREADS: ThreadsState = { threads: new Map(), calls: new Map(), mail: new Map(), logs: new Map(), gaps: 0 };
const STATES: readonly string[] = ["accepted", "delivered", "answered", "failed"];
const SETTLED = 2;

export function withEvents(known: ThreadsState, frames: readonly EventFrame[], scope: Scope): ThreadsState {
  return frames.reduce((before, frame) => one(before, frame, scope), known);
}

export function withThreads(known: ThreadsState, items: readonly ThreadItem[]): ThreadsState {
  const threads = new Map(known.threads);
  for (const item of items) if ((threads.get(item.thread_id)?.revision ?? -1) <= item.revision) threads.set(item.thread_id, item);
  return { ...known, threads };
}

export function withCollab(known: ThreadsState, page: CollabPage): ThreadsState {
  const [calls, mail] = [new Map(known.calls), new Map(known.mail)];
  for (const line of page.calls) withCall(calls, line.entry, line.at);
  for (const each of page.mail) mail.set(each.mail_id, later(mail.get(each.mail_id), each));
  return { ...known, calls, mail };
}

/** Add lines that were read after `after`. If they do not join the known lines, they replace them. */
export function withLines(known: ThreadsState, threadId: string, read: { after: number; lines: readonly EntryItem[] }): ThreadsState {
  const log = known.logs.get(threadId);
  const end = log === undefined ? read.after : lastOf(log);
  const touches = log !== undefined && read.after <= end && read.after + read.lines.length >= log.from;
  const lines = touches ? [...read.lines.filter(({ ordinal }) => ordinal <= log.from), ...log.lines, ...read.lines.filter(({ ordinal }) => ordinal > end)] : read.lines;
  const from = touches ? Math.min(log.from, read.after) : read.after;
  const next: Log = { lines, from, lastSeen: Math.max(log?.lastSeen ?? 0, lines.at(-1)?.ordinal ?? from) };
  return { ...known, logs: new Map(known.logs).set(threadId, next) };
}

export function lastOf({ lines, from }: Log): number {
  return lines.at(-1)?.ordinal ?? from;
}

export function isComplete(log: Log): boolean {
  return log.lastSeen <= lastOf(log);
}

function one(known: ThreadsState, frame: EventFrame, scope: Scope): ThreadsState {
  const { event, payload, timestamp } = frame;
  const id = text(payload, "thread_id");
  if ("rootId" in scope ? text(payload, "root_id") !== scope.rootId : frame.workspace_id !== scope.workspaceId) return known;
  if (event === "THREAD_STARTED") return id === null ? known : withThread(known, payload as unknown as ThreadItem);
  if (event === "THREAD_MAIL") return withMail(known, payload, timestamp);
  if (id === null) return known;
  if (event === "THREAD_STATUS_CHANGED") return statusOf(known, id, payload, timestamp);
  return event === "THREAD_ITEM" ? line(known, id, payload, frame, scope) : known;
}

function withThread(known: ThreadsState, item: ThreadItem): ThreadsState {
  return known.threads.has(item.thread_id) ? known : { ...known, threads: new Map(known.threads).set(item.thread_id, item) };
}

function statusOf(known: ThreadsState, id: string, payload: unknown, timestamp: string): ThreadsState {
  const thread = known.threads.get(id);
  const [revision, type] = [number(payload, "revision"), text(payload, "status", "type")];
  if (thread === undefined || revision === null || type === null) return thread === undefined ? withGap(known) : known;
  if (revision < thread.revision) return known;
  const status = { type, message: text(payload, "status", "message") } as ThreadItem["status"];
  const active_flags = list(payload, "active_flags").filter((each) => typeof each === "string") as ThreadItem["active_flags"];
  return put(known, { ...thread, status, active_flags, revision, updated_at: newer(thread.updated_at, timestamp) });
}

function line(known: ThreadsState, id: string, payload: unknown, frame: EventFrame, scope: Scope): ThreadsState {
  const [ordinal, type, entry] = [number(payload, "ordinal"), text(payload, "type"), members(at(payload, "entry"))];
  if (ordinal === null || type === null) return known;
  const item: EntryItem = { ordinal, type, entry, item_id: `${id}.${ordinal}`, turn_id: text(payload, "turn_id"), at: frame.timestamp };
  let next = withLogEntry(known, id, item);
  const thread = known.threads.get(id);
  // A list is read in pages: a thread that no page contains is not missing.
  if (thread === undefined) return "rootId" in scope ? withGap(next) : next;
  if (type === "collab") next = entry === null ? withGap(next) : { ...next, calls: withCall(new Map(next.calls), entry, frame.timestamp) };
  if (ordinal <= thread.last_ordinal) return next;
  if (ordinal > thread.last_ordinal + 1 || (entry === null && COUNTS.has(type))) next = withGap(next);
  return put(next, { ...withEntry(thread, item), last_ordinal: ordinal, updated_at: newer(thread.updated_at, frame.timestamp) });
}

function withLogEntry(known: ThreadsState, id: string, item: EntryItem): ThreadsState {
  const log = known.logs.get(id);
  if (log === undefined || item.ordinal <= lastOf(log)) return known;
  const follows = item.ordinal === lastOf(log) + 1 && item.entry !== null;
  const next = { ...log, lines: follows ? [...log.lines, item] : log.lines, lastSeen: Math.max(log.lastSeen, item.ordinal) };
  return { ...known, logs: new Map(known.logs).set(id, next), gaps: follows ? known.gaps : known.gaps + 1 };
}

/** Entries that change a thread's figures: a missing one makes them wrong. */
const COUNTS: ReadonlySet<string> = new Set(["turn_accepted", "turn_started", "turn_ended", "usage", "settings", "closed", "resumed", "base"]);

/** Apply one entry to a thread, as the server does. */
function withEntry(thread: ThreadItem, { type, entry, turn_id }: EntryItem): ThreadItem {
  switch (type) {
    case "turn_accepted":
      return withStatus({ ...thread, queued: [...thread.queued, (entry as TurnAcceptedEntry | null)?.turn_id ?? turn_id ?? ""] });
    case "turn_started":
      if (turn_id === null || thread.turn_id === turn_id) return thread;
      return withStatus({ ...thread, turn_id, turns: thread.turns + 1, queued: without(thread.queued, turn_id) });
    case "turn_ended":
      return withStatus({ ...thread, turn_id: thread.turn_id === turn_id ? null : thread.turn_id, queued: without(thread.queued, turn_id) });
    case "usage":
      return { ...thread, tokens_used: thread.tokens_used + ((entry as UsageEntry | null)?.input ?? 0) + ((entry as UsageEntry | null)?.output ?? 0) };
    case "base":
      return { ...thread, base: { ...thread.base, ...pick(entry, ["version", "sha256", "provenance", "item_id", "bytes", "tokens"]) } };
    case "settings":
      return { ...thread, ...pick(entry, ["model", "effort", "tools", "permissions"]) };
    case "closed":
      return withStatus({ ...thread, closed: true });
    case "resumed":
      return withStatus({ ...thread, closed: false });
    default:
      return thread;
  }
}

function withStatus(thread: ThreadItem): ThreadItem {
  return { ...thread, idle: thread.turn_id === null && thread.queued.length === 0 && !thread.closed };
}

function pick(entry: unknown, names: readonly string[]): Record<string, unknown> {
  const all = members(entry) ?? {};
  return Object.fromEntries(names.filter((name) => name in all).map((name) => [name, all[name]]));
}

function without(ids: readonly string[], gone: string | null): string[] {
  return ids.filter((each) => each !== gone);
}

/** An ended call stays ended. */
function withCall(calls: Map<string, CallState>, entry: unknown, when: string): Map<string, CallState> {
  const call = entry as CollabCallEntry;
  const key = `${call.sender_thread_id} ${call.call_id}`;
  const known = calls.get(key);
  const begins = call.status === "inProgress";
  calls.set(key, {
    key,
    call: begins && known !== undefined && known.call.status !== "inProgress" ? known.call : call,
    beganAt: begins ? when : (known?.beganAt ?? null),
    endedAt: begins ? (known?.endedAt ?? null) : when,
  });
  return calls;
}

function withMail(known: ThreadsState, payload: unknown, timestamp: string): ThreadsState {
  const [mail_id, receiver_thread_id, state] = [text(payload, "mail_id"), text(payload, "receiver_thread_id"), text(payload, "state")];
  if (mail_id === null || receiver_thread_id === null || state === null) return known;
  const update = { mail_id, receiver_thread_id, state, mail_type: text(payload, "mail_type") ?? "MESSAGE", author_thread_id: text(payload, "author_thread_id"), sent_at: timestamp } as MailItem;
  return { ...known, mail: new Map(known.mail).set(mail_id, later(known.mail.get(mail_id), update)) };
}

/** Receipts go one way, and the first known time of sending counts. */
function later(before: MailItem | undefined, update: MailItem): MailItem {
  if (before === undefined) return update;
  const sent_at = before.sent_at < update.sent_at ? before.sent_at : update.sent_at;
  const goesOn = STATES.indexOf(update.state) > STATES.indexOf(before.state) && STATES.indexOf(before.state) < SETTLED;
  return { ...before, sent_at, state: goesOn ? update.state : before.state };
}

function put(known: ThreadsState, thread: ThreadItem): ThreadsState {
  return { ...known, threads: new Map(known.threads).set(thread.thread_id, thread) };
}

function withGap(known: ThreadsState): ThreadsState {
  return { ...known, gaps: known.gaps + 1 };
}

function newer(one: string, other: string): string {
  return one > other ? one : other;
}

// -- selectors -----------------------------------------------------------------------------------------------------------

export interface Node {
  thread: ThreadItem;
  level: number;
  /** Its running waits. */
  waits: readonly CallState[];
}

/** The tree from its root, siblings in the order of creation. A thread with a missing parent is at the top. */
export function treeRows({ threads, calls }: ThreadsState): Node[] {
  const below = new Map<string, ThreadItem[]>();
  for (const thread of [...threads.values()].sort(byCreation)) {
    const parent = thread.parent_thread_id !== null && threads.has(thread.parent_thread_id) ? thread.parent_thread_id : "";
    below.set(parent, [...(below.get(parent) ?? []), thread]);
  }
  const rows: Node[] = [];
  const walk = (id: string, level: number): void => {
    for (const thread of below.get(id) ?? []) {
      rows.push({ thread, level, waits: [...calls.values()].filter(({ call }) => call.sender_thread_id === thread.thread_id && isWaiting(call)) });
      walk(thread.thread_id, level + 1);
    }
  };
  walk("", 1);
  return rows;
}

export function isWaiting({ tool, status }: CollabCallEntry): boolean {
  return tool === "wait" && status === "inProgress";
}

export function newestFirst(threads: Iterable<ThreadItem>): ThreadItem[] {
  return [...threads].sort(byCreation).reverse();
}

function byCreation(one: ThreadItem, other: ThreadItem): number {
  if (one.created_at !== other.created_at) return one.created_at < other.created_at ? -1 : 1;
  return one.thread_id < other.thread_id ? -1 : 1;
}
