/** What a person has changed and not saved, by a key that begins with who they are. It stays while the page is open, whatever
 * view is shown, and goes when they log out or somebody else comes. */

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

  /** Only those whose key is wanted stay. */
  retain(isWanted: (key: string) => boolean): void {
    this.all.update((all) => {
      const left = [...all].filter(([key]) => isWanted(key));
      return left.length === all.size ? all : new Map(left);
    });
  }
}

/** The browser asks before it leaves a page that has what would be lost. Where there is none nothing listens: some browsers keep
 * no page for the way back that could ask. */
export function confirmBeforeUnload<T>(store: Store<T>, wouldLose: (value: T) => boolean): void {
  const ask = (event: BeforeUnloadEvent): void => event.preventDefault();
  store.subscribe(() => (wouldLose(store.get()) ? window.addEventListener("beforeunload", ask) : window.removeEventListener("beforeunload", ask)));
}

/** How the keys of a person begin. */
export function ownerKey({ org, user }: { org: { id: string }; user: { id: string } }): string {
  return `${org.id} ${user.id} `;
}
