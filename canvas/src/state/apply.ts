/** The one way from a state and events to the next state. Pure; repeated and old events change nothing. */

import type { EventFrame, SnapshotWorkspace } from "../wire";
import { deliveryOf, stepped, type Step } from "./delivery";
import { lineOfAgentEvent, lineOfUserEvent, withKept, withLine } from "./lines";
import { sameSeat, seatOf, type Chat, type Delivery, type Line, type Seat, type State, type Workspace } from "./model";
import { list, members, number, text, type Members } from "./reading";

export function apply(state: State, frame: EventFrame): State {
  return applyAll(state, [frame]);
}

/** Applies events in their order, and copies each table at most once. */
export function applyAll(state: State, frames: readonly EventFrame[]): State {
  const draft = new Draft(state);
  for (const frame of frames) draft.take(frame);
  return draft.result();
}

type Change = (draft: Draft, frame: EventFrame, payload: Members) => void;

class Draft {
  private readonly base: State;
  private last: number;
  private unknownEvents: number;
  private workspaces: Map<string, Workspace> | null = null;
  private seats: Map<string, Seat> | null = null;
  private chats: Map<string, Chat> | null = null;
  private gone: Map<string, number> | null = null;

  constructor(state: State) {
    this.base = state;
    this.last = state.last;
    this.unknownEvents = state.unknownEvents;
  }

  take(frame: EventFrame): void {
    if (frame.seq !== undefined && frame.seq <= this.last) return;
    const change = CHANGES.get(frame.event);
    const payload = members(frame.payload);
    if (change === undefined || payload === null || members(frame.entity) === null) this.unknownEvents += 1;
    else change(this, frame, payload);
    if (frame.seq !== undefined) this.last = frame.seq;
  }

  result(): State {
    const same = this.last === this.base.last && this.unknownEvents === this.base.unknownEvents;
    if (same && !this.workspaces && !this.chats && !this.gone) return this.base;
    return {
      ...this.base,
      last: this.last,
      unknownEvents: this.unknownEvents,
      workspaces: this.workspaces ?? this.base.workspaces,
      seats: this.seats ?? this.base.seats,
      chats: this.chats ?? this.base.chats,
      gone: this.gone ?? this.base.gone,
    };
  }

  notUnderstood(): void {
    this.unknownEvents += 1;
  }

  workspace(id: string): Workspace | undefined {
    return (this.workspaces ?? this.base.workspaces).get(id);
  }

  /** Whether an event about a workspace is news: `rev` counts what happened to it. */
  isNews(frame: EventFrame): boolean {
    const { id, rev } = frame.entity;
    const known = this.workspace(id)?.rev ?? (this.gone ?? this.base.gone).get(id) ?? -1;
    return rev > known;
  }

  put(workspace: Workspace): void {
    this.workspaces ??= new Map(this.base.workspaces);
    this.workspaces.set(workspace.id, workspace);
    const seat = seatOf(workspace);
    if (sameSeat((this.seats ?? this.base.seats).get(seat.id), seat)) return;
    this.seats ??= new Map(this.base.seats);
    this.seats.set(seat.id, seat);
  }

  remove(id: string, rev: number): void {
    this.gone ??= new Map(this.base.gone);
    this.gone.set(id, rev);
    this.workspaces ??= new Map(this.base.workspaces);
    this.workspaces.delete(id);
    this.seats ??= new Map(this.base.seats);
    this.seats.delete(id);
    this.chats ??= new Map(this.base.chats);
    this.chats.delete(id);
  }

  step(workspaceId: string, step: Step): void {
    const chat = (this.chats ?? this.base.chats).get(workspaceId);
    if (chat === undefined) return;
    const next = stepped(chat, step);
    if (next === chat) return;
    this.chats ??= new Map(this.base.chats);
    this.chats.set(workspaceId, next);
  }

  addLine(workspaceId: string, line: Line): void {
    this.chats ??= new Map(this.base.chats);
    this.chats.set(workspaceId, withLine(this.chats.get(workspaceId), line));
  }

  keepLines(workspaceId: string, kept: readonly number[]): void {
    const chat = (this.chats ?? this.base.chats).get(workspaceId);
    if (chat === undefined) return;
    this.chats ??= new Map(this.base.chats);
    this.chats.set(workspaceId, withKept(chat, kept));
  }
}

function pruned(draft: Draft, frame: EventFrame): void {
  draft.keepLines(frame.workspace_id, list(frame.payload, "kept").filter((each) => typeof each === "number"));
}

function whole(draft: Draft, frame: EventFrame, payload: Members): void {
  if (!draft.isNews(frame)) return;
  if (text(payload, "id") !== frame.entity.id || text(payload, "name") === null) return draft.notUnderstood();
  const known = draft.workspace(frame.entity.id);
  draft.put({
    ...(payload as unknown as SnapshotWorkspace),
    current_task: known?.current_task ?? null,
    last_heard_at: known?.last_heard_at ?? null,
    said_at: later(known?.said_at ?? null, frame.timestamp),
    rev: frame.entity.rev,
  });
}

/** A change of some members of a known workspace, at one of its revisions. */
function some(read: (payload: Members, frame: EventFrame, known: Workspace) => Partial<Workspace>): Change {
  return (draft, frame, payload) => {
    const known = draft.workspace(frame.entity.id);
    if (known === undefined || !draft.isNews(frame)) return;
    const dates = { updated_at: frame.timestamp, said_at: later(known.said_at, frame.timestamp) };
    draft.put({ ...known, ...dates, ...read(payload, frame, known), rev: frame.entity.rev });
  };
}

/** What an agent says while it works: it has no revision, the newer one counts. */
function said(read: (payload: Members, known: Workspace) => Partial<Workspace>): Change {
  return (draft, frame, payload) => {
    const known = draft.workspace(frame.workspace_id);
    if (known === undefined || (known.said_at !== null && frame.timestamp < known.said_at)) return;
    const last_heard_at = later(known.last_heard_at, frame.timestamp);
    draft.put({ ...known, ...read(payload, known), last_heard_at, said_at: frame.timestamp });
  };
}

function later(one: string | null, other: string | null): string | null {
  if (one === null || other === null) return one ?? other;
  return one >= other ? one : other;
}

function line(read: (frame: EventFrame) => Line | null): Change {
  return (draft, frame) => {
    const found = read(frame);
    if (found === null) draft.notUnderstood();
    else if (draft.workspace(frame.workspace_id) !== undefined) draft.addLine(frame.workspace_id, found);
  };
}

/** Messages have come further; `read` says which, or null if the event has another shape than this page knows. */
function way(read: (payload: Members) => Step | null): Change {
  return (draft, frame, payload) => {
    const step = read(payload);
    if (step === null) draft.notUnderstood();
    else draft.step(frame.workspace_id, step);
  };
}

function tickOf(payload: Members): Step | null {
  const [first, last, tick] = [number(payload, "first_seq"), number(payload, "last_seq"), text(payload, "tick")];
  if (first === null || last === null || tick === null) return null;
  return { first, last, delivery: deliveryOf(tick), trouble: null, back: false };
}

/** One message that is given up, or sent again. */
function single(delivery: Delivery, back: boolean): Change {
  return way((payload) => {
    const seq = number(payload, "seq");
    return seq === null ? null : { first: seq, last: seq, delivery, trouble: text(payload, "reason"), back };
  });
}

function silent(status: string): Change {
  return some((payload, _frame, known) => ({
    status,
    last_heard_at: later(known.last_heard_at, text(payload, "last_heard_at")),
  }));
}

/** A word about something else than what this state holds. */
const nothing: Change = () => undefined;

const CHANGES = new Map<string, Change>([
  ["WORKSPACE_PROVISIONING", whole],
  ["WORKSPACE_UPDATED", whole],
  [
    "WORKSPACE_ONLINE",
    some((payload, frame, known) => ({
      status: "online",
      delivery_mode: text(payload, "delivery_mode") ?? known.delivery_mode,
      agent_card: payload["agent_card"] ?? known.agent_card,
      url: text(payload, "url") ?? known.url,
      last_heard_at: later(known.last_heard_at, frame.timestamp),
    })),
  ],
  [
    "WORKSPACE_DEGRADED",
    some((payload, frame, known) => ({
      status: "degraded",
      last_error_rate: number(payload, "error_rate") ?? known.last_error_rate,
      last_heard_at: later(known.last_heard_at, frame.timestamp),
    })),
  ],
  ["WORKSPACE_OFFLINE", silent("offline")],
  ["WORKSPACE_AWAITING_AGENT", silent("awaiting_agent")],
  ["WORKSPACE_REMOVED", (draft, frame) => draft.isNews(frame) && draft.remove(frame.entity.id, frame.entity.rev)],
  [
    "WORKSPACE_MOVED",
    some((payload, _frame, known) => ({ parent_id: text(payload, "parent_id"), name: text(payload, "name") ?? known.name })),
  ],
  ["WORKSPACE_PAUSED", some(() => ({ status: "paused" }))],
  ["WORKSPACE_HIBERNATED", some(() => ({ status: "hibernated" }))],
  // Each member of a team is told by an event of its own.
  ["WORKSPACE_EXPANDED", nothing],
  ["WORKSPACE_COLLAPSED", nothing],
  ["EXTERNAL_CREDENTIALS_ROTATED", nothing],
  ["PEOPLE_CHANGED", nothing],
  ["AGENT_CARD_UPDATED", some((payload) => ({ agent_card: payload["agent_card"] ?? null }))],
  [
    "TASK_UPDATED",
    said((payload, known) => ({
      current_task: text(payload, "current_task"),
      active_tasks: number(payload, "active_tasks") ?? known.active_tasks,
    })),
  ],
  [
    "WORKSPACE_HEARTBEAT",
    said((payload, known) => ({
      active_tasks: number(payload, "active_tasks") ?? known.active_tasks,
      uptime_seconds: number(payload, "uptime_seconds") ?? known.uptime_seconds,
      current_task: "current_task" in payload ? text(payload, "current_task") : known.current_task,
    })),
  ],
  ["USER_MESSAGE", line(lineOfUserEvent)],
  ["AGENT_MESSAGE", line(lineOfAgentEvent)],
  ["MESSAGE_TICK", way(tickOf)],
  ["MESSAGE_DEAD", single("dead", false)],
  ["MESSAGE_REQUEUED", single("stored", true)],
  ["MESSAGE_DISCARDED", nothing],
  ["CHAIN_FROZEN", nothing],
  ["CHAIN_RELEASED", nothing],
  ["CHAIN_ENDED", nothing],
  ["BROADCAST_MESSAGE", nothing],
  ["ACTIVITY_LOGGED", nothing],
  ["CHAT_PRUNED", pruned],
  ["MEMORY_WRITTEN", nothing],
  ["MEMORY_FORGOTTEN", nothing],
]);
