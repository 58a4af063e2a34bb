// @vitest-environment node
import { expect, test } from "vitest";
import { seenStore } from "./seenProblems";
import { memoryVault } from "../testing/modelServer";

const ADA = { org: "acme", user: "ada" };

test("what was seen stays seen on the next page, in the other tab, and for this person only", () => {
  const vault = memoryVault();
  const [one, other] = [seenStore(vault, ADA), seenStore(vault, ADA)];
  one.add("d1");
  expect(other.get().has("d1")).toBe(false);
  other.reread();
  expect(other.get().has("d1")).toBe(true);
  other.add("d2");
  one.add("d3");
  expect([...seenStore(vault, ADA).get()]).toEqual(["d1", "d2", "d3"]);
  expect(seenStore(vault, { org: "acme", user: "ben" }).get().size).toBe(0);
});

test("only the last thousand are remembered, and a broken memory is an empty one", () => {
  const vault = memoryVault();
  const seen = seenStore(vault, ADA);
  for (let at = 0; at < 1_100; at += 1) seen.add(`d${at}`);
  expect(seen.get().size).toBe(1_000);
  expect(seen.get().has("d1099")).toBe(true);
  for (const broken of ["{", "3", "[1, null]"]) {
    for (const key of vault.keys("molecule.seen")) vault.set(key, broken);
    expect(seenStore(vault, ADA).get().size).toBe(0);
  }
});
