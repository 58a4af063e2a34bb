/** What of the work needs a person, as of now. */

import { useMemo } from "react";
import { useDesk } from "../../core/app";
import { useNow } from "../../ui/useNow";
import { isStuck, type Pulse } from "../../core/state/delegations";
import { useSelected, useStored } from "../../core/store/store";
import { NO_WORK_PROBLEMS, openOnes, workProblems, type WorkProblems } from "../../core/state/delegationLists";

const NOBODY: ReadonlyMap<string, Pulse> = new Map();

export function useWorkProblems(): WorkProblems {
  const desk = useDesk();
  const delegations = useSelected(desk.calm, (state) => state?.delegations);
  const refused = useSelected(desk.calm, (state) => state?.refused);
  const stuckSeconds = useSelected(desk.calm, (state) => state?.stuckSeconds);
  const seen = useStored(desk.seen);
  const now = useNow();
  // Heartbeats come all the time: only while some work gives no sign of its own do they matter.
  const isQuiet = useMemo(
    () => openOnes(delegations ?? new Map()).some((each) => isStuck(each, undefined, now, stuckSeconds ?? Infinity)),
    [delegations, stuckSeconds, now],
  );
  const workspaces = useSelected(desk.calm, (state): ReadonlyMap<string, Pulse> => (isQuiet && state?.workspaces) || NOBODY);
  return useMemo(() => {
    if (delegations === undefined || refused === undefined || stuckSeconds === undefined) return NO_WORK_PROBLEMS;
    return workProblems({ delegations, refused, stuckSeconds, workspaces }, now, seen);
  }, [delegations, refused, stuckSeconds, workspaces, seen, now]);
}
