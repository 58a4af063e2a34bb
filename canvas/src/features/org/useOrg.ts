/** The organisation as the outline and the scene show it: one tree, the same folds, the same search. */

import { useMemo } from "react";
import { useCalmData, useData, useDesk } from "../../core/app";
import { leavesOf } from "../../core/state/approvals";
import { foldedTeams } from "../../core/session/folds";
import type { Seat } from "../../core/state/model";
import { matching } from "./outlineRows";
import { useStored } from "../../core/store/store";
import { teamsOf } from "../../core/state/teams";
import { treeOf } from "../../core/state/tree";
import type { MapOrg } from "../../map/org";

export interface Org extends MapOrg {
  seats: ReadonlyMap<string, Seat>;
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
