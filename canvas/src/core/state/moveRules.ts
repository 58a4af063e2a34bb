/** Where an agent can be moved. Pure; the server decides. */

import type { OrgNode, State } from "./model";
import { ancestorsOf, childrenOf, type Tree } from "./tree";

/** Why an agent cannot be moved there, as a sentence; null if it can. `target` null: the top. */
export function refusalOfMove(tree: Tree, nodes: ReadonlyMap<string, OrgNode>, id: string, target: string | null): string | null {
  const name = (of: string): string => nodes.get(of)?.name ?? "That agent";
  if (target === id) return `${name(id)} cannot report to itself.`;
  if ((tree.parent.get(id) ?? null) === target) return target === null ? `${name(id)} is already at the top level.` : `${name(id)} already reports to ${name(target)}.`;
  if (target !== null && ancestorsOf(tree, target).includes(id)) return `${name(id)} cannot report to ${name(target)}, which is below it.`;
  return null;
}

/** All descendants, parents before children. */
export function descendantsOf(tree: Tree, id: string): string[] {
  const found = new Set(childrenOf(tree, id));
  for (const each of found) for (const below of childrenOf(tree, each)) found.add(below);
  return [...found];
}

/** The state with another parent, before the server has confirmed it. The same object if the agent is unknown. */
export function withParent(state: State, id: string, parentId: string | null): State {
  const [workspace, node] = [state.workspaces.get(id), state.orgNodes.get(id)];
  if (workspace === undefined || node === undefined) return state;
  return {
    ...state,
    workspaces: new Map(state.workspaces).set(id, { ...workspace, parent_id: parentId }),
    orgNodes: new Map(state.orgNodes).set(id, { ...node, parentId }),
  };
}
