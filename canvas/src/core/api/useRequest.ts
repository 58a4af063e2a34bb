/** Something that is read from the server: again when `turn` changes, and when it is asked again. */

import { useCallback, useEffect, useRef, useState } from "react";
import { errorText } from "./api";

export interface RequestState<T> {
  /** What came last; it stays while it is read again. */
  value: T | null;
  problem: string | null;
  reread: () => Promise<void>;
}

export function useRequest<T>(ask: () => Promise<T>, turn: string): RequestState<T> {
  const [found, setFound] = useState<{ value: T | null; problem: string | null }>({ value: null, problem: null });
  const latest = useRef(ask);
  latest.current = ask;
  const asked = useRef(0);
  const reread = useCallback(async (): Promise<void> => {
    asked.current += 1;
    const own = asked.current;
    const next = await latest.current().then(
      (value) => ({ value, problem: null }),
      (error: unknown) => ({ value: null, problem: errorText(error) }),
    );
    // What was asked later counts, whichever answer comes first.
    if (own === asked.current) setFound((before) => ({ value: next.value ?? before.value, problem: next.problem }));
  }, []);
  useEffect(() => void reread(), [reread, turn]);
  return { ...found, reread };
}
