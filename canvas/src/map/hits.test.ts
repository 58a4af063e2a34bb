// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { cardDetail, isTitled, steppedZoom, titlePixels } from "./detail";
import type { Edge } from "./edges";
import { hitAt } from "./hits";
import { layOut } from "./layout";
import { Router } from "./routes";
import { shortened } from "./shortened";
import type { Tree } from "../core/state/tree";
import { spotOf } from "./edges";

const TREE: Tree = {
  roots: ["lead"],
  children: new Map([["lead", ["a", "team"]], ["team", ["b"]]]),
  parent: new Map([["a", "lead"], ["team", "lead"], ["b", "team"]]),
};
const FOLDED = new Set(["team"]);
const LAYOUT = layOut(TREE, FOLDED, null);
const CAMERA = { x: 30, y: 20, zoom: 0.5 };

function lineFrom(from: string, to: string): Edge {
  const router = new Router(LAYOUT, TREE.parent, (anchor) => spotOf(anchor, LAYOUT, TREE));
  const route = router.route([{ key: "it", from, to }]).get("it");
  if (!route) throw new Error("no route");
  return { key: "it", state: "working", count: 1, from, to, sourceId: from, targetId: to, newest: null, ...route };
}

const EDGE = lineFrom("lead", "a");
const at = (x: number, y: number) => hitAt({ layout: LAYOUT, edges: [EDGE], folded: FOLDED }, CAMERA, { x: x * CAMERA.zoom + CAMERA.x, y: y * CAMERA.zoom + CAMERA.y });
const boxOf = (id: string) => LAYOUT.cards.get(id) ?? { x: 0, y: 0, w: 0, h: 0 };

test("a painted card is opened, at the end of that of a collapsed team it is expanded", () => {
  const [card, team] = [boxOf("a"), boxOf("team")];
  expect(at(card.x + card.w - 5, card.y + 5)).toEqual({ kind: "card", id: "a" });
  expect(at(team.x + 5, team.y + 5)).toEqual({ kind: "card", id: "team" });
  expect(at(team.x + team.w - 5, team.y + team.h / 2)).toEqual({ kind: "unfold", id: "team" });
});

test("a painted title collapses its team, a line is followed, and beside them is nothing", () => {
  const frame = LAYOUT.frames.get("lead");
  if (!frame) throw new Error("no frame");
  expect(at(frame.x + 20, frame.y + frame.title / 2)).toEqual({ kind: "title", id: "lead" });
  const [start, end] = [EDGE.points[0], EDGE.points[1]];
  if (!start || !end) throw new Error("no points");
  expect(at((start.x + end.x) / 2, (start.y + end.y) / 2)).toEqual({ kind: "edge", edge: EDGE });
  expect(at(-500, -500)).toBeNull();
});

const zooms = fc.double({ min: 0.02, max: 2, noNaN: true });

test("no text is smaller than 12 pixels, and a title fits into its band", () => {
  fc.assert(
    fc.property(zooms, fc.integer({ min: 30, max: 600 }), (zoom, title) => {
      expect(titlePixels(title, zoom)).toBeGreaterThanOrEqual(12);
      if (isTitled({ w: 1_000, title }, zoom) && zoom <= 1) expect(titlePixels(title, zoom)).toBeLessThanOrEqual(Math.max(12, title * zoom - 3));
    }),
  );
});

test("a smaller card shows less: name and status, the name, at last the glyph", () => {
  expect([1, 0.7, 0.5, 0.3].map(cardDetail)).toEqual(["full", "short", "name", "glyph"]);
});

test("a gesture changes the painted zoom in steps", () => {
  fc.assert(
    fc.property(zooms, (zoom) => {
      const stepped = steppedZoom(zoom);
      expect(stepped).toBeLessThanOrEqual(zoom * 1.000_001);
      expect(stepped).toBeGreaterThan(zoom * 0.92);
      expect(steppedZoom(stepped)).toBeCloseTo(stepped, 9);
    }),
  );
});

test("a name is cut where its room ends, between characters, and left out when nothing of it fits", () => {
  const ctx = { font: "12px test", measureText: (text: string) => ({ width: 6 * [...text].length }) as TextMetrics };
  expect(shortened(ctx, "Engineering", 100)).toBe("Engineering");
  expect(shortened(ctx, "Engineering", 42)).toBe("Engine…");
  expect(shortened(ctx, "👩‍💻 Team", 12)).toBe("");
  expect(shortened(ctx, "Engineering", -4)).toBe("");
});
