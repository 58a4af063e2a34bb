/** Status counts of each team with its sub-teams. */

import { PRECEDENCE, rankOf, shownStatus, type Counts, type AgentStatus } from "./agentStatus";
import type { Workspace } from "./model";
import { walk, type Tree } from "./tree";
import type { WaitsByAgent } from "./waits";

export interface Team {
  /** The lead and all descendants. */
  size: number;
  counts: Counts;
  worst: AgentStatus;
}

/** Teams by the id of their lead. */
export function teamsOf(tree: Tree, workspaces: ReadonlyMap<string, Workspace>, waits: WaitsByAgent): ReadonlyMap<string, Team> {
  const tallies = new Map<string, number[]>();
  for (const id of tree.children.keys()) tallies.set(id, PRECEDENCE.map(() => 0));
  for (const id of walk(tree).reverse()) {
    const workspace = workspaces.get(id);
    const own = tallies.get(id);
    const above = tallies.get(tree.parent.get(id) ?? "");
    const place = workspace ? rankOf(shownStatus(workspace, waits.get(id))) : -1;
    if (own && place >= 0) own[place] = (own[place] ?? 0) + 1;
    if (above && own) own.forEach((count, at) => (above[at] = (above[at] ?? 0) + count));
    else if (above && place >= 0) above[place] = (above[place] ?? 0) + 1;
  }
  return new Map([...tallies].map(([id, tally]) => [id, summed(tally)]));
}

function summed(tally: readonly number[]): Team {
  const counts = new Map(PRECEDENCE.map((status, at) => [status, tally[at] ?? 0] as const).filter(([, count]) => count > 0));
  const size = tally.reduce((total, count) => total + count, 0);
  return { size, counts, worst: [...counts.keys()][0] ?? "offline" };
}
