// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { OrgNode } from "../core/state/model";
import { buildTree, type Tree } from "../core/state/tree";
import { layOut, type Layout } from "./layout";
import { distanceTo, rounded, Router, type Point, type Route } from "./routes";
import { spotOf } from "./edges";

interface Area {
  x: number;
  y: number;
  w: number;
  h: number;
}

function organisation(parents: readonly number[]): Tree {
  const nodes = parents.map((parent, at): [string, OrgNode] => {
    const parentId = parent < 0 || at === 0 ? null : `n${parent % at}`;
    return [`n${at}`, { id: `n${at}`, parentId, name: `agent ${at}`, createdAt: String(at).padStart(9, "0") }];
  });
  return buildTree(new Map(nodes));
}

/** The layout after some changes: its gutters are not all equally wide. */
function changed(all: readonly number[], later: readonly number[]): { tree: Tree; layout: Layout } {
  const before = layOut(organisation(all), new Set(), null);
  const tree = organisation([...all, ...later]);
  return { tree, layout: layOut(tree, new Set(), before) };
}

const routerOf = (tree: Tree, layout: Layout): Router => new Router(layout, tree.parent, (anchor) => spotOf(anchor, layout, tree));

function forbidden(layout: Layout): Area[] {
  const titles = [...layout.frames.values()].map(({ x, y, w, title }) => ({ x, y, w, h: title }));
  return [...layout.cards.values(), ...titles];
}

/** Whether a straight stretch goes through the inside of an area; at its border it may end. */
function isThrough(one: Point, other: Point, { x, y, w, h }: Area): boolean {
  const [left, right] = [Math.min(one.x, other.x), Math.max(one.x, other.x)];
  const [top, bottom] = [Math.min(one.y, other.y), Math.max(one.y, other.y)];
  return left < x + w && right > x && top < y + h && bottom > y;
}

function expectFree(route: Route, areas: readonly Area[], name: string): void {
  route.points.forEach((point, index) => {
    const next = route.points[index + 1];
    if (!next) return;
    expect(point.x === next.x || point.y === next.y, `${name} is straight`).toBe(true);
    for (const area of areas) if (isThrough(point, next, area)) throw new Error(`${name}: ${JSON.stringify([point, next])} is over ${JSON.stringify(area)}`);
  });
  for (const { around, to } of rounded(route.points)) {
    if (!around) continue;
    // The middle of the curve is nearest to the corner that it cuts.
    const before = route.points[route.points.indexOf(around) - 1] ?? around;
    const after = to;
    const radius = Math.max(Math.abs(after.x - around.x), Math.abs(after.y - around.y));
    const towards = (value: number, goal: number): number => value + Math.sign(goal - value) * radius * 0.25;
    const middle = { x: towards(towards(around.x, after.x), before.x), y: towards(towards(around.y, after.y), before.y) };
    for (const area of areas) if (isThrough(middle, middle, area)) throw new Error(`${name}: the corner at ${JSON.stringify(around)} is over ${JSON.stringify(area)}`);
  }
}

function expectFromBorderToBorder(route: Route, from: Area, to: Area): void {
  for (const [point, box] of [[route.points[0], from], [route.points.at(-1), to]] as const) {
    if (!point) throw new Error("no point");
    const isBeside = (point.x === box.x || point.x === box.x + box.w) && point.y > box.y && point.y < box.y + box.h;
    const isAbove = (point.y === box.y || point.y === box.y + box.h) && point.x > box.x && point.x < box.x + box.w;
    expect(isBeside || isAbove, `${JSON.stringify(point)} is at the border of ${JSON.stringify(box)}`).toBe(true);
  }
}

const parents = (least: number, most: number) => fc.array(fc.integer({ min: -1, max: 40 }), { minLength: least, maxLength: most });
const pair = fc.tuple(fc.nat(), fc.nat());

function check(tree: Tree, layout: Layout, pairs: readonly (readonly [string, string])[]): void {
  const asked = pairs.filter(([from, to]) => from !== to).map(([from, to], at) => ({ key: `${at}`, from, to }));
  const routes = routerOf(tree, layout).route(asked);
  const all = forbidden(layout);
  for (const { key, from, to } of asked) {
    const route = routes.get(key);
    const [start, end] = [spotOf(from, layout, tree), spotOf(to, layout, tree)];
    if (!route || !start || !end) throw new Error(`no line from ${from} to ${to}`);
    const [xs, ys] = [route.points.map(({ x }) => x), route.points.map(({ y }) => y)];
    const [one, other] = [{ x: Math.min(...xs), y: Math.min(...ys) }, { x: Math.max(...xs), y: Math.max(...ys) }];
    expectFree(route, all.filter((area) => isThrough(one, other, area)), `${from} to ${to}`);
    expectFromBorderToBorder(route, start.box, end.box);
  }
}

test("no line is over a card or a title, and each begins and ends at the border of its own", () => {
  fc.assert(
    fc.property(parents(11, 60), parents(0, 12), fc.array(pair, { minLength: 1, maxLength: 20 }), (all, later, pairs) => {
      const { tree, layout } = changed(all, later);
      const ids = [...layout.cards.keys()];
      const idOf = (at: number): string => ids[at % ids.length] ?? "";
      check(tree, layout, pairs.map(([from, to]) => [idOf(from), idOf(to)] as const));
    }),
    { numRuns: 80 },
  );
});

test("that holds between teams, and from a lead to a team of its own", () => {
  fc.assert(
    fc.property(parents(11, 60), fc.array(pair, { minLength: 1, maxLength: 12 }), (all, pairs) => {
      const tree = organisation(all);
      const layout = layOut(tree, new Set(), null);
      const ids = [...layout.frames.keys()];
      if (ids.length < 2) return;
      const isIn = (inner: string, outer: string): boolean => {
        for (let at = tree.parent.get(inner); at !== undefined; at = tree.parent.get(at)) if (at === outer) return true;
        return false;
      };
      const anchor = (id: string, other: string): string => (isIn(other, id) ? id : `frame:${id}`);
      check(tree, layout, pairs.flatMap(([one, two]) => {
        const [from, to] = [ids[one % ids.length] ?? "", ids[two % ids.length] ?? ""];
        return from === to ? [] : [[anchor(from, to), anchor(to, from)] as const];
      }));
    }),
    { numRuns: 40 },
  );
});

test.each([11, 200, 2_000])("that holds for 200 lines among %i agents, at once", (count) => {
  const tree = organisation(Array.from({ length: count }, (_, at) => Math.floor((at - 1) / 6)));
  const layout = layOut(tree, new Set(), null);
  const pairs = Array.from({ length: 200 }, (_, at) => [`n${(at * 7_919) % count}`, `n${(at * 104_729 + 13) % count}`] as const);
  check(tree, layout, pairs);
});

test("what was routed before does not change a route", () => {
  fc.assert(
    fc.property(parents(11, 40), pair, fc.array(pair, { maxLength: 8 }), (all, [from, to], others) => {
      const tree = organisation(all);
      const layout = layOut(tree, new Set(), null);
      const ids = [...layout.cards.keys()];
      const pairOf = ([one, two]: readonly [number, number]) => ({ key: "it", from: ids[one % ids.length] ?? "", to: ids[two % ids.length] ?? "" });
      const used = routerOf(tree, layout);
      for (const other of others) used.route([pairOf(other)]);
      expect(used.route([pairOf([from, to])])).toEqual(routerOf(tree, layout).route([pairOf([from, to])]));
    }),
    { numRuns: 40 },
  );
});

test("lines of one gutter have lanes of their own", () => {
  const tree = organisation([-1, 0, 0, 0, 0, 0, 0, 0, 0]);
  const layout = layOut(tree, new Set(), null);
  const routes = [...routerOf(tree, layout).route(["n5", "n6", "n7", "n8"].map((to) => ({ key: to, from: "n0", to }))).values()];
  const stretches = routes.flatMap(({ points }) => points.slice(1).map((point, index) => [points[index] ?? point, point] as const));
  stretches.forEach(([a, b], at) => {
    for (const [c, d] of stretches.slice(at + 1)) {
      const isShared = a.x === b.x ? a.x === c.x && c.x === d.x && isThrough(a, b, { x: a.x - 1, w: 2, y: Math.min(c.y, d.y), h: Math.abs(c.y - d.y) }) : a.y === c.y && c.y === d.y && isThrough(a, b, { y: a.y - 1, h: 2, x: Math.min(c.x, d.x), w: Math.abs(c.x - d.x) });
      expect(isShared).toBe(false);
    }
  });
});

test("200 lines among 10,000 agents, in teams or in one, are all routed", () => {
  const shapes = [Array.from({ length: 10_000 }, (_, at) => Math.floor((at - 1) / 6)), Array.from({ length: 10_000 }, (_, at) => (at === 0 ? -1 : 0))];
  for (const shape of shapes) {
    const tree = organisation(shape);
    const layout = layOut(tree, new Set(), null);
    const pairs = Array.from({ length: 200 }, (_, at) => ({ key: `${at}`, from: `n${(at * 7_919) % 10_000}`, to: `n${(at * 104_729 + 13) % 10_000}` }));
    const routes = routerOf(tree, layout).route(pairs);
    expect(routes.size).toBe(pairs.filter(({ from, to }) => from !== to).length);
  }
}, 60_000); // 0.5 s on an idle machine; `scripts/bench 85` measures it

test("the distance from a line is that from its nearest stretch", () => {
  const points = [{ x: 0, y: 0 }, { x: 100, y: 0 }, { x: 100, y: 50 }];
  expect(distanceTo(points, { x: 50, y: 7 })).toBe(7);
  expect(distanceTo(points, { x: 103, y: 54 })).toBe(5);
});
