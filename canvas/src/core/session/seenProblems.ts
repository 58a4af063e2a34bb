/** Failed delegations that this person has dismissed in this browser. */

import { createStore, type Store } from "../store/store";
import type { KeyValueStorage } from "../store/browserStorage";

/** Problems expire after a day, so this many are enough. */
const MAX_KEPT = 1_000;

export interface SeenProblems extends Store<ReadonlySet<string>> {
  add(key: string): void;
  /** Take over what another tab has stored. */
  reread(): void;
}

export function seenProblemsStore(storage: KeyValueStorage, { org, user }: { org: string; user: string }): SeenProblems {
  const place = `molecule.seen.${org}/${user}`;
  const store = createStore<ReadonlySet<string>>(new Set(parse(storage.get(place))));
  return {
    ...store,
    reread: () => {
      const stored = parse(storage.get(place));
      if (stored.some((key) => !store.get().has(key))) store.set(new Set(stored));
    },
    add: (key) => {
      if (store.get().has(key)) return;
      const next = [...new Set([...parse(storage.get(place)), ...store.get(), key])].slice(-MAX_KEPT);
      storage.set(place, JSON.stringify(next));
      store.set(new Set(next));
    },
  };
}

function parse(stored: string | null): string[] {
  try {
    const found: unknown = JSON.parse(stored ?? "[]");
    return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
  } catch {
    return [];
  }
}
