/** The organisation as the outline and the scene show it: one tree, the same folds, the same search. */

import { useMemo } from "react";
import { useCalmData, useData, useDesk } from "../../core/app";
import { leavesOf, type Leave } from "../../core/state/approvals";
import { foldedTeams } from "../../core/session/folds";
import type { Seat, Workspace } from "../../core/state/model";
import { matching } from "./outlineRows";
import { memoized, useStored } from "../../core/store/store";
import { teamsOf, type Team } from "../../core/state/teams";
import { buildTree, type Tree } from "../../core/state/tree";

export const treeOf = memoized((seats: ReadonlyMap<string, Seat>): Tree => buildTree(seats));

export interface Org {
  seats: ReadonlyMap<string, Seat>;
  workspaces: ReadonlyMap<string, Workspace>;
  /** What those wait for that ask for leave. */
  leaves: ReadonlyMap<string, Leave>;
  tree: Tree;
  teams: ReadonlyMap<string, Team>;
  folded: ReadonlySet<string>;
  matches: ReadonlySet<string> | null;
  fold: (id: string, folded: boolean) => void;
}

export function useOrg(filter: string): Org {
  const { folds } = useDesk();
  const chosen = useStored(folds);
  const seats = useData((state) => state.seats);
  const workspaces = useCalmData((state) => state.workspaces);
  const leaves = useCalmData((state) => leavesOf(state.approvals));
  const tree = treeOf(seats);
  const folded = useMemo(() => foldedTeams(tree, chosen, seats.size), [tree, chosen, seats]);
  const teams = useMemo(() => teamsOf(tree, workspaces, leaves), [tree, workspaces, leaves]);
  const matches = useMemo(() => matching(workspaces.values(), filter), [workspaces, filter]);
  return { seats, workspaces, leaves, tree, teams, folded, matches, fold: folds.fold };
}
