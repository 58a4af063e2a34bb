// @vitest-environment node
import { expect, test } from "vitest";
import type { KeyValueStorage } from "../store/browserStorage";
import { MAX_SAVED, savedFiltersStore } from "./savedFilters";

const OWNER = { org: "o", user: "u" };

function memory(stored?: string): KeyValueStorage {
  const all = new Map(stored === undefined ? [] : [["molecule.filters.o.u", stored]]);
  return { get: (key) => all.get(key) ?? null, set: (key, value) => void all.set(key, value), remove: (key) => void all.delete(key), keys: () => [...all.keys()] };
}

test("named filters are kept for a person and an organisation, and a known name gets the new ones", () => {
  const storage = memory();
  const store = savedFiltersStore(storage, OWNER);
  store.save({ name: "Failed", filters: { state: "failed" } });
  store.save({ name: "Mail", filters: { kind: "messages" } });
  store.save({ name: "Failed", filters: { state: "failed", since: "24h" } });
  const kept = [{ name: "Mail", filters: { kind: "messages" } }, { name: "Failed", filters: { state: "failed", since: "24h" } }];
  expect(savedFiltersStore(storage, OWNER).get()).toEqual(kept);
  expect(savedFiltersStore(storage, { ...OWNER, org: "other" }).get()).toEqual([]);
  store.remove("Mail");
  expect(savedFiltersStore(storage, OWNER).get()).toEqual([kept[1]]);
});

test("what another tab saved is not lost", () => {
  const storage = memory();
  const [one, other] = [savedFiltersStore(storage, OWNER), savedFiltersStore(storage, OWNER)];
  one.save({ name: "One", filters: {} });
  other.save({ name: "Two", filters: {} });
  one.reread();
  expect(one.get().map(({ name }) => name)).toEqual(["One", "Two"]);
});

test("there is a limit, and a full list still takes a known name", () => {
  const store = savedFiltersStore(memory(), OWNER);
  for (let number = 0; number < MAX_SAVED; number += 1) expect(store.save({ name: `${number}`, filters: {} })).toBe(true);
  expect(store.save({ name: "more", filters: {} })).toBe(false);
  expect(store.save({ name: "3", filters: { q: "x" } })).toBe(true);
  expect(store.get()).toHaveLength(MAX_SAVED);
});

test.each(["{", "null", "7", '{"a":1}', '[null,{},{"name":"","filters":{}},{"name":"x"},{"name":"y","filters":{"q":7,"state":"done"}}]'])("what is stored wrongly is left out: %j", (stored) => {
  for (const each of savedFiltersStore(memory(stored), OWNER).get()) expect(each).toEqual({ name: "y", filters: { state: "done" } });
});
