// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { OrgNode } from "../core/state/model";
import { buildTree, childrenOf, type Tree } from "../core/state/tree";
import { fit } from "./camera";
import { isTitled } from "./detail";
import { layOut, OUTSIDE, type Layout } from "./layout";
import { overlap, type Box } from "./pack";

const NONE_COLLAPSED: ReadonlySet<string> = new Set();

function seat(id: string, parentId: string | null, turn = 0): OrgNode {
  return { id, parentId, name: `agent ${id}`, createdAt: String(turn).padStart(9, "0") };
}

/** `parents`: for each agent the index of an earlier one; -1 for the top. */
function organisation(parents: readonly number[]): Map<string, OrgNode> {
  const nodes = parents.map((parent, at) => seat(`n${at}`, parent < 0 ? null : `n${parent % Math.max(1, at)}`, at));
  return new Map(nodes.map((each) => [each.id, each]));
}

const parents = fc.array(fc.integer({ min: -1, max: 40 }), { minLength: 1, maxLength: 60 }).map((all) => all.map((each, at) => (at === 0 ? -1 : each)));

function boxesIn(tree: Tree, layout: Layout, holder: string): [string, Box][] {
  const own = layout.cards.get(holder);
  const inside = childrenOf(tree, holder).map((id): [string, Box | undefined] => [id, layout.frames.get(id) ?? layout.cards.get(id)]);
  return [[`card of ${holder}`, own] as [string, Box | undefined], ...inside].filter((each): each is [string, Box] => each[1] !== undefined);
}

function expectSound(tree: Tree, layout: Layout): void {
  for (const [id, frame] of layout.frames) {
    const inside = boxesIn(tree, layout, id);
    const { gap, title } = frame;
    for (const [name, box] of inside) {
      expect(box.x >= frame.x + gap && box.y >= frame.y + title + gap, `${name} in ${id}`).toBe(true);
      expect(box.x + box.w <= frame.x + frame.w - gap && box.y + box.h <= frame.y + frame.h - gap, `${name} in ${id}`).toBe(true);
    }
    expectApart(inside, gap);
  }
  expectApart(tree.roots.map((id) => [id, (layout.frames.get(id) ?? layout.cards.get(id)) as Box]), layout.spacings.get(OUTSIDE)?.gap ?? 0);
}

function expectApart(boxes: readonly (readonly [string, Box])[], gap: number): void {
  boxes.forEach(([name, box], at) => {
    for (const [other, beside] of boxes.slice(at + 1)) expect(overlap(box, beside, gap), `${name} on ${other}`).toBe(false);
  });
}

test("boxes are a gutter apart, and children are inside the frame of their team below its title", () => {
  fc.assert(
    fc.property(parents, (all) => {
      const tree = buildTree(organisation(all));
      const layout = layOut(tree, NONE_COLLAPSED, null);
      expect(layout.cards.size).toBe(all.length);
      expectSound(tree, layout);
    }),
    { numRuns: 60 },
  );
});

test("that holds through any coming, going and folding, starting from what was there", () => {
  const step = fc.record({ parent: fc.integer({ min: -1, max: 60 }), remove: fc.integer({ min: 0, max: 60 }), fold: fc.integer({ min: 0, max: 60 }), kind: fc.integer({ min: 0, max: 3 }) });
  fc.assert(
    fc.property(parents, fc.array(step, { maxLength: 25 }), (all, steps) => {
      const nodes = organisation(all);
      let folded: ReadonlySet<string> = NONE_COLLAPSED;
      let layout = layOut(buildTree(nodes), folded, null);
      steps.forEach(({ parent, remove, fold, kind }, turn) => {
        const ids = [...nodes.keys()];
        const id = ids[(kind === 0 ? remove : fold) % Math.max(1, ids.length)];
        if (kind === 0 && id !== undefined && ids.length > 1) nodes.delete(id);
        else if (kind === 1 && id !== undefined) folded = folded.has(id) ? new Set() : new Set([id]);
        else nodes.set(`m${turn}`, seat(`m${turn}`, parent < 0 ? null : (ids[parent % ids.length] ?? null), 1_000 + turn));
        const tree = buildTree(nodes);
        layout = layOut(tree, folded, layout);
        expectSound(tree, layout);
      });
    }),
    { numRuns: 60 },
  );
});

test("the same organisation is laid out the same, in whatever order it was learned", () => {
  fc.assert(
    fc.property(parents, (all) => {
      const nodes = organisation(all);
      const shuffled = new Map([...nodes].reverse());
      const [one, other] = [layOut(buildTree(nodes), NONE_COLLAPSED, null), layOut(buildTree(shuffled), NONE_COLLAPSED, null)];
      expect(one.cards).toEqual(other.cards);
      expect(one.frames).toEqual(other.frames);
    }),
    { numRuns: 30 },
  );
});

test("a changed name moves nothing", () => {
  const nodes = organisation([-1, 0, 0, 1, 1, 2]);
  const before = layOut(buildTree(nodes), NONE_COLLAPSED, null);
  const after = layOut(buildTree(new Map([...nodes].map(([id, each]) => [id, { ...each, name: `${each.name}!` }]))), NONE_COLLAPSED, before);
  expect(after.cards).toEqual(before.cards);
});

/** Three teams below one lead, and a second organisation beside it. */
const COMPANY = organisation([-1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 3, -1, 13, 13]);

test("an agent that comes or goes leaves its team in its place, and pushes others aside at most", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 15 }), fc.integer({ min: 1, max: 12 }), (parent, count) => {
      const nodes = new Map(COMPANY);
      let layout = layOut(buildTree(nodes), NONE_COLLAPSED, null);
      for (let turn = 0; turn < count; turn += 1) {
        const before = layout;
        nodes.set(`new${turn}`, seat(`new${turn}`, `n${parent}`, 100 + turn));
        const tree = buildTree(nodes);
        layout = layOut(tree, NONE_COLLAPSED, before);
        expectPushedAtMost(tree, before, layout, `n${parent}`);
      }
      const before = layout;
      nodes.delete("new0");
      const after = layOut(buildTree(nodes), NONE_COLLAPSED, before);
      for (const [id, card] of after.cards) if (id !== `n${parent}` || after.frames.has(id)) expect(card, id).toEqual(before.cards.get(id));
    }),
    { numRuns: 40 },
  );
});

/** The changed team and the frames around it keep their corner; what is beside them moves right and down, team by team. */
function expectPushedAtMost(tree: Tree, before: Layout, after: Layout, team: string): void {
  const chain = new Set<string>();
  for (let id: string | undefined = team; id !== undefined; id = tree.parent.get(id)) chain.add(id);
  for (const id of chain) {
    const [old, now] = [before.frames.get(id) ?? before.cards.get(id), after.frames.get(id)];
    expect([now?.x, now?.y], id).toEqual([old?.x, old?.y]);
  }
  for (const [id, old] of before.cards) {
    const now = after.cards.get(id);
    if (id === team || now === undefined) continue; // its own card is inside of the new frame
    expect(now.x >= old.x && now.y >= old.y, id).toBe(true);
  }
  for (const [id, inside] of before.arrangements) if (id !== "" && !chain.has(id)) expect(after.arrangements.get(id), id).toEqual(inside);
}

test("one move pushes the neighbours aside, and from the layout before it everything is where it was", () => {
  fc.assert(
    fc.property(parents, fc.integer({ min: 0, max: 60 }), fc.integer({ min: 0, max: 60 }), (all, from, to) => {
      const nodes = organisation(all);
      const before = layOut(buildTree(nodes), NONE_COLLAPSED, null);
      const [moved, target] = [nodes.get(`n${from % all.length}`), `n${to % all.length}`];
      if (moved === undefined) throw new Error("no agent");
      const tree = buildTree(new Map(nodes).set(moved.id, { ...moved, parentId: target }));
      expectSound(tree, layOut(tree, NONE_COLLAPSED, before));
      const back = layOut(buildTree(nodes), NONE_COLLAPSED, before);
      expect(back.cards).toEqual(before.cards);
      expect(back.frames).toEqual(before.frames);
    }),
    { numRuns: 60 },
  );
});

test("an agent that gets a first report among thousands is laid out at once", () => {
  const nodes = organisation(Array.from({ length: 5_000 }, () => -1));
  const before = layOut(buildTree(nodes), NONE_COLLAPSED, null);
  const grown = buildTree(new Map(nodes).set("new", seat("new", "n0", 9_000)));
  const start = performance.now();
  const after = layOut(grown, NONE_COLLAPSED, before);
  expect(performance.now() - start).toBeLessThan(1_500); // finds quadratic cost
  expect(after.frames.size).toBe(1);
});

test("a large organisation is laid out at once", () => {
  const large = buildTree(organisation(Array.from({ length: 10_000 }, (_, at) => (at === 0 ? -1 : Math.floor((at - 1) / 6)))));
  layOut(large, NONE_COLLAPSED, null);
  const start = performance.now();
  const layout = layOut(large, NONE_COLLAPSED, null);
  // The budget is 150 ms on an idle machine; this bound only finds quadratic cost.
  expect(performance.now() - start).toBeLessThan(1_500);
  expect(layout.cards.size).toBe(10_000);
});

const WINDOW = { w: 1_084, h: 800 };
const departments = (count: number, size: number) => Array.from({ length: count * size + 1 }, (_, at) => (at === 0 ? -1 : at <= count ? 0 : ((at - 1) % count) + 1));
const branching = (count: number, by: number) => Array.from({ length: count }, (_, at) => Math.floor((at - 1) / by));

test.each([
  ["12 agents", branching(12, 3)],
  ["10 teams of 20", departments(10, 20)],
  ["50 teams of 40", departments(50, 40)],
  ["2,000 in teams of 6", branching(2_000, 6)],
  ["100 teams of 100", departments(100, 100)],
  ["10,000 in teams of 6", branching(10_000, 6)],
])("with %s in view, the names of the two outermost levels can be read, and gutters can be used", (_, parents) => {
  const layout = layOut(buildTree(organisation(parents)), NONE_COLLAPSED, null);
  const { zoom } = fit(layout, WINDOW);
  const outer = [...layout.frames.values()].filter(({ depth }) => depth <= 1);
  expect(outer.length).toBeGreaterThan(2);
  const titled = outer.filter((frame) => isTitled(frame, zoom)).length;
  if (process.env["SHOW_TIMES"]) console.log(`${parents.length}: zoom ${zoom}, ${titled} of ${outer.length}, title ${(outer[1]?.title ?? 0) * zoom}, gap ${(outer[0]?.gap ?? 0) * zoom} px, ${layout.w} x ${layout.h}`);
  expect(titled / outer.length).toBeGreaterThan(0.9);
});

test("a frame whose organisation grows fourfold gets a larger title and wider gutters, and until then keeps its own", () => {
  const before = layOut(buildTree(organisation(departments(10, 10))), NONE_COLLAPSED, null);
  const more = layOut(buildTree(organisation(departments(10, 15))), NONE_COLLAPSED, before);
  expect(more.spacings.get("n0")).toEqual(before.spacings.get("n0"));
  const many = layOut(buildTree(organisation(departments(10, 150))), NONE_COLLAPSED, more);
  expect(many.spacings.get("n0")?.gap).toBeGreaterThan(2 * (before.spacings.get("n0")?.gap ?? 0));
  expectSound(buildTree(organisation(departments(10, 150))), many);
});
