/** The tree of a delegation, its durations, and the bars of its timeline. Pure. Contradictory data (cycles, missing parents)
 * hides no node. */

import type { DelegationTimelineEntry, DelegationTreeNode } from "../../core/wire";
import { RANK, type Delegation, type DelegationStatus } from "../../core/state/delegations";

/** One delegation of a tree. */
export interface DelegationNode {
  id: string;
  parentId: string | null;
  sourceId: string | null;
  targetId: string | null;
  targetName: string | null;
  task: string;
  status: DelegationStatus;
  phase: string;
  attempt: number;
  reason: string | null;
  error: string | null;
  advice: string | null;
  reply: string | null;
  createdAt: string;
  takenAt: string | null;
  settledAt: string | null;
  lifeAt: string | null;
  /** How many its answer must pass; 0 where only live events are known. */
  checks: number;
  /** As measured by the server, once it has ended. */
  own: Seconds | null;
}

interface Seconds {
  waiting: number;
  working: number;
}

/** The nodes of the server's tree, each once. */
export function nodesOf(top: DelegationTreeNode): DelegationNode[] {
  const found = new Map<string, DelegationNode>();
  const open: { node: DelegationTreeNode; parentId: string | null }[] = [{ node: top, parentId: top.parent_id }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { node, parentId } = next;
    if (found.has(node.delegation_id)) continue;
    found.set(node.delegation_id, nodeOf(node, parentId));
    open.push(...node.children.map((child) => ({ node: child, parentId: node.delegation_id })).reverse());
  }
  return [...found.values()];
}

function nodeOf(node: DelegationTreeNode, parentId: string | null): DelegationNode {
  const status = (node.status in RANK ? node.status : "pending") as DelegationStatus;
  return {
    id: node.delegation_id,
    parentId,
    sourceId: node.source_id,
    targetId: node.target_id,
    targetName: node.target_name,
    task: node.summary ?? "",
    status,
    phase: node.phase,
    attempt: node.attempt,
    reason: node.reason,
    error: node.error,
    advice: node.advice,
    reply: node.response_preview,
    createdAt: node.created_at,
    takenAt: node.taken_at,
    settledAt: node.settled_at,
    lifeAt: node.last_heartbeat,
    checks: node.checks,
    own: node.settled_at === null ? null : node.own_seconds,
  };
}

function nodeOfLive(one: Delegation): DelegationNode {
  const { id, parentId, sourceId, targetId, task, status, phase, attempt, reason, error, advice, reply, createdAt, takenAt, settledAt, lifeAt } = one;
  return { id, parentId, sourceId, targetId, targetName: null, task, status, phase, attempt, reason, error, advice, reply, createdAt, takenAt, settledAt, lifeAt, checks: one.verified === true ? 1 : 0, own: null };
}

/** The nodes that were read, with their current state, and their new sub-tasks. */
export function withLive(read: readonly DelegationNode[], delegations: ReadonlyMap<string, Delegation>): DelegationNode[] {
  const nodes = new Map(read.map((node) => [node.id, grown(node, delegations.get(node.id))]));
  const below = childrenByParent(delegations);
  const open = [...nodes.keys()];
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    for (const child of below.get(id) ?? []) {
      if (nodes.has(child.id)) continue;
      nodes.set(child.id, nodeOfLive(child));
      open.push(child.id);
    }
  }
  return [...nodes.values()];
}

function grown(node: DelegationNode, live: Delegation | undefined): DelegationNode {
  if (live === undefined || RANK[live.status] < RANK[node.status]) return node;
  // The page may know the end before the live connection reports it, but not the other way round.
  if (node.settledAt !== null) return node;
  const { targetName, parentId, createdAt, checks } = node;
  return { ...nodeOfLive(live), targetName, parentId, createdAt, checks, task: live.task || node.task };
}

function childrenByParent(delegations: ReadonlyMap<string, Delegation>): ReadonlyMap<string, readonly Delegation[]> {
  const found = new Map<string, Delegation[]>();
  for (const each of delegations.values()) {
    if (each.parentId === null) continue;
    const siblings = found.get(each.parentId);
    if (siblings === undefined) found.set(each.parentId, [each]);
    else siblings.push(each);
  }
  return found;
}

export interface Branch {
  node: DelegationNode;
  children: readonly Branch[];
  /** Why it is at the top although it names a parent. */
  mark: "circle" | "missing" | null;
}

/** The tree of nodes, in the order in which they began. Each node appears exactly once; one in a cycle or with a missing
 * parent is at the top with a mark. `top`: the requested node, whose parent is not part of the tree. */
export function treeOf(nodes: readonly DelegationNode[], top: string | null = null): Branch[] {
  const all = new Map([...nodes].sort(byBegin).map((node) => [node.id, node]));
  const children = new Map<string, DelegationNode[]>();
  const roots: Omit<Branch, "children">[] = [];
  for (const node of all.values()) {
    const parent = node.id === top ? undefined : all.get(node.parentId ?? "");
    if (parent === undefined) roots.push({ node, mark: node.parentId === null || node.id === top ? null : "missing" });
    else children.set(parent.id, [...(children.get(parent.id) ?? []), node]);
  }
  const placed = new Set<string>();
  const branch = (node: DelegationNode, mark: Branch["mark"]): Branch => {
    placed.add(node.id);
    const below = (children.get(node.id) ?? []).filter((child) => !placed.has(child.id));
    return { node, mark, children: below.map((child) => branch(child, null)) };
  };
  const found = roots.map(({ node, mark }) => branch(node, mark));
  // The remaining nodes form cycles; the first node of each becomes a root.
  for (const node of all.values()) if (!placed.has(node.id)) found.push(branch(node, "circle"));
  return found;
}

function byBegin(one: DelegationNode, other: DelegationNode): number {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt ? -1 : 1;
  return one.id < other.id ? -1 : 1;
}

export interface Sums extends Seconds {
  nodes: number;
  open: number;
  failed: number;
}

/** Sums over a branch and its descendants. */
export function sums(branch: Branch, now: number): Sums {
  const { node, children } = branch;
  const own = ownSeconds(node, now);
  const total: Sums = { nodes: 1, open: Number(node.settledAt === null), failed: Number(node.status === "failed"), ...own };
  for (const child of children) {
    const below = sums(child, now);
    total.nodes += below.nodes;
    total.open += below.open;
    total.failed += below.failed;
    total.waiting += below.waiting;
    total.working += below.working;
  }
  return total;
}

export function ownSeconds(node: DelegationNode, now: number): Seconds {
  if (node.own !== null) return node.own;
  let [waiting, working] = [0, 0];
  for (const { kind, from, to } of barsOf(node, [], now)) {
    if (kind === "waiting") waiting += (to - from) / 1_000;
    else working += (to - from) / 1_000;
  }
  return { waiting, working };
}

export interface Bar {
  kind: "waiting" | "working";
  from: number;
  to: number;
}

/** From the beginning to the end, or to now: when it waited and when an agent had it. From its timeline where that is known,
 * otherwise from the three times that every delegation has. */
export function barsOf(node: Pick<DelegationNode, "createdAt" | "takenAt" | "settledAt">, facts: readonly DelegationTimelineEntry[], now: number): Bar[] {
  const until = node.settledAt === null ? now : Date.parse(node.settledAt);
  return facts.length > 0 ? bars(facts, until) : bars(defaultTimeline(node), until);
}

type TimelineEntry = Pick<DelegationTimelineEntry, "at" | "phase" | "late">;

function defaultTimeline({ createdAt, takenAt }: Pick<DelegationNode, "createdAt" | "takenAt">): TimelineEntry[] {
  const begun: TimelineEntry = { at: createdAt, phase: "waiting", late: false };
  return takenAt === null ? [begun] : [begun, { at: takenAt, phase: "working", late: false }];
}

export function bars(timeline: readonly TimelineEntry[], until: number): Bar[] {
  const found: Bar[] = [];
  const facts = timeline.filter((fact) => !fact.late).map((fact) => ({ at: Date.parse(fact.at), kind: kindOf(fact.phase) }));
  const times = facts.filter(({ at }) => !Number.isNaN(at)).sort((one, other) => one.at - other.at);
  times.forEach(({ at, kind }, place) => {
    const to = Math.min(times[place + 1]?.at ?? until, until);
    const last = found.at(-1);
    if (kind === null || to <= at) return;
    if (last?.kind === kind && last.to === at) last.to = to;
    else found.push({ kind, from: at, to });
  });
  return found;
}

/** Sending and the pause before a retry count as waiting: no agent works on it. */
function kindOf(phase: string): Bar["kind"] | null {
  if (phase === "ended") return null;
  return phase === "claimed" || phase === "working" ? "working" : "waiting";
}

/** The branches in display order, without those below collapsed ones. */
export interface TreeRow {
  branch: Branch;
  level: number;
  position: number;
  siblings: number;
  /** Null without children. */
  expanded: boolean | null;
}

export function rowsOf(tree: readonly Branch[], folded: ReadonlySet<string>, level = 1): TreeRow[] {
  return tree.flatMap((branch, at) => {
    const expanded = branch.children.length === 0 ? null : !folded.has(branch.node.id);
    const row: TreeRow = { branch, level, position: at + 1, siblings: tree.length, expanded };
    return expanded ? [row, ...rowsOf(branch.children, folded, level + 1)] : [row];
  });
}

/** From the top to a node, both included; empty if it is not in the tree. */
export function pathTo(tree: readonly Branch[], id: string): Branch[] {
  for (const branch of tree) {
    if (branch.node.id === id) return [branch];
    const below = pathTo(branch.children, id);
    if (below.length > 0) return [branch, ...below];
  }
  return [];
}
