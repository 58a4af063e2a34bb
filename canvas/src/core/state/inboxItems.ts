/** The inbox: everything that waits for a person, each thing once, oldest first. Pure. */

import { isSilent, statusOf, STATUS_TEXTS, type AgentStatus } from "./agentStatus";
import { approvalLists, type Approval } from "./approvals";
import { isOpen, type Delegation } from "./delegations";
import { refusedKey, type DelegationProblems } from "./delegationLists";
import type { InboxKind } from "./inboxKinds";
import type { RefusedDelegation, State, Workspace } from "./model";
import { plural } from "../text/strings";
import type { DeadLetter, MessageChain, OpenQuestion, Problems, UnansweredMessage, UnclaimedMessages } from "./problems";

/** An agent that needs a person. */
export interface AgentTrouble {
  workspace: Workspace;
  status: AgentStatus;
  /** Open tasks of other agents that wait for it, oldest first. */
  tasks: readonly Delegation[];
  /** Messages that it has not picked up for long. */
  unclaimed: UnclaimedMessages | null;
}

type Subject =
  | { kind: "approval"; approval: Approval }
  | { kind: "question"; question: OpenQuestion }
  | { kind: "draft" | "overdue"; message: UnansweredMessage }
  | { kind: "task"; trouble: "failed" | "stuck" | "unknown"; delegation: Delegation }
  | { kind: "task"; trouble: "blocked"; refused: RefusedDelegation }
  | { kind: "undelivered"; trouble: "dead"; deadLetter: DeadLetter }
  | { kind: "undelivered"; trouble: "unclaimed"; unclaimed: UnclaimedMessages }
  | { kind: "chain"; chain: MessageChain }
  | { kind: "agent"; agent: AgentTrouble };

export type InboxItem = Subject & {
  key: string;
  /** Its agent. */
  workspaceId: string;
  name: string;
  /** Since when it waits. */
  since: string;
  /** What it is, in a few words. */
  text: string;
};

export type InboxState = Pick<State, "workspaces" | "approvals" | "delegations">;

/** `mayDecide`: approvals and questions wait for this person. */
export function inboxItems(state: InboxState, problems: Problems, work: DelegationProblems, mayDecide: boolean): readonly InboxItem[] {
  const { workspaces } = state;
  const agents = agentTroubles(state, problems.unclaimed);
  const isCause = (id: string): boolean => agents.has(id);
  const found: InboxItem[] = [
    ...(mayDecide ? [...approvalLists(state.approvals).waiting.map(approvalItem), ...problems.questions.map(questionItem)] : []),
    ...problems.unanswered.map(unansweredItem),
    ...problems.unclaimed.filter(({ workspaceId }) => !isCause(workspaceId)).map(unclaimedItem),
    ...problems.deadLetters.map(deadLetterItem),
    ...problems.chains.map(chainItem),
    ...work.failed.map((each) => taskItem("failed", each, workspaces)),
    ...work.stuck.filter(({ targetId }) => !isCause(targetId)).map((each) => taskItem("stuck", each, workspaces)),
    ...work.unknown.filter(({ targetId }) => !isCause(targetId)).map((each) => taskItem("unknown", each, workspaces)),
    ...work.refused.map((each) => refusedItem(each, workspaces)),
    ...[...agents.values()].map((each) => agentItem(each, workspaces)),
  ];
  return found
    .map((each) => ({ ...each, name: workspaces.get(each.workspaceId)?.name ?? each.name }))
    .sort((one, other) => (one.since === other.since ? (one.key < other.key ? -1 : 1) : one.since < other.since ? -1 : 1));
}

function approvalItem(approval: Approval): InboxItem {
  const { id, workspaceId, requesterName, createdAt, path } = approval;
  const since = path.findLast(({ what }) => what === "asked" || what === "answered")?.at ?? createdAt;
  return { kind: "approval", approval, key: `approval ${id}`, workspaceId, name: requesterName, since, text: "Needs approval" };
}

function questionItem(question: OpenQuestion): InboxItem {
  const { activityId, workspaceId, workspaceName, askedAt } = question;
  return { kind: "question", question, key: `question ${activityId}`, workspaceId, name: workspaceName, since: askedAt, text: "Asks a question" };
}

function unansweredItem(message: UnansweredMessage): InboxItem {
  const { activityId, workspaceId, workspaceName, handedAt, draft } = message;
  const about = { message, key: `answer ${activityId}`, workspaceId, name: workspaceName, since: handedAt };
  return draft === null ? { ...about, kind: "overdue", text: "Answer overdue" } : { ...about, kind: "draft", text: "Answer not sent" };
}

function unclaimedItem(unclaimed: UnclaimedMessages): InboxItem {
  const { workspaceId, workspaceName, since, waiting, more } = unclaimed;
  const text = `${more ? "Over " : ""}${plural(waiting, "message")} not picked up`;
  return { kind: "undelivered", trouble: "unclaimed", unclaimed, key: `unclaimed ${workspaceId}`, workspaceId, name: workspaceName, since, text };
}

function deadLetterItem(deadLetter: DeadLetter): InboxItem {
  const { activityId, workspaceId, workspaceName, diedAt } = deadLetter;
  return { kind: "undelivered", trouble: "dead", deadLetter, key: `dead ${activityId}`, workspaceId, name: workspaceName, since: diedAt, text: "Message not delivered" };
}

function chainItem(chain: MessageChain): InboxItem {
  const { rootId, workspaceId, workspaceName, frozenAt } = chain;
  return { kind: "chain", chain, key: `chain ${rootId}`, workspaceId: workspaceId ?? "", name: workspaceName ?? "Message chain", since: frozenAt, text: "Message chain stopped" };
}

const TASK_TEXTS = { failed: "Task failed", stuck: "Task stuck", unknown: "Task with unknown outcome" } as const;

function taskItem(trouble: keyof typeof TASK_TEXTS, delegation: Delegation, workspaces: State["workspaces"]): InboxItem {
  const { id, sourceId, settledAt, lifeAt } = delegation;
  const name = workspaces.get(sourceId)?.name ?? "Removed agent";
  return { kind: "task", trouble, delegation, key: `task ${id}`, workspaceId: sourceId, name, since: settledAt ?? lifeAt, text: TASK_TEXTS[trouble] };
}

function refusedItem(refused: RefusedDelegation, workspaces: State["workspaces"]): InboxItem {
  const { sourceId, at } = refused;
  const name = workspaces.get(sourceId)?.name ?? "Removed agent";
  return { kind: "task", trouble: "blocked", refused, key: refusedKey(refused), workspaceId: sourceId, name, since: at, text: "Delegation blocked" };
}

/** Agents that have failed or are degraded, and those that are not there while other agents wait for them. */
function agentTroubles({ workspaces, delegations }: InboxState, unclaimed: Problems["unclaimed"]): ReadonlyMap<string, AgentTrouble> {
  const tasks = new Map<string, Delegation[]>();
  for (const each of delegations.values()) {
    if (!isOpen(each) || each.sourceId === each.targetId) continue;
    const target = workspaces.get(each.targetId);
    if (target !== undefined && isSilent(statusOf(target))) void (tasks.get(target.id)?.push(each) ?? tasks.set(target.id, [each]));
  }
  const found = new Map<string, AgentTrouble>();
  for (const workspace of workspaces.values()) {
    const status = statusOf(workspace);
    const waiting = tasks.get(workspace.id) ?? [];
    if (status !== "failed" && status !== "degraded" && waiting.length === 0) continue;
    const mail = unclaimed.find(({ workspaceId }) => workspaceId === workspace.id) ?? null;
    found.set(workspace.id, { workspace, status, tasks: waiting.sort((one, other) => (one.createdAt < other.createdAt ? -1 : 1)), unclaimed: mail });
  }
  return found;
}

function agentItem(agent: AgentTrouble, workspaces: State["workspaces"]): InboxItem {
  const { workspace, status, tasks } = agent;
  const waiting = [...new Set(tasks.map(({ sourceId }) => sourceId))];
  const who = waiting.length === 1 ? `${workspaces.get(waiting[0] ?? "")?.name ?? "an agent"} waits` : `${waiting.length} agents wait`;
  const text = waiting.length === 0 ? STATUS_TEXTS[status] : `${STATUS_TEXTS[status]}, ${who} for it`;
  return { kind: "agent", agent, key: `agent ${workspace.id}`, workspaceId: workspace.id, name: workspace.name, since: sinceOf(agent), text };
}

/** Work waits from when both were true: a task was there and its agent was not. */
function sinceOf({ workspace, tasks }: AgentTrouble): string {
  const [task, heard] = [tasks[0]?.createdAt, workspace.last_heard_at ?? ""];
  if (task === undefined) return workspace.updated_at;
  return task > heard ? task : heard;
}

/** How many items there are of each kind. */
export function countKinds(items: readonly InboxItem[]): ReadonlyMap<InboxKind, number> {
  const counts = new Map<InboxKind, number>();
  for (const { kind } of items) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}
