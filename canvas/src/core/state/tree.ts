/** The org tree. A missing parent or a cycle hides no agent. */

import { memoized } from "../store/memoized";
import type { OrgNode } from "./model";

export interface Tree {
  roots: readonly string[];
  children: ReadonlyMap<string, readonly string[]>;
  parent: ReadonlyMap<string, string>;
}

const NONE: readonly string[] = [];

/** As the server lists them; equal times by id, so that every page shows the same order. */
export function oldestFirst(one: OrgNode, other: OrgNode): number {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt ? -1 : 1;
  return one.id < other.id ? -1 : one.id > other.id ? 1 : 0;
}

export function buildTree(nodes: ReadonlyMap<string, OrgNode>): Tree {
  const roots: string[] = [];
  const children = new Map<string, string[]>();
  const parent = new Map<string, string>();
  for (const node of [...nodes.values()].sort(oldestFirst)) {
    const above = node.parentId;
    if (above === null || above === node.id || !nodes.has(above)) roots.push(node.id);
    else {
      parent.set(node.id, above);
      const siblings = children.get(above);
      if (siblings) siblings.push(node.id);
      else children.set(above, [node.id]);
    }
  }
  breakCycles(nodes, { roots, children, parent });
  return { roots, children, parent };
}

export const treeOf = memoized((nodes: ReadonlyMap<string, OrgNode>): Tree => buildTree(nodes));

/** Make the first node of every cycle a root. */
function breakCycles(
  nodes: ReadonlyMap<string, OrgNode>,
  tree: { roots: string[]; children: Map<string, string[]>; parent: Map<string, string> },
): void {
  const reached = new Set<string>();
  for (const root of tree.roots) reach(root, tree.children, reached);
  if (reached.size === nodes.size) return;
  for (const id of [...nodes.keys()].sort()) {
    if (reached.has(id)) continue;
    const above = tree.parent.get(id);
    if (above !== undefined) tree.children.set(above, (tree.children.get(above) ?? []).filter((each) => each !== id));
    tree.parent.delete(id);
    tree.roots.push(id);
    reach(id, tree.children, reached);
  }
}

function reach(from: string, children: ReadonlyMap<string, readonly string[]>, reached: Set<string>): void {
  const open = [from];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (reached.has(id)) continue;
    reached.add(id);
    open.push(...(children.get(id) ?? NONE));
  }
}

export function childrenOf(tree: Tree, id: string): readonly string[] {
  return tree.children.get(id) ?? NONE;
}

/** Parent, grandparent and so on. */
export function ancestorsOf(tree: Tree, id: string): string[] {
  const found: string[] = [];
  for (let above = tree.parent.get(id); above !== undefined; above = tree.parent.get(above)) found.push(above);
  return found;
}

/** All nodes, parents before children. */
export function walk(tree: Tree): string[] {
  const order: string[] = [];
  const open = [...tree.roots].reverse();
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    order.push(id);
    open.push(...[...childrenOf(tree, id)].reverse());
  }
  return order;
}
