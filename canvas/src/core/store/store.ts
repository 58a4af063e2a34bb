/** An observable value. */

import { useCallback, useRef, useSyncExternalStore } from "react";

export interface Store<T> {
  get(): T;
  set(next: T): void;
  update(change: (value: T) => T): void;
  subscribe(listener: () => void): () => void;
}

export function createStore<T>(initial: T): Store<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  const set = (next: T): void => {
    if (Object.is(next, value)) return;
    value = next;
    for (const listener of [...listeners]) notifySafely(listener);
  };
  return {
    get: () => value,
    set,
    update: (change) => set(change(value)),
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** An error in one listener must affect neither the other listeners nor the writer; it is reported as an uncaught error. */
function notifySafely(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    reportError(error);
  }
}

/** `select` must return the same object as long as nothing changed. */
export function useSelected<T, R>(store: Store<T>, select: (value: T) => R): R {
  const latest = useRef(select);
  latest.current = select;
  const read = useCallback(() => latest.current(store.get()), [store]);
  return useSyncExternalStore(store.subscribe, read);
}

export function useStored<T>(store: Store<T>): T {
  return useSyncExternalStore(store.subscribe, store.get);
}
