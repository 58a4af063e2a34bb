/** A clock with a resolution of one second. Paused while it has no subscribers, and while the page is hidden. */

import { useCallback, useSyncExternalStore } from "react";

const STEP_MS = 1_000;
const listeners = new Set<() => void>();
let timer: ReturnType<typeof setInterval> | undefined;
let now = Date.now();

const tick = (): void => {
  if (document.visibilityState !== "visible") return;
  now = Date.now();
  for (const listener of [...listeners]) listener();
};

function subscribe(listener: () => void): () => void {
  if (listeners.size === 0) {
    now = Date.now();
    timer = setInterval(tick, STEP_MS);
    document.addEventListener("visibilitychange", tick);
  }
  listeners.add(listener);
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    clearInterval(timer);
    document.removeEventListener("visibilitychange", tick);
  };
}

/** The current time, updated every second while `runs`. */
export function useSeconds(runs: boolean): number {
  const watch = useCallback((listener: () => void) => (runs ? subscribe(listener) : () => undefined), [runs]);
  return useSyncExternalStore(watch, () => now);
}

/** Whether the clock has subscribers. */
export function isTicking(): boolean {
  return listeners.size > 0;
}
