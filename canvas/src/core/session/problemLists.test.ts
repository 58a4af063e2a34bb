// @vitest-environment node
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NO_PROBLEMS, type Problems } from "../state/problems";
import { NoResponseError } from "../api/errors";
import { RETRY_MS, SPREAD_MS, ProblemLists } from "./problemLists";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const lists = (load: () => Promise<Problems>, isVisible = (): boolean => true): ProblemLists =>
  new ProblemLists({ load, now: () => 7, chance: () => 1, isVisible });
const lost = (): Promise<never> => Promise.reject(new NoResponseError("The server did not respond."));
const after = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

test("a reading that failed is told, and tried once more after a while", async () => {
  const load = vi.fn().mockImplementationOnce(lost).mockResolvedValue(NO_PROBLEMS);
  const stuck = lists(load);
  await stuck.read();
  expect(stuck.status.get()).toEqual({ readAt: null, problem: "The server did not respond." });
  await after(RETRY_MS - 1);
  expect(load).toHaveBeenCalledTimes(1);
  await after(1);
  expect(load).toHaveBeenCalledTimes(2);
  expect(stuck.status.get()).toEqual({ readAt: 7, problem: null });
});

test("a server that does not come back is not asked for ever", async () => {
  const load = vi.fn().mockImplementation(lost);
  const stuck = lists(load);
  await stuck.read();
  await after(RETRY_MS * 10);
  expect(load).toHaveBeenCalledTimes(2);
});

test("somebody who asks takes the place of the next try", async () => {
  const load = vi.fn().mockImplementationOnce(lost).mockResolvedValue(NO_PROBLEMS);
  const stuck = lists(load);
  await stuck.read();
  await stuck.read();
  await after(RETRY_MS * 10);
  expect(load).toHaveBeenCalledTimes(2);
});

test("what is stopped asks no more, also if its last answer comes late", async () => {
  let refuse: (error: Error) => void = () => undefined;
  const load = vi.fn().mockImplementation(() => new Promise((_done, refused) => (refuse = refused)));
  const stuck = lists(load);
  void stuck.read();
  stuck.stop();
  refuse(new NoResponseError("The server did not respond."));
  await after(RETRY_MS * 10);
  await stuck.read();
  expect(load).toHaveBeenCalledTimes(1);
});

test("the lists are read again after the time that the server names, a little later on each page", async () => {
  const load = vi.fn().mockResolvedValueOnce({ ...NO_PROBLEMS, nextCheckSeconds: 240 }).mockResolvedValue({ ...NO_PROBLEMS, nextCheckSeconds: 10 });
  const stuck = lists(load);
  await stuck.read();
  await after(240_000 + SPREAD_MS - 1);
  expect(load).toHaveBeenCalledTimes(1);
  await after(1);
  expect(load).toHaveBeenCalledTimes(2);
  await after(11_000);
  expect(load).toHaveBeenCalledTimes(3);
  stuck.stop();
  await after(60_000);
  expect(load).toHaveBeenCalledTimes(3);
});

test("a read for another reason postpones the next one", async () => {
  const load = vi.fn().mockResolvedValue({ ...NO_PROBLEMS, nextCheckSeconds: 10 });
  const stuck = lists(load);
  await stuck.read();
  await after(9_000);
  await stuck.read();
  await after(9_000);
  expect(load).toHaveBeenCalledTimes(2);
  await after(2_000);
  expect(load).toHaveBeenCalledTimes(3);
});

test("a hidden page reads nothing, and reads once when it is shown again", async () => {
  let visible = false;
  const load = vi.fn().mockResolvedValue({ ...NO_PROBLEMS, nextCheckSeconds: 10 });
  const stuck = lists(load, () => visible);
  await stuck.read();
  await after(3_600_000);
  expect(load).toHaveBeenCalledTimes(1);
  visible = true;
  stuck.readIfDue();
  stuck.readIfDue();
  await after(0);
  expect(load).toHaveBeenCalledTimes(2);
  stuck.readIfDue();
  await after(0);
  expect(load).toHaveBeenCalledTimes(2);
});
