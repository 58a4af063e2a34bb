/** The trace of a request: read once, and again after events of the organisation. */

import { useCallback, useEffect, useRef, useState } from "react";
import { useSession, useThrottledData } from "../../core/app";
import { ApiError, errorText } from "../../core/api/api";
import { useStored } from "../../core/store/store";
import type { TraceDetail } from "../../core/wire";

/** Events within this time cause one read. A read costs the server a few queries. */
const GATHER_MS = 1_000;

export interface TraceRead {
  trace: TraceDetail | null;
  problem: string | null;
  /** It does not exist, or this person may not see it. */
  missing: boolean;
  retry: () => void;
}

export function useTrace(id: string): TraceRead {
  const session = useSession();
  const isLost = useStored(session.connection.view).mode === "lost";
  const last = useThrottledData((state) => state.last);
  const [trace, setTrace] = useState<TraceDetail | null>(null);
  const [failure, setFailure] = useState<{ words: string; missing: boolean } | null>(null);
  const [turn, setTurn] = useState(0);
  const readAt = useRef(0);
  /** Number of the last read that began, and of the one that is shown: in a busy organisation events arrive during each. */
  const begun = useRef(0);
  const applied = useRef(0);
  useEffect(() => {
    if (isLost) return;
    const read = (): void => {
      readAt.current = performance.now();
      begun.current += 1;
      const number = begun.current;
      const isNewest = (): boolean => {
        if (number < applied.current) return false;
        applied.current = number;
        return true;
      };
      session.readTrace(id).then(
        (found) => {
          if (!isNewest()) return;
          setFailure(null);
          setTrace(found);
        },
        (error: unknown) => isNewest() && setFailure({ words: errorText(error), missing: error instanceof ApiError && error.status === 404 }),
      );
    };
    const wait = begun.current === 0 ? 0 : Math.max(0, readAt.current + GATHER_MS - performance.now());
    const timer = setTimeout(read, wait);
    return () => clearTimeout(timer);
  }, [session, id, isLost, last, turn]);
  return {
    trace,
    problem: trace === null ? (failure?.words ?? null) : null,
    missing: failure?.missing ?? false,
    retry: useCallback(() => setTurn((each) => each + 1), []),
  };
}
