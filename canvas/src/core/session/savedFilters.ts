/** Filters of the activity that the person has named. In this browser only: addresses are what is shared. */

import type { ActivityFilters } from "../router";
import type { KeyValueStorage } from "../store/browserStorage";
import { createStore, type Store } from "../store/store";

export const MAX_SAVED = 20;
export const MAX_NAME = 40;

export interface NamedFilters {
  name: string;
  filters: ActivityFilters;
}

export interface SavedFilters extends Store<readonly NamedFilters[]> {
  /** A known name gets the new filters. Returns whether there is room for one more. */
  save(named: NamedFilters): boolean;
  remove(name: string): void;
  reread(): void;
}

export function savedFiltersStore(storage: KeyValueStorage, owner: { org: string; user: string }): SavedFilters {
  const key = `molecule.filters.${owner.org}.${owner.user}`;
  const store = createStore<readonly NamedFilters[]>(parse(storage.get(key)));
  const write = (all: readonly NamedFilters[]): void => {
    storage.set(key, JSON.stringify(all));
    store.set(all);
  };
  return {
    ...store,
    save: (named) => {
      const others = parse(storage.get(key)).filter(({ name }) => name !== named.name);
      if (others.length >= MAX_SAVED) return false;
      write([...others, named]);
      return true;
    },
    remove: (removed) => write(parse(storage.get(key)).filter(({ name }) => name !== removed)),
    reread: () => store.set(parse(storage.get(key))),
  };
}

function parse(stored: string | null): readonly NamedFilters[] {
  let value: unknown;
  try {
    value = JSON.parse(stored ?? "[]");
  } catch {
    return [];
  }
  if (!Array.isArray(value)) return [];
  return value.flatMap((each: { name?: unknown; filters?: unknown } | null): NamedFilters[] => {
    if (typeof each?.name !== "string" || each.name === "" || typeof each.filters !== "object" || each.filters === null) return [];
    const filters = Object.entries(each.filters).filter((entry): entry is [string, string] => typeof entry[1] === "string");
    return [{ name: each.name.slice(0, MAX_NAME), filters: Object.fromEntries(filters) }];
  }).slice(0, MAX_SAVED);
}
