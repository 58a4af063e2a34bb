/** How an agent stands, as people are told it: also that it waits for leave. */

import { useData } from "../app";
import { pendingByWorkspace } from "./approvals";
import type { Workspace } from "./model";
import { shownStatus, type AgentStatus } from "./agentStatus";

/** Of an agent that is not there: it is offline. */
export function useAgentStatus(workspace: Workspace | undefined): AgentStatus {
  const pendingApproval = useData((state) => pendingByWorkspace(state.approvals).get(workspace?.id ?? ""));
  return workspace === undefined ? "offline" : shownStatus(workspace, pendingApproval);
}
