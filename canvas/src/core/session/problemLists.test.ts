// @vitest-environment node
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { NO_PROBLEMS } from "../state/problems";
import { NoResponseError } from "../api/errors";
import { RETRY_MS, ProblemLists } from "./problemLists";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const lost = (): Promise<never> => Promise.reject(new NoResponseError("The server did not respond."));
const after = (ms: number): Promise<unknown> => vi.advanceTimersByTimeAsync(ms);

test("a reading that failed is told, and tried once more after a while", async () => {
  const load = vi.fn().mockImplementationOnce(lost).mockResolvedValue(NO_PROBLEMS);
  const stuck = new ProblemLists(load, () => 7);
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
  const stuck = new ProblemLists(load, () => 7);
  await stuck.read();
  await after(RETRY_MS * 10);
  expect(load).toHaveBeenCalledTimes(2);
});

test("somebody who asks takes the place of the next try", async () => {
  const load = vi.fn().mockImplementationOnce(lost).mockResolvedValue(NO_PROBLEMS);
  const stuck = new ProblemLists(load, () => 7);
  await stuck.read();
  await stuck.read();
  await after(RETRY_MS * 10);
  expect(load).toHaveBeenCalledTimes(2);
});

test("what is stopped asks no more, also if its last answer comes late", async () => {
  let refuse: (error: Error) => void = () => undefined;
  const load = vi.fn().mockImplementation(() => new Promise((_done, refused) => (refuse = refused)));
  const stuck = new ProblemLists(load, () => 7);
  void stuck.read();
  stuck.stop();
  refuse(new NoResponseError("The server did not respond."));
  await after(RETRY_MS * 10);
  await stuck.read();
  expect(load).toHaveBeenCalledTimes(1);
});
