// @vitest-environment node
import { expect, test } from "vitest";
import { seenProblemsStore } from "./seenProblems";
import { memoryStorage } from "../testing/modelServer";

const ADA = { org: "acme", user: "ada" };

test("what was seen stays seen on the next page, in the other tab, and for this person only", () => {
  const storage = memoryStorage();
  const [one, other] = [seenProblemsStore(storage, ADA), seenProblemsStore(storage, ADA)];
  one.add("d1");
  expect(other.get().has("d1")).toBe(false);
  other.reread();
  expect(other.get().has("d1")).toBe(true);
  other.add("d2");
  one.add("d3");
  expect([...seenProblemsStore(storage, ADA).get()]).toEqual(["d1", "d2", "d3"]);
  expect(seenProblemsStore(storage, { org: "acme", user: "ben" }).get().size).toBe(0);
});

test("only the last thousand are remembered, and a broken memory is an empty one", () => {
  const storage = memoryStorage();
  const seen = seenProblemsStore(storage, ADA);
  for (let at = 0; at < 1_100; at += 1) seen.add(`d${at}`);
  expect(seen.get().size).toBe(1_000);
  expect(seen.get().has("d1099")).toBe(true);
  for (const broken of ["{", "3", "[1, null]"]) {
    for (const key of storage.keys("molecule.seen")) storage.set(key, broken);
    expect(seenProblemsStore(storage, ADA).get().size).toBe(0);
  }
});
