/** Collapsed teams. In a large organisation the deeper teams start collapsed. */

import { list, text } from "../state/json";
import { createStore, type Store } from "../store/store";
import { ancestorsOf, childrenOf, walk, type Tree } from "../state/tree";
import type { KeyValueStorage } from "../store/browserStorage";

const LARGE = 2_000;
const OPEN_LEVELS = 2;

export interface Folds extends Store<ReadonlyMap<string, boolean>> {
  fold(id: string, folded: boolean): void;
}

export function foldsStore(storage: KeyValueStorage, owner: { org: string; user: string }): Folds {
  const key = `molecule.folds.${owner.org}.${owner.user}`;
  const store = createStore<ReadonlyMap<string, boolean>>(parse(storage.get(key)));
  return {
    ...store,
    fold: (id, folded) => {
      store.update((all) => new Map(all).set(id, folded));
      storage.set(key, JSON.stringify([...store.get()].map(([each, value]) => [each, value ? "folded" : "open"])));
    },
  };
}

function parse(stored: string | null): Map<string, boolean> {
  try {
    const entries = list({ all: JSON.parse(stored ?? "[]") }, "all");
    return new Map(
      entries.flatMap((entry): [string, boolean][] => {
        const [id, value] = [text({ id: (entry as unknown[])[0] }, "id"), (entry as unknown[])[1]];
        return id === null ? [] : [[id, value === "folded"]];
      }),
    );
  } catch {
    return new Map();
  }
}

export function foldedTeams(tree: Tree, chosen: ReadonlyMap<string, boolean>, agents: number): ReadonlySet<string> {
  const folded = new Set<string>();
  for (const id of agents > LARGE ? walk(tree) : chosen.keys()) {
    if (childrenOf(tree, id).length === 0) continue;
    const byDefault = agents > LARGE && ancestorsOf(tree, id).length >= OPEN_LEVELS;
    if (chosen.get(id) ?? byDefault) folded.add(id);
  }
  return folded;
}
