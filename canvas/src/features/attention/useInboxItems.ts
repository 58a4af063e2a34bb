/** What waits for this person, as of now. Also before the organisation is loaded. */

import { useMemo } from "react";
import { useSession } from "../../core/app";
import { inboxItems, type InboxItem } from "../../core/state/inboxItems";
import { useSelected, useStored } from "../../core/store/store";
import { useDelegationProblems } from "../delegations/useDelegationProblems";

const NONE: readonly InboxItem[] = [];

export function useInboxItems(): readonly InboxItem[] {
  const { throttledData, problemLists, canSend } = useSession();
  const workspaces = useSelected(throttledData, (state) => state?.workspaces);
  const approvals = useSelected(throttledData, (state) => state?.approvals);
  const delegations = useSelected(throttledData, (state) => state?.delegations);
  const problems = useStored(problemLists.problems);
  const work = useDelegationProblems();
  return useMemo(() => {
    if (workspaces === undefined || approvals === undefined || delegations === undefined) return NONE;
    return inboxItems({ workspaces, approvals, delegations }, problems, work, canSend);
  }, [workspaces, approvals, delegations, problems, work, canSend]);
}
