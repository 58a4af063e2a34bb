/** The visible rows of the outline, in order. */

import type { OrgNode } from "../../core/state/model";
import { ancestorsOf, childrenOf, type Tree } from "../../core/state/tree";

export interface Row {
  id: string;
  level: number;
  position: number;
  siblings: number;
  /** Null for an agent without reports. */
  expanded: boolean | null;
}

export function outlineRows(tree: Tree, isFolded: (id: string) => boolean, matches: ReadonlySet<string> | null): Row[] {
  const kept = matches === null ? null : withAncestors(tree, matches);
  const below = (ids: readonly string[]): readonly string[] => (kept === null ? ids : ids.filter((id) => kept.has(id)));
  const rows: Row[] = [];
  const open: Row[] = [];
  const push = (ids: readonly string[], level: number): void => {
    const rowsBelow = ids.map((id, at) => ({ id, level, position: at + 1, siblings: ids.length, expanded: null }));
    open.push(...rowsBelow.reverse());
  };
  push(below(tree.roots), 1);
  for (let row = open.pop(); row !== undefined; row = open.pop()) {
    const children = below(childrenOf(tree, row.id));
    const expanded = children.length === 0 ? null : kept !== null || !isFolded(row.id);
    rows.push({ ...row, expanded });
    if (expanded) push(children, row.level + 1);
  }
  return rows;
}

function withAncestors(tree: Tree, ids: ReadonlySet<string>): Set<string> {
  const all = new Set(ids);
  for (const id of ids) for (const above of ancestorsOf(tree, id)) all.add(above);
  return all;
}

/** Ids whose name or role contains the words; null without a filter. */
export function matching(
  workspaces: Iterable<{ id: string; name: string; role: string | null }>,
  filter: string,
): ReadonlySet<string> | null {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return null;
  const found = new Set<string>();
  for (const { id, name, role } of workspaces) {
    const text = `${name} ${role ?? ""}`.toLowerCase();
    if (words.every((word) => text.includes(word))) found.add(id);
  }
  return found;
}

/** The next row after `at`, cyclic, whose name begins with the typed text. */
export function typeAhead(rows: readonly Row[], nodes: ReadonlyMap<string, OrgNode>, at: number, typed: string): number {
  const start = typed.length > 1 ? at : at + 1;
  for (let step = 0; step < rows.length; step += 1) {
    const index = (start + step) % rows.length;
    const name = nodes.get(rows[index]?.id ?? "")?.name ?? "";
    if (name.toLowerCase().startsWith(typed.toLowerCase())) return index;
  }
  return at;
}
