/** The status of an agent as it is shown: one status, its label, and its urgency. */

import type { PendingApproval } from "./approvals";
import type { Workspace } from "./model";

export type AgentStatus =
  | "failed"
  | "waiting"
  | "degraded"
  | "asking"
  | "limited"
  | "working"
  | "online"
  | "paused"
  | "hibernated"
  | "provisioning"
  | "awaiting"
  | "offline";

/** The first one wins where one status is shown for several agents, and where two would apply to one agent. */
export const PRECEDENCE: readonly AgentStatus[] = [
  "failed",
  "waiting",
  "degraded",
  "asking",
  "limited",
  "working",
  "online",
  "paused",
  "hibernated",
  "provisioning",
  "awaiting",
  "offline",
];

export const STATUS_TEXTS: Readonly<Record<AgentStatus, string>> = {
  failed: "Failed",
  waiting: "Waiting for a person",
  degraded: "Degraded",
  asking: "Needs approval",
  limited: "Limited",
  working: "Working",
  online: "Online",
  paused: "Paused",
  hibernated: "Hibernated",
  provisioning: "Never connected",
  awaiting: "Awaiting agent",
  offline: "Offline",
};

const BY_WIRE_STATUS: Readonly<Record<string, AgentStatus>> = {
  failed: "failed",
  degraded: "degraded",
  paused: "paused",
  hibernated: "hibernated",
  provisioning: "provisioning",
  awaiting_agent: "awaiting",
  offline: "offline",
};

/** What the shown status depends on. */
export type StatusFields = Pick<Workspace, "status" | "active_tasks" | "current_task" | "limited_until">;

/** An unknown status maps to offline: nothing shows that the agent is connected. */
export function statusOf(workspace: StatusFields): AgentStatus {
  // An event ends the limit. An agent that is not there is shown as such: no work goes on when its limit ends.
  if (workspace.limited_until !== null && (workspace.status === "online" || workspace.status === "degraded")) return "limited";
  if (workspace.status === "online") {
    return workspace.active_tasks > 0 || workspace.current_task ? "working" : "online";
  }
  return BY_WIRE_STATUS[workspace.status] ?? "offline";
}

/** The shown status: an agent with a pending approval is not shown as working, whatever its last heartbeat says. */
export function shownStatus(workspace: StatusFields, pendingApproval: PendingApproval | undefined): AgentStatus {
  const status = statusOf(workspace);
  return pendingApproval !== undefined && rankOf(pendingApproval) < rankOf(status) ? pendingApproval : status;
}

/** Whether no agent is connected that could work. */
export function isSilent(status: AgentStatus): boolean {
  return status === "offline" || status === "awaiting" || status === "provisioning";
}

/** The current task of a connected agent. */
export function taskOf(workspace: StatusFields): string | null {
  return isSilent(statusOf(workspace)) ? null : workspace.current_task;
}

const RANK = new Map(PRECEDENCE.map((status, rank) => [status, rank]));

/** Position in `PRECEDENCE`: 0 is the most urgent. */
export function rankOf(status: AgentStatus): number {
  return RANK.get(status) ?? RANK.size - 1;
}

export type Counts = ReadonlyMap<AgentStatus, number>;

export function countStatuses(standings: Iterable<AgentStatus>): Counts {
  const counts = new Map<AgentStatus, number>();
  for (const each of standings) counts.set(each, (counts.get(each) ?? 0) + 1);
  return new Map(PRECEDENCE.filter((each) => counts.has(each)).map((each) => [each, counts.get(each) ?? 0]));
}
