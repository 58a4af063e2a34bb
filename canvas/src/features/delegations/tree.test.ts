// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { DelegationTreeNode } from "../../core/wire";
import { mergeDelegation, type Delegation } from "../../core/state/delegations";
import { bars, barsOf, nodesOf, pathTo, rowsOf, sums, treeOf, withLive, type Branch, type DelegationNode } from "./tree";

const at = (seconds: number): string => new Date(Date.UTC(2026, 2, 1, 12) + seconds * 1_000).toISOString();
const NOW = Date.parse(at(1_000));

function node(id: string, parentId: string | null, part: Partial<DelegationNode> = {}): DelegationNode {
  return {
    id,
    parentId,
    sourceId: "a",
    targetId: "b",
    targetName: "B",
    task: id,
    status: "queued",
    phase: "waiting",
    attempt: 1,
    reason: null,
    error: null,
    advice: null,
    reply: null,
    createdAt: at(0),
    takenAt: null,
    settledAt: null,
    lifeAt: null,
    checks: 0,
    own: null,
    ...part,
  };
}

function wire(id: string, children: DelegationTreeNode[], part: Partial<DelegationTreeNode> = {}): DelegationTreeNode {
  return {
    delegation_id: id,
    status: "queued",
    phase: "waiting",
    created_at: at(0),
    taken_at: null,
    settled_at: null,
    source_id: "a",
    source_name: "A",
    target_id: "b",
    target_name: "B",
    summary: id,
    attempt: 1,
    reason: null,
    error: null,
    advice: null,
    response_preview: null,
    last_heartbeat: null,
    deadline: null,
    stuck: false,
    parent_id: null,
    depth: 1,
    retry_of: null,
    progress: null,
    own_seconds: { waiting: 0, working: 0 },
    subtree: { nodes: 1, open: 1, failed: 0, waiting: 0, working: 0 },
    children,
    checks: 0,
    ...part,
  };
}

const idsOf = (tree: readonly Branch[]): string[] => tree.flatMap(({ node: { id }, children }) => [id, ...idsOf(children)]);

test("own and subtree sums are right, also where children failed", () => {
  const tree = treeOf([
    node("top", null, { takenAt: at(10) }),
    node("done", "top", { createdAt: at(20), takenAt: at(50), settledAt: at(150), status: "completed", phase: "ended" }),
    node("failed", "top", { createdAt: at(30), settledAt: at(40), status: "failed", phase: "ended" }),
    node("below", "done", { createdAt: at(60), takenAt: at(70), settledAt: at(80), status: "completed", phase: "ended", own: { waiting: 7, working: 13 } }),
  ]);
  const [top] = tree as [Branch];
  expect(sums(top, NOW)).toEqual({ nodes: 4, open: 1, failed: 1, waiting: 10 + 30 + 10 + 7, working: 990 + 100 + 13 });
  expect(sums(top.children[0] as Branch, NOW)).toEqual({ nodes: 2, open: 0, failed: 0, waiting: 37, working: 113 });
});

test("a child that the data have twice is counted once", () => {
  const shared = wire("shared", [], { settled_at: at(5), status: "failed", own_seconds: { waiting: 5, working: 0 } });
  const nodes = nodesOf(wire("top", [wire("one", [shared]), wire("two", [shared])]));
  expect(nodes.map(({ id }) => id).sort()).toEqual(["one", "shared", "top", "two"]);
  const [top] = treeOf(nodes) as [Branch];
  expect(sums(top, NOW)).toMatchObject({ nodes: 4, failed: 1, open: 3 });
});

test("circles and missing parents hang nothing and hide no node", () => {
  const ids = ["a", "b", "c", "d", "e", "f", "g"];
  const parents = fc.array(fc.option(fc.constantFrom(...ids, "gone")), { minLength: ids.length, maxLength: ids.length });
  fc.assert(
    fc.property(parents, fc.option(fc.constantFrom(...ids)), (of, top) => {
      const tree = treeOf(ids.map((id, place) => node(id, of[place] ?? null)), top);
      expect(idsOf(tree).sort()).toEqual(ids);
      for (const { node: { parentId, id }, mark } of tree) {
        if (mark === "missing") expect(parentId).toBe("gone");
        if (mark === null) expect(parentId === null || id === top).toBe(true);
      }
    }),
    { numRuns: 1_000 },
  );
});

test("a circle is marked, and so is what hangs below nothing", () => {
  const tree = treeOf([node("x", "y"), node("y", "x"), node("z", "gone"), node("w", null)]);
  expect(tree.map(({ node: { id }, mark }) => [id, mark])).toEqual([["w", null], ["z", "missing"], ["x", "circle"]]);
});

test("waiting and working are told apart, a return to the queue too, and what was late is no part of it", () => {
  const fact = (seconds: number, phase: string, late = false) => ({ at: at(seconds), phase, late });
  const told = [fact(0, "waiting"), fact(5, "sending"), fact(10, "claimed"), fact(20, "working"), fact(30, "waiting"), fact(50, "claimed"), fact(60, "ended"), fact(70, "working", true)];
  const span = (kind: string, from: number, to: number) => ({ kind, from: Date.parse(at(from)), to: Date.parse(at(to)) });
  expect(bars(told, NOW)).toEqual([span("waiting", 0, 10), span("working", 10, 30), span("waiting", 30, 50), span("working", 50, 60)]);
  expect(barsOf(node("n", null, { createdAt: at(0), takenAt: at(400) }), [], NOW)).toEqual([span("waiting", 0, 400), span("working", 400, 1_000)]);
});

test("bars lie within the life of a delegation, one behind the other", () => {
  const facts = fc.array(fc.record({ at: fc.nat(900).map(at), phase: fc.constantFrom("waiting", "claimed", "working", "retrying", "ended"), late: fc.boolean() }));
  fc.assert(
    fc.property(facts, fc.nat(1_000), (told, end) => {
      let last = -Infinity;
      for (const { from, to } of bars(told, Date.parse(at(end)))) {
        expect(from).toBeGreaterThanOrEqual(last);
        expect(to).toBeGreaterThan(from);
        expect(to).toBeLessThanOrEqual(Date.parse(at(end)));
        last = to;
      }
    }),
  );
});

function live(id: string, part: Partial<Delegation>): [string, Delegation] {
  return [id, mergeDelegation(undefined, { id, sourceId: "a", targetId: "b", task: id, createdAt: at(0), lifeAt: at(0), ...part }, 1)];
}

test("a tree that was read goes on with what happens: nodes change, and new ones come below them", () => {
  const read = nodesOf(wire("top", [wire("child", [])], { parent_id: "elsewhere" }));
  const now = new Map([
    live("child", { status: "completed", phase: "ended", settledAt: at(9), reply: "done", parentId: "top" }),
    live("grandchild", { parentId: "child", createdAt: at(3) }),
    live("stranger", { parentId: "other" }),
  ]);
  const tree = treeOf(withLive(read, now), "top");
  expect(idsOf(tree)).toEqual(["top", "child", "grandchild"]);
  expect(tree[0]?.mark).toBeNull();
  expect(pathTo(tree, "grandchild").map(({ node: { id } }) => id)).toEqual(["top", "child", "grandchild"]);
  expect(pathTo(tree, "child").at(-1)?.node).toMatchObject({ status: "completed", reply: "done", targetName: "B" });
});

test("what was read as ended is not opened again", () => {
  const read = nodesOf(wire("top", [], { status: "failed", settled_at: at(4) }));
  const nodes = withLive(read, new Map([live("top", { status: "queued" })]));
  expect(nodes.map(({ id, status }) => [id, status])).toEqual([["top", "failed"]]);
});

test("rows are those that are unfolded, with their places", () => {
  const tree = treeOf([node("a", null), node("b", "a"), node("c", "b"), node("d", "a", { createdAt: at(1) })]);
  const told = (folded: string[]): unknown => rowsOf(tree, new Set(folded)).map(({ branch, level, position, siblings, expanded }) => [branch.node.id, level, position, siblings, expanded]);
  expect(told([])).toEqual([["a", 1, 1, 1, true], ["b", 2, 1, 2, true], ["c", 3, 1, 1, null], ["d", 2, 2, 2, null]]);
  expect(told(["b"])).toEqual([["a", 1, 1, 1, true], ["b", 2, 1, 2, false], ["d", 2, 2, 2, null]]);
});
