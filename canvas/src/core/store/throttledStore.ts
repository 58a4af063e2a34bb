/** A store that follows another one at a limited rate. */

import { createStore, type Store } from "./store";

/** Follows `source` at once, or after `waitOf(value)` ms since the last update. */
export function throttledStore<T>(source: Store<T>, waitOf: (value: T) => number): Store<T> {
  const throttled = createStore(source.get());
  let followedAt = Number.NEGATIVE_INFINITY;
  let timer: ReturnType<typeof setTimeout> | null = null;
  const follow = (): void => {
    timer = null;
    followedAt = performance.now();
    throttled.set(source.get());
  };
  source.subscribe(() => {
    if (timer !== null) return;
    const wait = followedAt + waitOf(source.get()) - performance.now();
    if (wait <= 0) follow();
    else timer = setTimeout(follow, wait);
  });
  return throttled;
}
