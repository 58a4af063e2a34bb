import { afterEach, beforeEach, expect, test, vi } from "vitest";

let frames: FrameRequestCallback[] = [];

beforeEach(() => {
  frames = [];
  vi.resetModules();
  vi.useFakeTimers({ toFake: ["setTimeout"] });
  vi.stubGlobal("requestAnimationFrame", (callback: FrameRequestCallback) => frames.push(callback));
});

afterEach(() => {
  performance.clearMarks();
  vi.useRealTimers();
});

function marks(name: string): number {
  return performance.getEntriesByName(name).length;
}

test("the map is ready once, behind the frame that paints it first", async () => {
  const { noteReady, READY } = await import("./performanceMark");
  noteReady();
  noteReady();
  expect(frames).toHaveLength(1);
  frames[0]?.(0);
  expect(marks(READY)).toBe(0);
  vi.runAllTimers();
  expect(marks(READY)).toBe(1);
  noteReady();
  vi.runAllTimers();
  expect(frames).toHaveLength(1);
  expect(marks(READY)).toBe(1);
});
