/** Never run a read twice at once: calls during a run share one more run after it. On a busy tree the server is asked as
 * often as it responds, not as often as something happens. */

import { useCallback, useRef } from "react";

export function useOneAtATime<T>(ask: () => Promise<T>): () => Promise<T> {
  const latest = useRef(ask);
  latest.current = ask;
  const state = useRef<{ running: Promise<T> | null; again: boolean }>({ running: null, again: false });
  return useCallback(() => {
    const now = state.current;
    now.again = true;
    now.running ??= readAll(now, latest).finally(() => {
      now.running = null;
    });
    return now.running;
  }, []);
}

async function readAll<T>(state: { again: boolean }, latest: { current: () => Promise<T> }): Promise<T> {
  let found: T;
  do {
    state.again = false;
    found = await latest.current();
  } while (state.again);
  return found;
}
