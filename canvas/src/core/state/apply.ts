/** The one way from a state and events to the next state. Pure; repeated and old events change nothing. */

import type { EventFrame, SnapshotWorkspace } from "../wire";
import { approvalOf, withApprovals, type Approval, type Approvals } from "./approvals";
import { isAnsweringWord, toldOf, waitsAfter, type Told } from "./obligationUpdates";
import { keep, ofEvent, type Delegation } from "./delegations";
import { deliveryOf, stepped, type Step } from "./delivery";
import { lineOfAgentEvent, lineOfDelegation, lineOfUserEvent, withKept, withLine } from "./lines";
import { sameSeat, seatOf, type Chat, type Delivery, type Line, type Refused, type Seat, type State, type Workspace } from "./model";
import type { Unanswered } from "./obligations";
import { list, members, number, text, type Members } from "./json";

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
  private unanswered: Map<string, Unanswered> | null = null;
  private delegations: Map<string, Delegation> | null = null;
  private approvals: Approvals | null = null;
  private refused: readonly Refused[] | null = null;
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
    const touched = this.workspaces ?? this.chats ?? this.unanswered ?? this.delegations ?? this.approvals ?? this.refused ?? this.gone;
    if (same && touched === null) return this.base;
    return {
      ...this.base,
      last: this.last,
      unknownEvents: this.unknownEvents,
      workspaces: this.workspaces ?? this.base.workspaces,
      seats: this.seats ?? this.base.seats,
      chats: this.chats ?? this.base.chats,
      unanswered: this.unanswered ?? this.base.unanswered,
      delegations: this.delegations ?? this.base.delegations,
      approvals: this.approvals ?? this.base.approvals,
      refused: this.refused ?? this.base.refused,
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
    this.wait(id, null);
  }

  /** Changes a chat that the page knows. */
  change(workspaceId: string, change: (chat: Chat) => Chat): void {
    const chat = (this.chats ?? this.base.chats).get(workspaceId);
    if (chat === undefined) return;
    const next = change(chat);
    if (next === chat) return;
    this.chats ??= new Map(this.base.chats);
    this.chats.set(workspaceId, next);
  }

  /** Something became known of the answers that a workspace owes. */
  answering(workspaceId: string, told: Told): void {
    if (this.workspace(workspaceId) === undefined) return;
    this.change(workspaceId, (chat) => toldOf(chat, told));
    const known = (this.unanswered ?? this.base.unanswered).get(workspaceId);
    const next = waitsAfter(known, told);
    if (next !== (known ?? null)) this.wait(workspaceId, next);
  }

  private wait(workspaceId: string, waits: Unanswered | null): void {
    if (waits === null && !(this.unanswered ?? this.base.unanswered).has(workspaceId)) return;
    this.unanswered ??= new Map(this.base.unanswered);
    if (waits === null) this.unanswered.delete(workspaceId);
    else this.unanswered.set(workspaceId, waits);
  }

  addLine(workspaceId: string, line: Line): void {
    this.chats ??= new Map(this.base.chats);
    this.chats.set(workspaceId, withLine(this.chats.get(workspaceId), line));
  }

  delegation(id: string): Delegation | undefined {
    return (this.delegations ?? this.base.delegations).get(id);
  }

  putDelegation(one: Delegation): void {
    this.delegations ??= new Map(this.base.delegations);
    keep(this.delegations, one);
  }

  putApproval(one: Approval): void {
    const known = this.approvals ?? this.base.approvals;
    const next = withApprovals(known, [one]);
    if (next !== known) this.approvals = next;
  }

  refuse(refused: Refused): void {
    this.refused = [...(this.refused ?? this.base.refused).slice(-MOST_REFUSED + 1), refused];
  }
}

/** So many stopped delegations are shown. */
const MOST_REFUSED = 50;

/** An event about a delegation; its first one makes the line in the chat of who gave the work. */
function delegated(draft: Draft, frame: EventFrame): void {
  const id = text(frame.payload, "delegation_id");
  const known = draft.delegation(id ?? "");
  // Progress comes late at times: it must not bring one back that ended before this page looked.
  if (known === undefined && frame.seq === undefined) return;
  const one = id === null ? null : ofEvent(known, frame);
  if (one === null) return draft.notUnderstood();
  draft.putDelegation(one);
  const source = frame.workspace_id;
  if (frame.event === "DELEGATION_SENT" && draft.workspace(source) !== undefined) draft.addLine(source, lineOfDelegation(one));
}

function asked(draft: Draft, _frame: EventFrame, payload: Members): void {
  const one = approvalOf(payload);
  if (one === null) draft.notUnderstood();
  else draft.putApproval(one);
}

function stopped(draft: Draft, frame: EventFrame, payload: Members): void {
  const [targetId, limit] = [text(payload, "target_id"), text(payload, "limit")];
  if (targetId === null || limit === null) return draft.notUnderstood();
  draft.refuse({
    seq: frame.seq ?? 0,
    at: frame.timestamp,
    sourceId: frame.workspace_id,
    targetId,
    task: text(payload, "task_preview") ?? "",
    limit,
    use: number(payload, "use") ?? 0,
    most: number(payload, "most") ?? 0,
    remedy: text(payload, "remedy") ?? "",
  });
}

function pruned(draft: Draft, frame: EventFrame): void {
  const kept = list(frame.payload, "kept").filter((each) => typeof each === "number");
  draft.change(frame.workspace_id, (chat) => withKept(chat, kept));
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

/** Messages of a range have come further, or were answered, or were not. */
function ticked(draft: Draft, frame: EventFrame, payload: Members): void {
  const [first, last, tick] = [number(payload, "first_seq"), number(payload, "last_seq"), text(payload, "tick")];
  if (first === null || last === null || tick === null) return draft.notUnderstood();
  const step: Step = { seq: frame.seq ?? 0, first, last, delivery: deliveryOf(tick), trouble: null, back: false };
  draft.change(frame.workspace_id, (chat) => stepped(chat, step));
  if (!isAnsweringWord(tick)) return;
  draft.answering(frame.workspace_id, { seq: frame.seq ?? 0, first, last, what: tick, reason: text(payload, "reason") });
}

/** One message whose answer is overdue, or was said and not sent; `read` says which. */
function answering(read: (payload: Members) => Told["what"] | null): Change {
  return (draft, frame, payload) => {
    const [what, seq] = [read(payload), number(payload, "seq")];
    if (what === null || seq === null) return draft.notUnderstood();
    draft.answering(frame.workspace_id, { seq: frame.seq ?? 0, first: seq, last: seq, what, reason: null });
  };
}

/** A draft that was sent is told as an answer besides. */
const DRAFTED: Readonly<Record<string, Told["what"]>> = { kept: "drafted", sent: "undrafted", discarded: "undrafted" };

/** One message that is given up, or sent again. */
function single(delivery: Delivery, back: boolean): Change {
  return (draft, frame, payload) => {
    const one = number(payload, "seq");
    if (one === null) return draft.notUnderstood();
    const step: Step = { seq: frame.seq ?? 0, first: one, last: one, delivery, trouble: text(payload, "reason"), back };
    draft.change(frame.workspace_id, (chat) => stepped(chat, step));
  };
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
      // Null is said too: an agent may come without the card that the one before it had.
      agent_card: "agent_card" in payload ? payload["agent_card"] : known.agent_card,
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
  ["MESSAGE_TICK", ticked],
  ["MESSAGE_OVERDUE", answering(() => "overdue")],
  ["MESSAGE_DRAFTED", answering((payload) => DRAFTED[text(payload, "state") ?? ""] ?? null)],
  ["MESSAGE_DEAD", single("dead", false)],
  ["MESSAGE_REQUEUED", single("stored", true)],
  ["MESSAGE_DISCARDED", nothing],
  ["CHAIN_FROZEN", nothing],
  ["CHAIN_RELEASED", nothing],
  ["CHAIN_ENDED", nothing],
  ["BROADCAST_MESSAGE", nothing],
  ["ACTIVITY_LOGGED", nothing],
  ["CHAT_PRUNED", pruned],
  ["DELEGATION_SENT", delegated],
  ["DELEGATION_STATUS", delegated],
  ["DELEGATION_COMPLETE", delegated],
  ["DELEGATION_FAILED", delegated],
  ["DELEGATION_REFUSED", stopped],
  ["APPROVAL_REQUESTED", asked],
  ["APPROVAL_ESCALATED", asked],
  ["APPROVAL_INFO_REQUESTED", asked],
  ["APPROVAL_ANSWERED", asked],
  ["APPROVAL_APPROVED", asked],
  ["APPROVAL_DENIED", asked],
  ["APPROVAL_EXPIRED", asked],
  ["APPROVAL_WITHDRAWN", asked],
  ["APPROVAL_USED", asked],
  ["APPROVAL_POLICIES_UPDATED", nothing],
  ["MEMORY_WRITTEN", nothing],
  ["MEMORY_FORGOTTEN", nothing],
  ["SHARED_CONTEXT_UPDATED", nothing],
  ["PROMPT_BUILT", nothing],
  ["THREAD_STARTED", nothing],
  ["THREAD_STATUS_CHANGED", nothing],
  ["THREAD_ITEM", nothing],
  ["TURN_STARTED", nothing],
  ["TURN_COMPLETED", nothing],
  ["THREAD_CLOSED", nothing],
  ["THREAD_MAIL", nothing],
  ["INSTRUCTION_TEMPLATE_SAVED", nothing],
  ["INSTRUCTION_TEMPLATE_FAILED", nothing],
  ["INSTRUCTION_TEMPLATE_ROLLED_BACK", nothing],
]);
