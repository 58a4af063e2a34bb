// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { OrgNode } from "../core/state/model";
import { teamsOf } from "../core/state/teams";
import { buildTree, type Tree } from "../core/state/tree";
import { spotOf, type Edge } from "./edges";
import { layOut, type Layout } from "./layout";
import { paint, type Palette } from "./paint";
import { overlap, type Box } from "./pack";
import { Router } from "./routes";

const WIDTH_OF_CHARACTER = 0.55;
const PALETTE = { page: "page", card: "card", sunk: "sunk", text: "text", muted: "muted", line: "line", soft: "soft", accent: "accent", font: "test", status: new Proxy({}, { get: (_, name) => `status ${String(name)}` }) } as unknown as Palette;

interface Text {
  text: string;
  pixels: number;
  box: Box;
}

/** A context that notes its texts, and the points of its lines. */
function recorder(): { ctx: CanvasRenderingContext2D; texts: Text[] } {
  const texts: Text[] = [];
  const state = { font: "", textAlign: "start" };
  const pixels = (): number => Number(/([\d.]+)px/.exec(state.font)?.[1] ?? 0);
  const measureText = (text: string) => ({ width: [...text].length * WIDTH_OF_CHARACTER * pixels() });
  const fillText = (text: string, x: number, y: number): void => {
    const { width: w } = measureText(text);
    const h = pixels();
    if (text !== "") texts.push({ text, pixels: h, box: { x: state.textAlign === "center" ? x - w / 2 : x, y: y - h / 2, w, h } });
  };
  const ctx = new Proxy(state, { get: (target, name) => (name === "fillText" ? fillText : name === "measureText" ? measureText : name in target ? Reflect.get(target, name) : () => undefined) });
  return { ctx: ctx as unknown as CanvasRenderingContext2D, texts };
}

function organisation(parents: readonly number[]): Tree {
  return buildTree(new Map(parents.map((parent, at): [string, OrgNode] => [`n${at}`, { id: `n${at}`, parentId: parent < 0 || at === 0 ? null : `n${parent % at}`, name: `n${at}`, createdAt: String(at).padStart(9, "0") }])));
}

function edgesAmong(tree: Tree, layout: Layout, count: number): Edge[] {
  const ids = [...layout.frames.keys()];
  const links = Array.from({ length: count }, (_, at) => ({ key: `${at}`, from: ids[(at * 7) % ids.length] ?? "", to: ids[(at * 13 + 1) % ids.length] ?? "" }));
  const routes = new Router(layout, tree.parent, (anchor) => spotOf(anchor, layout, tree)).route(links.filter(({ from, to }) => from !== to));
  return [...routes].map(([key, route]) => ({ key, state: "working", count: 3, from: "", to: "", sourceId: "", targetId: "", newest: null, ...route }));
}

test("at any zoom a painted text has at least 12 pixels, names are in a title or a card, and none is over another one", () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: -1, max: 30 }), { minLength: 20, maxLength: 120 }), fc.double({ min: 0.02, max: 0.7, noNaN: true }), fc.nat(), (parents, zoom, folded) => {
      const tree = organisation(parents);
      const all = new Set([`n${folded % parents.length}`]);
      const layout = layOut(tree, all, null);
      const { ctx, texts } = recorder();
      const edges = layout.frames.size > 1 ? edgesAmong(tree, layout, 20) : [];
      const what = { layout, teams: teamsOf(tree, new Map(), new Map()), name: (id: string) => `Agent of the name ${id}`, statusOf: () => "online" as const, edges, folded: all, selected: null, matches: null };
      paint(ctx, what, { x: 0, y: 0, zoom }, { w: 1e6, h: 1e6 }, 1, PALETTE);
      const onScreen = ({ x, y, w, h }: Box): Box => ({ x: x * zoom, y: y * zoom, w: w * zoom, h: h * zoom });
      const cards = [...layout.cards.values()].map(onScreen);
      const rooms = [...cards, ...[...layout.frames.values()].map((frame) => onScreen({ ...frame, h: frame.title }))];
      for (const { text, pixels, box } of texts) {
        expect(pixels, text).toBeGreaterThanOrEqual(12);
        const isCount = text === "3" && !rooms.some((room) => isIn(box, room));
        if (isCount) continue;
        expect(rooms.some((room) => isIn(box, room)), `${text} has room at ${zoom}`).toBe(true);
      }
      const names = texts.filter(({ text }) => text !== "3");
      names.forEach((one, at) => {
        for (const other of names.slice(at + 1)) expect(overlap(one.box, other.box, -1), `${one.text} over ${other.text} at ${zoom}`).toBe(false);
      });
    }),
    { numRuns: 60 },
  );
});

function isIn(inner: Box, outer: Box): boolean {
  return inner.x >= outer.x - 0.5 && inner.y >= outer.y - 0.5 && inner.x + inner.w <= outer.x + outer.w + 0.5 && inner.y + inner.h <= outer.y + outer.h + 0.5;
}
