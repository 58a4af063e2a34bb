// @vitest-environment node
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { throttledStore } from "./throttledStore";
import { createStore } from "./store";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("without a wait it follows every change at once", () => {
  const source = createStore(0);
  const throttled = throttledStore(source, () => 0);
  source.set(1);
  source.set(2);
  expect(throttled.get()).toBe(2);
});

test("with a wait it follows the first change at once, then the last of each time", () => {
  const source = createStore(0);
  const throttled = throttledStore(source, () => 250);
  const seen: number[] = [];
  throttled.subscribe(() => seen.push(throttled.get()));
  for (let turn = 1; turn <= 10; turn += 1) {
    source.set(turn);
    vi.advanceTimersByTime(100);
  }
  vi.advanceTimersByTime(1_000);
  expect(seen[0]).toBe(1);
  expect(seen.at(-1)).toBe(10);
  expect(seen.length).toBeLessThanOrEqual(6);
});
