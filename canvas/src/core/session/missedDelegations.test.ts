// @vitest-environment node
import { expect, test } from "vitest";
import { isOpen } from "../state/delegations";
import type { State } from "../state/model";
import { applySnapshot } from "../state/snapshot";
import { createStore } from "../store/store";
import { ModelServer } from "../testing/modelServer";
import type { DelegationDetail, DelegationItem, DelegationPage } from "../wire";
import { ApiError } from "../api/errors";
import { MissedDelegations } from "./missedDelegations";

/** A page with `count` open delegations that all ended during an interruption, and a server whose pages contain none of
 * them. */
function late(count: number, trouble: Readonly<Record<string, Error>> = {}) {
  const server = new ModelServer();
  for (const id of ["a", "b"]) server.do({ verb: "create", id, parent: null });
  for (let at = 0; at < count; at += 1) server.do({ verb: "delegate", id: "a", target: "b", text: `task ${at}` });
  const before = applySnapshot(null, server.snapshot());
  for (let at = 0; at < count; at += 1) server.do({ verb: "settle", id: "a", at: 0, how: "completed", text: "done" });
  const data = createStore<State | null>(applySnapshot(before, server.snapshot()));
  const asked: string[] = [];
  const seen = { running: 0, most: 0 };
  const items = server.timeline("a").filter((item) => item.kind === "delegation");
  const api = {
    delegations: (): Promise<DelegationPage> => Promise.resolve({ delegations: [], open: 0, stuck: 0 }),
    delegation: async (id: string): Promise<DelegationDetail> => {
      asked.push(id);
      seen.running += 1;
      seen.most = Math.max(seen.most, seen.running);
      await Promise.resolve();
      seen.running -= 1;
      if (trouble[id] !== undefined) throw trouble[id];
      const delegation = items.find((item) => item.delegation_id === id) as DelegationItem;
      return { delegation } as DelegationDetail;
    },
  };
  const open = (): string[] => [...(data.get()?.delegations.values() ?? [])].filter(isOpen).map(({ id }) => id);
  return { work: new MissedDelegations(api, "org", data), api, data, asked, seen, open };
}

test("what ended unheard and is older than the pages of the server is read by itself, a few at a time", async () => {
  const { work, data, asked, seen, open } = late(45);
  expect(open()).toHaveLength(45);
  await work.read();
  expect(open()).toEqual([]);
  expect(data.get()?.delegations.get("d1")).toMatchObject({ status: "completed", reply: "done" });
  expect(asked).toHaveLength(45);
  expect(seen.most).toBe(20);
});

test("what the server does not keep any more is dropped, and no other", async () => {
  const { work, data, open } = late(3, { d2: new ApiError(404, "unknown", "There is no such delegation.") });
  await work.read();
  expect(open()).toEqual([]);
  expect([...(data.get()?.delegations.keys() ?? [])]).toEqual(["d1", "d3"]);
});

test("a server in trouble is not asked on, and what it did not tell is read with the next connection", async () => {
  const trouble: Record<string, Error> = { d7: new ApiError(503, null, "The store is busy.") };
  const { work, asked, open } = late(45, trouble);
  await work.read();
  expect(asked).toHaveLength(20);
  expect(open()).toContain("d7");
  delete trouble["d7"];
  await work.read();
  expect(open()).toEqual([]);
});

test("what the pages tell is not read by itself, nor is anything while they cannot be read", async () => {
  const told = late(2);
  const { delegation } = await told.api.delegation("d1");
  told.asked.length = 0;
  told.api.delegations = () => Promise.resolve({ delegations: [delegation], open: 0, stuck: 0 });
  await told.work.read();
  expect(told.asked).toEqual(["d2"]);
  const lost = late(2);
  lost.api.delegations = () => Promise.reject(new ApiError(503, null, "The store is busy."));
  await lost.work.read();
  expect(lost.asked).toEqual([]);
});
