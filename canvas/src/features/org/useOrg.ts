/** The organisation as the outline and the map show it: the same tree, collapsed teams and filter. */

import { useMemo } from "react";
import { useThrottledData, useData, useSession } from "../../core/app";
import { foldedTeams } from "../../core/session/folds";
import type { OrgNode } from "../../core/state/model";
import { matching } from "./outlineRows";
import { useStored } from "../../core/store/store";
import { teamsOf } from "../../core/state/teams";
import { treeOf } from "../../core/state/tree";
import { waitsByAgent } from "../../core/state/waits";
import type { MapOrg } from "../../map/org";

export interface Org extends MapOrg {
  orgNodes: ReadonlyMap<string, OrgNode>;
}

export function useOrg(filter: string): Org {
  const { folds } = useSession();
  const chosen = useStored(folds);
  const nodes = useData((state) => state.orgNodes);
  const workspaces = useThrottledData((state) => state.workspaces);
  const waits = useThrottledData((state) => waitsByAgent(state));
  const tree = treeOf(nodes);
  const folded = useMemo(() => foldedTeams(tree, chosen, nodes.size), [tree, chosen, nodes]);
  const teams = useMemo(() => teamsOf(tree, workspaces, waits), [tree, workspaces, waits]);
  const matches = useMemo(() => matching(workspaces.values(), filter), [workspaces, filter]);
  return { orgNodes: nodes, workspaces, waits, tree, teams, folded, matches, fold: folds.fold };
}
