/** How an agent stands, as people are told it: also that it waits for leave. */

import { useData } from "../app";
import { leavesOf } from "./approvals";
import type { Workspace } from "./model";
import { shownStanding, type Standing } from "./agentStatus";

/** Of an agent that is not there: it is offline. */
export function useStanding(workspace: Workspace | undefined): Standing {
  const leave = useData((state) => leavesOf(state.approvals).get(workspace?.id ?? ""));
  return workspace === undefined ? "offline" : shownStanding(workspace, leave);
}
