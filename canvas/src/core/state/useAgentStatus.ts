/** The shown status of an agent, including a pending approval. */

import { useData } from "../app";
import { pendingByWorkspace } from "./approvals";
import type { Workspace } from "./model";
import { shownStatus, type AgentStatus } from "./agentStatus";

/** An unknown agent is offline. */
export function useAgentStatus(workspace: Workspace | undefined): AgentStatus {
  const pendingApproval = useData((state) => pendingByWorkspace(state.approvals).get(workspace?.id ?? ""));
  return workspace === undefined ? "offline" : shownStatus(workspace, pendingApproval);
}
