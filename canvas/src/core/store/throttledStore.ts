/** The same value, but not more often than the reader can bear. */

import { createStore, type Store } from "./store";

/** A store that follows `source`: at once, or after the time that `waitOf` gives since it last did. */
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
