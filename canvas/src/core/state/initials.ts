/** Initials of agents, distinct in an organisation. */

import { memoized } from "../store/memoized";
import { initials } from "../text/strings";
import type { OrgNode } from "./model";
import { oldestFirst } from "./tree";

/** Of more agents with the same letters the later ones share initials. */
const MAX_NUMBER = 99;

/** Initials by the id of the agent. The older agent keeps those of its name, so that a new agent changes no other's. The newer one
 * has the first letter with another one of its name, or a number: Leads is LE, Legal LG. */
export const initialsByAgent = memoized((nodes: ReadonlyMap<string, OrgNode>): ReadonlyMap<string, string> => {
  const found = new Map<string, string>();
  const taken = new Set<string>();
  const numbers = new Map<string, number>();
  for (const { id, name } of [...nodes.values()].sort(oldestFirst)) {
    const letters = freePair(name, taken) ?? numbered(initials(name), taken, numbers);
    taken.add(letters);
    found.set(id, letters);
  }
  return found;
});

function freePair(name: string, taken: ReadonlySet<string>): string | undefined {
  const own = initials(name);
  if (!taken.has(own)) return own;
  const [first = "", ...others] = [...name].filter((each) => /[\p{L}\p{N}]/u.test(each));
  return [...beginnings(name), ...others].map((other) => (first + other).toUpperCase()).find((pair) => !taken.has(pair));
}

/** First letters of the words after the first, which tell more than letters inside of words. */
function beginnings(name: string): string[] {
  return name.split(/[^\p{L}\p{N}]+/u).filter((word) => word !== "").slice(1).map((word) => [...word][0] ?? "");
}

function numbered(own: string, taken: ReadonlySet<string>, numbers: Map<string, number>): string {
  for (let number = numbers.get(own) ?? 2; number <= MAX_NUMBER; number += 1) {
    if (taken.has(`${own}${number}`)) continue;
    numbers.set(own, number + 1);
    return `${own}${number}`;
  }
  return own;
}
