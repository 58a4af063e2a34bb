/** Delegations that need a person, as of now. */

import { useMemo } from "react";
import { useSession } from "../../core/app";
import { useNow } from "../../ui/useNow";
import { isStuck, type Heartbeat } from "../../core/state/delegations";
import { useSelected, useStored } from "../../core/store/store";
import { NO_DELEGATION_PROBLEMS, openDelegations, delegationProblems, type DelegationProblems } from "../../core/state/delegationLists";

const NO_WORKSPACES: ReadonlyMap<string, Heartbeat> = new Map();

export function useDelegationProblems(): DelegationProblems {
  const session = useSession();
  const delegations = useSelected(session.throttledData, (state) => state?.delegations);
  const refused = useSelected(session.throttledData, (state) => state?.refused);
  const stuckSeconds = useSelected(session.throttledData, (state) => state?.stuckSeconds);
  const seen = useStored(session.seenProblems);
  const now = useNow();
  // Heartbeats are frequent and matter only while a delegation shows no activity of its own.
  const isQuiet = useMemo(
    () => openDelegations(delegations ?? new Map()).some((each) => isStuck(each, undefined, now, stuckSeconds ?? Infinity)),
    [delegations, stuckSeconds, now],
  );
  const workspaces = useSelected(session.throttledData, (state): ReadonlyMap<string, Heartbeat> => (isQuiet && state?.workspaces) || NO_WORKSPACES);
  return useMemo(() => {
    if (delegations === undefined || refused === undefined || stuckSeconds === undefined) return NO_DELEGATION_PROBLEMS;
    return delegationProblems({ delegations, refused, stuckSeconds, workspaces }, now, seen);
  }, [delegations, refused, stuckSeconds, workspaces, seen, now]);
}
