/** What of the work that ended badly this person has looked at, in this browser. */

import { createStore, type Store } from "../store/store";
import type { Vault } from "../store/browserStorage";

/** Problems end after a day; so many are enough for one. */
const MOST = 1_000;

export interface Seen extends Store<ReadonlySet<string>> {
  add(key: string): void;
  /** Takes in what another tab has written. */
  reread(): void;
}

export function seenStore(vault: Vault, { org, user }: { org: string; user: string }): Seen {
  const place = `molecule.seen.${org}/${user}`;
  const store = createStore<ReadonlySet<string>>(new Set(parse(vault.get(place))));
  return {
    ...store,
    reread: () => {
      const stored = parse(vault.get(place));
      if (stored.some((key) => !store.get().has(key))) store.set(new Set(stored));
    },
    add: (key) => {
      if (store.get().has(key)) return;
      const next = [...new Set([...parse(vault.get(place)), ...store.get(), key])].slice(-MOST);
      vault.set(place, JSON.stringify(next));
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
