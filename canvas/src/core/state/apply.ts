/** Apply events to the state. Pure; repeated and old events change nothing. */

import type { EventFrame, SnapshotWorkspace } from "../wire";
import { approvalOf, withApprovals, type Approval, type Approvals } from "./approvals";
import { isObligationTick, withObligationUpdate, unansweredAfter, type ObligationUpdate } from "./obligationUpdates";
import { keepRecent, ofEvent, type Delegation } from "./delegations";
import { deliveryOf, withDeliveryStep, type DeliveryStep } from "./delivery";
import { lineOfAgentEvent, lineOfDelegation, lineOfUserEvent, withKept, withLine } from "./lines";
import { sameOrgNode, orgNodeOf, type Chat, type Delivery, type Line, type RefusedDelegation, type OrgNode, type State, type Workspace } from "./model";
import type { Unanswered } from "./obligations";
import { list, members, number, text, type Members } from "./json";

export function apply(state: State, frame: EventFrame): State {
  return applyAll(state, [frame]);
}

/** Apply events in order, copying each table at most once. */
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
  private orgNodes: Map<string, OrgNode> | null = null;
  private chats: Map<string, Chat> | null = null;
  private unanswered: Map<string, Unanswered> | null = null;
  private delegations: Map<string, Delegation> | null = null;
  private approvals: Approvals | null = null;
  private org: State["org"] | null = null;
  private refused: readonly RefusedDelegation[] | null = null;
  private removed: Map<string, number> | null = null;

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
    const touched = this.workspaces ?? this.chats ?? this.unanswered ?? this.delegations ?? this.approvals ?? this.refused ?? this.removed;
    if (same && touched === null) return this.base;
    return {
      ...this.base,
      org: this.org ?? this.base.org,
      last: this.last,
      unknownEvents: this.unknownEvents,
      workspaces: this.workspaces ?? this.base.workspaces,
      orgNodes: this.orgNodes ?? this.base.orgNodes,
      chats: this.chats ?? this.base.chats,
      unanswered: this.unanswered ?? this.base.unanswered,
      delegations: this.delegations ?? this.base.delegations,
      approvals: this.approvals ?? this.base.approvals,
      refused: this.refused ?? this.base.refused,
      removed: this.removed ?? this.base.removed,
    };
  }

  renameOrg(name: string | null): void {
    if (name !== null) this.org = { ...this.base.org, name };
  }

  countUnknown(): void {
    this.unknownEvents += 1;
  }

  workspace(id: string): Workspace | undefined {
    return (this.workspaces ?? this.base.workspaces).get(id);
  }

  /** Whether an event about a workspace is new: `rev` counts its changes. */
  isNews(frame: EventFrame): boolean {
    const { id, rev } = frame.entity;
    const known = this.workspace(id)?.rev ?? (this.removed ?? this.base.removed).get(id) ?? -1;
    return rev > known;
  }

  put(workspace: Workspace): void {
    this.workspaces ??= new Map(this.base.workspaces);
    this.workspaces.set(workspace.id, workspace);
    const node = orgNodeOf(workspace);
    if (sameOrgNode((this.orgNodes ?? this.base.orgNodes).get(node.id), node)) return;
    this.orgNodes ??= new Map(this.base.orgNodes);
    this.orgNodes.set(node.id, node);
  }

  remove(id: string, rev: number): void {
    this.removed ??= new Map(this.base.removed);
    this.removed.set(id, rev);
    this.workspaces ??= new Map(this.base.workspaces);
    this.workspaces.delete(id);
    this.orgNodes ??= new Map(this.base.orgNodes);
    this.orgNodes.delete(id);
    this.chats ??= new Map(this.base.chats);
    this.chats.delete(id);
    this.setUnanswered(id, null);
  }

  /** Change a known chat. */
  change(workspaceId: string, change: (chat: Chat) => Chat): void {
    const chat = (this.chats ?? this.base.chats).get(workspaceId);
    if (chat === undefined) return;
    const next = change(chat);
    if (next === chat) return;
    this.chats ??= new Map(this.base.chats);
    this.chats.set(workspaceId, next);
  }

  /** Apply an update of the obligations of a workspace. */
  updateObligations(workspaceId: string, update: ObligationUpdate): void {
    if (this.workspace(workspaceId) === undefined) return;
    this.change(workspaceId, (chat) => withObligationUpdate(chat, update));
    const known = (this.unanswered ?? this.base.unanswered).get(workspaceId);
    const next = unansweredAfter(known, update);
    if (next !== (known ?? null)) this.setUnanswered(workspaceId, next);
  }

  private setUnanswered(workspaceId: string, waits: Unanswered | null): void {
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
    keepRecent(this.delegations, one);
  }

  putApproval(one: Approval): void {
    const known = this.approvals ?? this.base.approvals;
    const next = withApprovals(known, [one]);
    if (next !== known) this.approvals = next;
  }

  refuse(refused: RefusedDelegation): void {
    this.refused = [...(this.refused ?? this.base.refused).slice(-MAX_REFUSED + 1), refused];
  }
}

/** At most this many rejected delegations are shown. */
const MAX_REFUSED = 50;

/** An event about a delegation. The first one adds a line to the chat of the delegating agent. */
function delegationChanged(draft: Draft, frame: EventFrame): void {
  const id = text(frame.payload, "delegation_id");
  const known = draft.delegation(id ?? "");
  // A late progress event must not reopen a delegation that ended before this page was loaded.
  if (known === undefined && frame.seq === undefined) return;
  const one = id === null ? null : ofEvent(known, frame);
  if (one === null) return draft.countUnknown();
  draft.putDelegation(one);
  const source = frame.workspace_id;
  if (frame.event === "DELEGATION_SENT" && draft.workspace(source) !== undefined) draft.addLine(source, lineOfDelegation(one));
}

function approvalChanged(draft: Draft, _frame: EventFrame, payload: Members): void {
  const one = approvalOf(payload);
  if (one === null) draft.countUnknown();
  else draft.putApproval(one);
}

function delegationRefused(draft: Draft, frame: EventFrame, payload: Members): void {
  const [targetId, limit] = [text(payload, "target_id"), text(payload, "limit")];
  if (targetId === null || limit === null) return draft.countUnknown();
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

function chatPruned(draft: Draft, frame: EventFrame): void {
  const kept = list(frame.payload, "kept").filter((each) => typeof each === "number");
  draft.change(frame.workspace_id, (chat) => withKept(chat, kept));
}

function wholeWorkspace(draft: Draft, frame: EventFrame, payload: Members): void {
  if (!draft.isNews(frame)) return;
  if (text(payload, "id") !== frame.entity.id || text(payload, "name") === null) return draft.countUnknown();
  const known = draft.workspace(frame.entity.id);
  draft.put({
    ...(payload as unknown as SnapshotWorkspace),
    current_task: known?.current_task ?? null,
    last_heard_at: known?.last_heard_at ?? null,
    reported_at: later(known?.reported_at ?? null, frame.timestamp),
    rev: frame.entity.rev,
  });
}

/** A change of some members of a known workspace at one of its revisions. */
function someMembers(read: (payload: Members, frame: EventFrame, known: Workspace) => Partial<Workspace>): Change {
  return (draft, frame, payload) => {
    const known = draft.workspace(frame.entity.id);
    if (known === undefined || !draft.isNews(frame)) return;
    const dates = { updated_at: frame.timestamp, reported_at: later(known.reported_at, frame.timestamp) };
    draft.put({ ...known, ...dates, ...read(payload, frame, known), rev: frame.entity.rev });
  };
}

/** Events of a working agent have no revision; the newer timestamp counts. */
function report(read: (payload: Members, known: Workspace) => Partial<Workspace>): Change {
  return (draft, frame, payload) => {
    const known = draft.workspace(frame.workspace_id);
    if (known === undefined || (known.reported_at !== null && frame.timestamp < known.reported_at)) return;
    draft.put({ ...known, ...read(payload, known), reported_at: frame.timestamp });
  };
}

function later(one: string | null, other: string | null): string | null {
  if (one === null || other === null) return one ?? other;
  return one >= other ? one : other;
}

function line(read: (frame: EventFrame) => Line | null): Change {
  return (draft, frame) => {
    const found = read(frame);
    if (found === null) draft.countUnknown();
    else if (draft.workspace(frame.workspace_id) !== undefined) draft.addLine(frame.workspace_id, found);
  };
}

/** Delivery or obligation update of a range of messages. */
function messagesTicked(draft: Draft, frame: EventFrame, payload: Members): void {
  const [first, last, tick] = [number(payload, "first_seq"), number(payload, "last_seq"), text(payload, "tick")];
  if (first === null || last === null || tick === null) return draft.countUnknown();
  const step: DeliveryStep = { seq: frame.seq ?? 0, first, last, delivery: deliveryOf(tick), problem: null, back: false };
  draft.change(frame.workspace_id, (chat) => withDeliveryStep(chat, step));
  if (!isObligationTick(tick)) return;
  draft.updateObligations(frame.workspace_id, { seq: frame.seq ?? 0, first, last, what: tick, reason: text(payload, "reason") });
}

/** An update of one obligation: overdue, or a draft. `read` says which. */
function obligationChanged(read: (payload: Members) => ObligationUpdate["what"] | null): Change {
  return (draft, frame, payload) => {
    const [what, seq] = [read(payload), number(payload, "seq")];
    if (what === null || seq === null) return draft.countUnknown();
    draft.updateObligations(frame.workspace_id, { seq: frame.seq ?? 0, first: seq, last: seq, what, reason: null });
  };
}

/** A sent draft is also reported as an answer. */
const DRAFT_CHANGES: Readonly<Record<string, ObligationUpdate["what"]>> = { kept: "drafted", sent: "undrafted", discarded: "undrafted" };

/** One message that became a dead letter or was requeued. */
function messageDelivery(delivery: Delivery, back: boolean): Change {
  return (draft, frame, payload) => {
    const one = number(payload, "seq");
    if (one === null) return draft.countUnknown();
    const step: DeliveryStep = { seq: frame.seq ?? 0, first: one, last: one, delivery, problem: text(payload, "reason"), back };
    draft.change(frame.workspace_id, (chat) => withDeliveryStep(chat, step));
  };
}

function silent(status: string): Change {
  return someMembers((payload, _frame, known) => ({
    status,
    last_heard_at: later(known.last_heard_at, text(payload, "last_heard_at")),
  }));
}

/** An event about something that this state does not hold. */
const ignore: Change = () => undefined;

const CHANGES = new Map<string, Change>([
  ["WORKSPACE_PROVISIONING", wholeWorkspace],
  ["WORKSPACE_UPDATED", wholeWorkspace],
  [
    "WORKSPACE_ONLINE",
    someMembers((payload, frame, known) => ({
      status: "online",
      delivery_mode: text(payload, "delivery_mode") ?? known.delivery_mode,
      // Null is a value too: a new agent may have no agent card.
      agent_card: "agent_card" in payload ? payload["agent_card"] : known.agent_card,
      url: text(payload, "url") ?? known.url,
      last_heard_at: later(known.last_heard_at, frame.timestamp),
    })),
  ],
  [
    "WORKSPACE_DEGRADED",
    someMembers((payload, frame, known) => ({
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
    someMembers((payload, _frame, known) => ({ parent_id: text(payload, "parent_id"), name: text(payload, "name") ?? known.name })),
  ],
  ["WORKSPACE_PAUSED", someMembers(() => ({ status: "paused" }))],
  ["WORKSPACE_HIBERNATED", someMembers(() => ({ status: "hibernated" }))],
  [
    "WORKSPACE_LIMITED",
    someMembers((payload) => ({ limited_until: text(payload, "limited_until"), limit_reason: text(payload, "limit_reason") })),
  ],
  ["WORKSPACE_LIMIT_ENDED", someMembers(() => ({ limited_until: null, limit_reason: null }))],
  // Each member of a team gets its own event.
  ["WORKSPACE_EXPANDED", ignore],
  ["WORKSPACE_COLLAPSED", ignore],
  ["EXTERNAL_CREDENTIALS_ROTATED", ignore],
  ["OAUTH_GRANT_CHANGED", ignore],
  ["ORG_UPDATED", (draft, _frame, payload) => draft.renameOrg(text(payload, "name"))],
  ["PEOPLE_CHANGED", ignore],
  ["RUNNERS_CHANGED", ignore],
  ["AGENT_CARD_UPDATED", someMembers((payload) => ({ agent_card: payload["agent_card"] ?? null }))],
  [
    "TASK_UPDATED",
    report((payload, known) => ({
      current_task: text(payload, "current_task"),
      active_tasks: number(payload, "active_tasks") ?? known.active_tasks,
    })),
  ],
  [
    "WORKSPACE_HEARTBEAT",
    report((payload, known) => ({
      // Not the time of the event, which is sent up to 0.25 s later.
      last_heard_at: later(known.last_heard_at, text(payload, "last_heard_at")),
      active_tasks: number(payload, "active_tasks") ?? known.active_tasks,
      uptime_seconds: number(payload, "uptime_seconds") ?? known.uptime_seconds,
      current_task: "current_task" in payload ? text(payload, "current_task") : known.current_task,
    })),
  ],
  ["LIVE_TURN", ignore], // in a store of its own: it changes ten times a second
  ["USER_MESSAGE", line(lineOfUserEvent)],
  ["AGENT_MESSAGE", line(lineOfAgentEvent)],
  ["MESSAGE_TICK", messagesTicked],
  ["MESSAGE_OVERDUE", obligationChanged(() => "overdue")],
  ["MESSAGE_DRAFTED", obligationChanged((payload) => DRAFT_CHANGES[text(payload, "state") ?? ""] ?? null)],
  ["MESSAGE_DEAD", messageDelivery("dead", false)],
  ["MESSAGE_REQUEUED", messageDelivery("stored", true)],
  ["MESSAGE_DISCARDED", ignore],
  ["CHAIN_FROZEN", ignore],
  ["CHAIN_RELEASED", ignore],
  ["CHAIN_ENDED", ignore],
  ["BROADCAST_MESSAGE", ignore],
  ["ACTIVITY_LOGGED", ignore],
  ["CHAT_PRUNED", chatPruned],
  ["DELEGATION_SENT", delegationChanged],
  ["DELEGATION_STATUS", delegationChanged],
  ["DELEGATION_COMPLETE", delegationChanged],
  ["DELEGATION_FAILED", delegationChanged],
  ["DELEGATION_REFUSED", delegationRefused],
  ["APPROVAL_REQUESTED", approvalChanged],
  ["APPROVAL_ESCALATED", approvalChanged],
  ["APPROVAL_INFO_REQUESTED", approvalChanged],
  ["APPROVAL_ANSWERED", approvalChanged],
  ["APPROVAL_APPROVED", approvalChanged],
  ["APPROVAL_DENIED", approvalChanged],
  ["APPROVAL_EXPIRED", approvalChanged],
  ["APPROVAL_WITHDRAWN", approvalChanged],
  ["APPROVAL_USED", approvalChanged],
  ["APPROVAL_POLICIES_UPDATED", ignore],
  ["BUDGET_CHANGED", ignore],
  ["BUDGET_DELETED", ignore],
  ["BUDGET_NOTICED", ignore],
  ["BUDGET_EXHAUSTED", ignore],
  ["SCHEDULE_CHANGED", ignore],
  ["SCHEDULE_DELETED", ignore],
  ["SCHEDULE_RAN", ignore],
  ["MEMORY_WRITTEN", ignore],
  ["MEMORY_FORGOTTEN", ignore],
  ["SHARED_CONTEXT_UPDATED", ignore],
  ["PROMPT_BUILT", ignore],
  ["THREAD_STARTED", ignore],
  ["THREAD_STATUS_CHANGED", ignore],
  ["THREAD_ITEM", ignore],
  ["TURN_STARTED", ignore],
  ["TURN_COMPLETED", ignore],
  ["THREAD_CLOSED", ignore],
  ["THREAD_MAIL", ignore],
  ["INSTRUCTION_TEMPLATE_SAVED", ignore],
  ["INSTRUCTION_TEMPLATE_FAILED", ignore],
  ["INSTRUCTION_TEMPLATE_ROLLED_BACK", ignore],
]);
