/** The status of an agent as it is shown: one status, its label, and its urgency. */

import { plainLine } from "../text/plain";
import type { Workspace } from "./model";
import type { Waits } from "./waits";

export type AgentStatus =
  | "failed"
  | "waiting"
  | "degraded"
  | "peer"
  | "limited"
  | "working"
  | "queued"
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
  "peer",
  "limited",
  "working",
  "queued",
  "online",
  "paused",
  "hibernated",
  "provisioning",
  "awaiting",
  "offline",
];

export const STATUS_TEXTS: Readonly<Record<AgentStatus, string>> = {
  failed: "Failed",
  waiting: "Waiting for you",
  degraded: "Degraded",
  peer: "Waiting for an agent",
  limited: "Limited",
  working: "Working",
  queued: "Queued",
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

/** The shown status: the most urgent one that applies. An agent that waits is not shown as working, whatever its last
 * heartbeat says. */
export function shownStatus(workspace: StatusFields, waits: Waits | undefined): AgentStatus {
  const status = statusOf(workspace);
  if (waits === undefined) return status;
  const found = [status];
  if (waits.forPerson) found.push("waiting");
  if (waits.approvers.length > 0 || isBlocked(workspace, status, waits)) found.push("peer");
  if (waits.queued > 0 && TAKES_LATER.has(status)) found.push("queued");
  return found.reduce((one, other) => (rankOf(other) < rankOf(one) ? other : one));
}

/** Whether a connected agent only waits for tasks that it delegated: each task that it works on can be one that waits. */
function isBlocked(workspace: StatusFields, status: AgentStatus, { delegated }: Waits): boolean {
  return delegated > 0 && (status === "online" || status === "working") && workspace.active_tasks <= delegated;
}

/** Agents of which queued tasks say more than their own status. An offline one is shown as offline: it takes nothing. */
const TAKES_LATER: ReadonlySet<AgentStatus> = new Set(["online", "paused", "hibernated"]);

/** What an agent waits for, or why it takes nothing, in words. `nameOf`: of an agent. */
export function waitText(status: AgentStatus, workspace: Pick<Workspace, "status">, waits: Waits | undefined, nameOf: (id: string) => string | undefined): string {
  if (status === "queued" && workspace.status !== "online") return `${STATUS_TEXTS.queued}, ${workspace.status}`;
  if (status !== "peer" || waits === undefined) return STATUS_TEXTS[status];
  const peers = waits.approvers.length > 0 ? waits.approvers : waits.peers;
  const name = peers.length === 1 ? nameOf(peers[0] ?? "") : undefined;
  if (name !== undefined) return `Waiting for ${name}`;
  return peers.length > 1 ? `Waiting for ${peers.length} agents` : STATUS_TEXTS.peer;
}

/** Whether no agent is connected that could work. */
export function isSilent(status: AgentStatus): boolean {
  return status === "offline" || status === "awaiting" || status === "provisioning";
}

/** The current task of a connected agent on one line. */
export function taskOf(workspace: StatusFields): string | null {
  const task = isSilent(statusOf(workspace)) ? null : workspace.current_task;
  return task === null ? null : plainLine(task);
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
