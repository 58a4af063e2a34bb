/** What needs a person: failed, degraded and silent agents, problems, and unread messages. Oldest first. */

import { approvalLists } from "../../core/state/approvals";
import { isSilent, statusOf } from "../../core/state/agentStatus";
import type { Chat, State, Workspace } from "../../core/state/model";
import { NO_PROBLEMS, type MessageChain, type DeadLetter, type Problems, type UnansweredMessage, type UnclaimedMessages } from "../../core/state/problems";
import { NO_DELEGATION_PROBLEMS, type DelegationProblems } from "../../core/state/delegationLists";

export interface Concern {
  /** For a frozen chain: the id of its first message. */
  workspaceId: string;
  name: string;
  kind: "approval" | "failed" | "degraded" | "silent" | "unanswered" | "untaken" | "undelivered" | "work" | "stopped" | "unread";
  /** Since when it needs attention. */
  since: string;
  /** How many messages or delegations it covers. */
  unread: number;
  /** For an approval: its id. */
  approvalId?: string;
}

export function concerns(
  state: Pick<State, "workspaces" | "chats" | "approvals">,
  stuck: Problems = NO_PROBLEMS,
  work: DelegationProblems = NO_DELEGATION_PROBLEMS,
): Concern[] {
  const found: Concern[] = [
    ...approvalConcerns(state.approvals),
    ...unansweredConcerns(stuck.unanswered),
    ...unclaimedConcerns(stuck.unclaimed),
    ...deadLetterConcerns(stuck.deadLetters),
    ...chainConcerns(state.workspaces, stuck.chains),
    ...delegationConcerns(state.workspaces, work),
  ];
  for (const workspace of state.workspaces.values()) {
    const trouble = statusConcern(workspace);
    if (trouble !== null) found.push(trouble);
    const unread = unreadConcern(workspace, state.chats.get(workspace.id));
    if (unread !== null) found.push(unread);
  }
  return found.sort(byAge);
}

/** One for each approval that a person has to decide. */
function approvalConcerns(approvals: State["approvals"]): Concern[] {
  return approvalLists(approvals).waiting.map(({ id, workspaceId, requesterName, createdAt, path }) => {
    const since = path.findLast(({ what }) => what === "asked" || what === "answered")?.at ?? createdAt;
    return { workspaceId, name: requesterName, kind: "approval", since, unread: 1, approvalId: id };
  });
}

/** One for each agent with unanswered messages. */
function unansweredConcerns(messages: readonly UnansweredMessage[]): Concern[] {
  return onePerAgent("unanswered", messages.map((each) => ({ ...each, at: each.handedAt })));
}

/** One for each agent with unclaimed messages, connected before or not. */
function unclaimedConcerns(workspaces: readonly UnclaimedMessages[]): Concern[] {
  return workspaces.map(({ workspaceId, workspaceName, waiting, since }) => ({ workspaceId, name: workspaceName, kind: "untaken", since, unread: waiting }));
}

/** One for each agent with dead letters. */
function deadLetterConcerns(deadLetters: readonly DeadLetter[]): Concern[] {
  return onePerAgent("undelivered", deadLetters.map((each) => ({ ...each, at: each.diedAt })));
}

/** One for each agent with failed, stuck or rejected delegations. */
function delegationConcerns(workspaces: ReadonlyMap<string, Workspace>, { failed, stuck, unknown, refused }: DelegationProblems): Concern[] {
  const delegations = [...failed, ...stuck, ...unknown].map(({ sourceId, settledAt, lifeAt }) => ({ workspaceId: sourceId, at: settledAt ?? lifeAt }));
  const about = [...delegations, ...refused.map(({ sourceId, at }) => ({ workspaceId: sourceId, at }))];
  return onePerAgent("work", about.map((each) => ({ ...each, workspaceName: workspaces.get(each.workspaceId)?.name ?? "An agent" })));
}

function onePerAgent(kind: Concern["kind"], about: readonly { workspaceId: string; workspaceName: string; at: string }[]): Concern[] {
  const found = new Map<string, Concern>();
  for (const { workspaceId, workspaceName, at } of about) {
    const known = found.get(workspaceId);
    const since = known !== undefined && known.since < at ? known.since : at;
    found.set(workspaceId, { workspaceId, name: workspaceName, kind, since, unread: (known?.unread ?? 0) + 1 });
  }
  return [...found.values()];
}

function chainConcerns(workspaces: ReadonlyMap<string, Workspace>, chains: readonly MessageChain[]): Concern[] {
  return chains.map(({ rootId, workspaceId, frozenAt, messages }) => ({
    workspaceId: rootId,
    name: workspaces.get(workspaceId ?? "")?.name ?? "Message chain",
    kind: "stopped",
    since: frozenAt,
    unread: messages,
  }));
}

function byAge(one: Concern, other: Concern): number {
  if (one.since !== other.since) return one.since < other.since ? -1 : 1;
  return one.workspaceId < other.workspaceId ? -1 : one.workspaceId > other.workspaceId ? 1 : 0;
}

function statusConcern(workspace: Workspace): Concern | null {
  const about = { workspaceId: workspace.id, name: workspace.name, unread: 0 };
  const status = statusOf(workspace);
  if (status === "failed" || status === "degraded") {
    return { ...about, kind: status, since: workspace.updated_at };
  }
  if (!isSilent(status) || workspace.last_heard_at === null) return null;
  return { ...about, kind: "silent", since: workspace.last_heard_at };
}

function unreadConcern(workspace: Workspace, chat: Chat | undefined): Concern | null {
  if (!chat || chat.unread === 0 || chat.last === null) return null;
  const oldest = chat.lines.find((line) => line.author === "agent" && line.seq > chat.readSeq);
  return {
    workspaceId: workspace.id,
    name: workspace.name,
    kind: "unread",
    since: oldest?.at ?? chat.last.at,
    unread: chat.unread,
  };
}

export function unreadTotal(chats: ReadonlyMap<string, Chat>): number {
  let total = 0;
  for (const chat of chats.values()) total += chat.unread;
  return total;
}
