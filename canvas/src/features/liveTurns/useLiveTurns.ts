/** The live turns that a view shows. */

import { useMemo } from "react";
import { useSession } from "../../core/app";
import { useStored } from "../../core/store/store";
import type { LiveTurn } from "../../core/state/liveTurns";

/** Turns of a workspace, or of one of its threads, oldest first. */
export function useLiveTurns({ workspaceId, threadId = null }: { workspaceId: string; threadId?: string | null }): readonly LiveTurn[] {
  const all = useStored(useSession().liveTurns);
  return useMemo(() => {
    const own = [...all.values()].filter((turn) => turn.workspaceId === workspaceId && (threadId === null || turn.threadId === threadId));
    return own.sort((one, other) => (one.startedAt < other.startedAt ? -1 : 1));
  }, [all, workspaceId, threadId]);
}
