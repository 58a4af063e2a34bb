/** One clock for all relative times on the page. Paused while the page is hidden. */

import { createStore, useStored } from "../core/store/store";

const STEP_MS = 10_000;
const clock = createStore(Date.now());

const tick = (): void => {
  if (document.visibilityState === "visible") clock.set(Date.now());
};

export function startClock(): () => void {
  const timer = setInterval(tick, STEP_MS);
  document.addEventListener("visibilitychange", tick);
  return () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", tick);
  };
}

export function useNow(): number {
  return useStored(clock);
}
