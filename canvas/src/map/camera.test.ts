// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { fit, MIN_ZOOM, MAX_ZOOM, show, zoomAt, type Camera } from "./camera";

const WINDOW = { w: 1_000, h: 700 };
const camera = fc.record({ x: fc.double({ min: -3_000, max: 3_000, noNaN: true }), y: fc.double({ min: -3_000, max: 3_000, noNaN: true }), zoom: fc.double({ min: MIN_ZOOM, max: MAX_ZOOM, noNaN: true }) });

test("zooming keeps what is under the pointer under the pointer", () => {
  fc.assert(
    fc.property(camera, fc.integer({ min: 0, max: 1_000 }), fc.double({ min: 0.2, max: 5, noNaN: true }), (from, x, factor) => {
      const to = zoomAt(from, { x, y: 300 }, factor);
      expect((x - to.x) / to.zoom).toBeCloseTo((x - from.x) / from.zoom, 3);
      expect(to.zoom).toBeGreaterThanOrEqual(MIN_ZOOM);
      expect(to.zoom).toBeLessThanOrEqual(MAX_ZOOM);
    }),
  );
});

test("a small picture is shown whole and not enlarged", () => {
  const { x, y, zoom } = fit({ w: 400, h: 300 }, WINDOW);
  expect(zoom).toBe(1);
  expect(x).toBe(300);
  expect(y).toBeGreaterThan(100);
});

test("a large picture is shown whole", () => {
  const { x, y, zoom } = fit({ w: 9_000, h: 9_000 }, WINDOW);
  expect(x + 9_000 * zoom).toBeLessThanOrEqual(WINDOW.w);
  expect(y + 9_000 * zoom).toBeLessThanOrEqual(WINDOW.h);
});

test("what is in view already is not moved", () => {
  const here: Camera = { x: 0, y: 0, zoom: 1 };
  expect(show(here, { x: 300, y: 200, w: 200, h: 84 }, WINDOW)).toEqual(here);
});

test("what is out of view comes into it, near enough to be read", () => {
  fc.assert(
    fc.property(camera, fc.integer({ min: -9_000, max: 9_000 }), fc.integer({ min: -9_000, max: 9_000 }), (from, x, y) => {
      const to = show(from, { x, y, w: 200, h: 84 }, WINDOW);
      const [left, top] = [x * to.zoom + to.x, y * to.zoom + to.y];
      expect(to.zoom).toBeGreaterThanOrEqual(0.4);
      expect(left).toBeGreaterThanOrEqual(0);
      expect(top).toBeGreaterThanOrEqual(0);
      expect(left + 200 * to.zoom).toBeLessThanOrEqual(WINDOW.w + 0.01);
      expect(top + 84 * to.zoom).toBeLessThanOrEqual(WINDOW.h + 0.01);
    }),
  );
});
