/** Read missing data, and retry later when that fails. */

import { useCallback, useEffect, useRef, useState } from "react";
import { useSession } from "../app";
import { errorText } from "../api/api";
import { RETRY_MS } from "./problemLists";
import { useStored } from "../store/store";

interface ReadOptions {
  /** Identifies the data: an error of other data is not shown. */
  of: string;
  /** Whether the data is missing and may be read now. */
  due: boolean;
  read: () => Promise<void>;
}

export interface RetriedRead {
  problem: string | null;
  retry: () => void;
}

export function useRetriedRead({ of, due, read }: ReadOptions): RetriedRead {
  const [problem, setProblem] = useState<{ of: string; words: string } | null>(null);
  const [turn, setTurn] = useState(0);
  const retry = useCallback(() => setTurn((each) => each + 1), []);
  const latest = useRef(read);
  latest.current = read;
  useEffect(() => {
    if (!due) return;
    const left = new AbortController();
    latest.current().then(
      () => setProblem((now) => (now?.of === of ? null : now)),
      (error: unknown) => {
        if (left.signal.aborted) return;
        setProblem({ of, words: errorText(error) });
        const timer = setTimeout(retry, RETRY_MS);
        left.signal.addEventListener("abort", () => clearTimeout(timer));
      },
    );
    return () => left.abort();
  }, [of, due, turn, retry]);
  return { problem: problem?.of === of ? problem.words : null, retry };
}

/** Read the newest page of a chat when it is missing, also after a reconnect: what arrives meanwhile follows a gap. */
export function useNewestPage(workspaceId: string, loaded: boolean): RetriedRead {
  const session = useSession();
  const { mode } = useStored(session.connection.view);
  const { problem, retry } = useRetriedRead({ of: workspaceId, due: !loaded && mode !== "lost", read: () => session.readNewest(workspaceId) });
  return { problem: loaded ? null : problem, retry };
}
