// @vitest-environment node
import { expect, test } from "vitest";
import { foldedTeams, foldsStore } from "./folds";
import type { OrgNode } from "../state/model";
import { buildTree } from "../state/tree";
import { memoryStorage } from "../testing/modelServer";

const OWNER = { org: "org", user: "ada" };

function company(size: number): Map<string, OrgNode> {
  const nodes = Array.from({ length: size }, (_, at): OrgNode => ({ id: `n${at}`, parentId: at === 0 ? null : `n${Math.floor((at - 1) / 4)}`, name: "", createdAt: String(at).padStart(6, "0") }));
  return new Map(nodes.map((each) => [each.id, each]));
}

test("in a small organisation everything starts open, in a large one the deeper teams start folded", () => {
  expect(foldedTeams(buildTree(company(500)), new Map(), 500).size).toBe(0);
  const folded = foldedTeams(buildTree(company(3_000)), new Map(), 3_000);
  expect(["n0", "n1", "n4"].some((id) => folded.has(id))).toBe(false);
  expect(folded.has("n5")).toBe(true);
});

test("what a person chose counts, and is found again by the same person", () => {
  const storage = memoryStorage();
  foldsStore(storage, OWNER).fold("n1", true);
  foldsStore(storage, OWNER).fold("n5", false);
  const chosen = foldsStore(storage, OWNER).get();
  expect(foldedTeams(buildTree(company(20)), chosen, 20)).toEqual(new Set(["n1"]));
  expect(foldedTeams(buildTree(company(3_000)), chosen, 3_000).has("n5")).toBe(false);
  expect(foldsStore(storage, { org: "org", user: "bob" }).get().size).toBe(0);
});

test("an agent without a team is never folded, and damage is passed over", () => {
  expect(foldedTeams(buildTree(company(2)), new Map([["n1", true]]), 2).size).toBe(0);
  const storage = memoryStorage();
  storage.set("molecule.folds.org.ada", "[[3],null]");
  expect(foldsStore(storage, OWNER).get().size).toBe(0);
});
