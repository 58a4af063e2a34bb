import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { ReadMarks } from "./readMarks";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function marks() {
  const told: [string, number][] = [];
  let fails = false;
  const all = new ReadMarks((workspaceId, seq) => {
    told.push([workspaceId, seq]);
    return fails ? Promise.reject(new Error("no answer")) : Promise.resolve();
  });
  return { all, told, cut: (lost: boolean) => void (fails = lost) };
}

test("the first is told at once, and a burst behind it once, as far as it was read", async () => {
  const { all, told } = marks();
  for (let seq = 1; seq <= 50; seq += 1) all.mark("a", seq);
  all.mark("b", 7);
  expect(told).toEqual([["a", 1], ["b", 7]]);
  await vi.advanceTimersByTimeAsync(600);
  expect(told.slice(2)).toEqual([["a", 50]]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(told).toHaveLength(3);
});

test("what could not be told is told when the connection is back, and not before", async () => {
  const { all, told, cut } = marks();
  cut(true);
  all.mark("a", 1);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(told).toEqual([["a", 1]]);
  cut(false);
  all.retry();
  await vi.advanceTimersByTimeAsync(0);
  all.retry();
  expect(told).toEqual([["a", 1], ["a", 1]]);
});

test("nothing is told behind the end", async () => {
  const { all, told } = marks();
  all.mark("a", 1);
  all.mark("a", 2);
  all.stop();
  await vi.advanceTimersByTimeAsync(5_000);
  expect(told).toEqual([["a", 1]]);
});

test("a page that closes tells at once what it has not told yet", async () => {
  const { all, told } = marks();
  all.mark("a", 1);
  all.mark("a", 2);
  all.mark("b", 7);
  all.flush();
  expect(told).toEqual([["a", 1], ["b", 7], ["a", 2]]);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(told).toHaveLength(3);
});

test("what is read on a restored server, which counts from a lower number, is told too", async () => {
  const { all, told } = marks();
  all.mark("a", 9);
  await vi.advanceTimersByTimeAsync(0);
  all.mark("a", 4);
  await vi.advanceTimersByTimeAsync(600);
  expect(told).toEqual([["a", 9], ["a", 4]]);
});
