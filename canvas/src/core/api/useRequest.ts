/** Read a value from the server, and again when `turn` changes or `reread` is called. */

import { useCallback, useEffect, useRef, useState } from "react";
import { errorText } from "./api";

export interface RequestState<T> {
  /** The last response; it stays while the next one is read. */
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
    // The response to the latest request counts, whichever arrives first.
    if (own === asked.current) setFound((before) => ({ value: next.value ?? before.value, problem: next.problem }));
  }, []);
  useEffect(() => void reread(), [reread, turn]);
  return { ...found, reread };
}
