/** The shown status of an agent, with what it waits for. */

import { useData } from "../app";
import { shownStatus, waitText, type AgentStatus } from "./agentStatus";
import type { Workspace } from "./model";
import { waitsByAgent } from "./waits";

/** An unknown agent is offline. */
export function useAgentStatus(workspace: Workspace | undefined): AgentStatus {
  return useData((state) => (workspace === undefined ? "offline" : shownStatus(workspace, waitsByAgent(state).get(workspace.id))));
}

/** The status in words, with the name of the agent that it waits for. */
export function useStatusText(workspace: Workspace, status: AgentStatus): string {
  return useData((state) => waitText(status, workspace, waitsByAgent(state).get(workspace.id), (id) => state.workspaces.get(id)?.name));
}
