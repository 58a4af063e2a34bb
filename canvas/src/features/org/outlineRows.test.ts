// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { OrgNode } from "../../core/state/model";
import { matching, outlineRows, typeAhead } from "./outlineRows";
import { ancestorsOf, buildTree, walk } from "../../core/state/tree";

function nodes(...all: [id: string, parent: string | null][]): Map<string, OrgNode> {
  return new Map(all.map(([id, parentId], at) => [id, { id, parentId, name: id, createdAt: String(at).padStart(4, "0") }]));
}

const rowsOf = (all: Map<string, OrgNode>, folded: string[] = [], matches: Set<string> | null = null) => outlineRows(buildTree(all), (id) => folded.includes(id), matches);

test("nobody is hidden, whatever the parents say: missing ones, circles, oneself", () => {
  const id = fc.integer({ min: 0, max: 12 });
  fc.assert(
    fc.property(fc.array(fc.tuple(id, fc.option(id)), { maxLength: 20 }), (all) => {
      const map = nodes(...all.map(([each, parent]): [string, string | null] => [`n${each}`, parent === null ? null : `n${parent}`]));
      const tree = buildTree(map);
      expect(walk(tree).sort()).toEqual([...map.keys()].sort());
      for (const each of map.keys()) expect(ancestorsOf(tree, each).length).toBeLessThan(map.size);
    }),
  );
});

test("siblings stand in the order in which they were made", () => {
  const all = nodes(["lead", null], ["b", "lead"], ["a", "lead"]);
  expect(walk(buildTree(all))).toEqual(["lead", "b", "a"]);
});

test("rows know their level, their place among siblings, and whether they are open", () => {
  const all = nodes(["lead", null], ["team", "lead"], ["one", "team"], ["two", "team"], ["other", "lead"]);
  expect(rowsOf(all).map((row) => [row.id, row.level, row.position, row.siblings, row.expanded])).toEqual([
    ["lead", 1, 1, 1, true],
    ["team", 2, 1, 2, true],
    ["one", 3, 1, 2, null],
    ["two", 3, 2, 2, null],
    ["other", 2, 2, 2, null],
  ]);
  expect(rowsOf(all, ["team"]).map((row) => row.id)).toEqual(["lead", "team", "other"]);
});

test("a search shows what it found below those who lead there, also in folded teams", () => {
  const all = nodes(["lead", null], ["team", "lead"], ["one", "team"], ["two", "team"], ["other", "lead"]);
  expect(rowsOf(all, ["team"], new Set(["two"])).map((row) => row.id)).toEqual(["lead", "team", "two"]);
  expect(rowsOf(all, [], new Set())).toEqual([]);
});

test("all words are looked for in names and roles, and no words look for nothing", () => {
  const people = [
    { id: "a", name: "Backend", role: "Storage and API" },
    { id: "b", name: "Frontend", role: null },
  ];
  expect(matching(people, "end sto")).toEqual(new Set(["a"]));
  expect(matching(people, "END")).toEqual(new Set(["a", "b"]));
  expect(matching(people, "   ")).toBeNull();
});

test("letters go to the next name that begins with them, around the end", () => {
  const all = nodes(["Ada", null], ["Ben", null], ["Bea", null], ["Cid", null]);
  const rows = rowsOf(all);
  expect(typeAhead(rows, all, 0, "b")).toBe(1);
  expect(typeAhead(rows, all, 1, "b")).toBe(2);
  expect(typeAhead(rows, all, 2, "b")).toBe(1);
  expect(typeAhead(rows, all, 1, "bea")).toBe(2);
  expect(typeAhead(rows, all, 1, "x")).toBe(1);
});
