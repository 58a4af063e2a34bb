/** Unsaved changes, by a key that begins with their owner. They live as long as the page, across views, and are dropped on
 * logout or when another person logs in. */

import { createStore, type Store } from "./store";

export class Unsaved {
  readonly all: Store<ReadonlyMap<string, unknown>> = createStore<ReadonlyMap<string, unknown>>(new Map());

  constructor() {
    confirmBeforeUnload(this.all, (all) => all.size > 0);
  }

  set(key: string, value: unknown): void {
    this.all.update((all) => new Map(all).set(key, value));
  }

  remove(key: string): void {
    this.retain((each) => each !== key);
  }

  /** Keep only the entries whose key is wanted. */
  retain(isWanted: (key: string) => boolean): void {
    this.all.update((all) => {
      const left = [...all].filter(([key]) => isWanted(key));
      return left.length === all.size ? all : new Map(left);
    });
  }
}

/** Ask before the page is left while data would be lost. Without such data no listener is registered: a listener keeps the
 * page out of the back-forward cache of some browsers. */
export function confirmBeforeUnload<T>(store: Store<T>, wouldLose: (value: T) => boolean): void {
  const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
  store.subscribe(() => (wouldLose(store.get()) ? window.addEventListener("beforeunload", ask) : window.removeEventListener("beforeunload", ask)));
}

/** Key prefix of a person. */
export function ownerKey({ org, user }: { org: { id: string }; user: { id: string } }): string {
  return `${org.id} ${user.id} `;
}
