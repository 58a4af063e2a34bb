// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { applySnapshot } from "./snapshot";
import { descendantsOf, refusalOfMove, withParent } from "./moveRules";
import { ModelServer } from "../testing/modelServer";
import { ancestorsOf, buildTree } from "./tree";
import type { State } from "./model";

const IDS = ["a", "b", "c", "d", "e", "f"];

/** Each one below an older one, or at the top. */
const organisation = fc.array(fc.nat(6), { minLength: 6, maxLength: 6 }).map((picks): State => {
  const server = new ModelServer();
  IDS.forEach((id, at) => server.do({ verb: "create", id, parent: IDS[(picks[at] ?? 0) % (at + 1)] === id ? null : (IDS[(picks[at] ?? 0) % (at + 1)] ?? null) }));
  return applySnapshot(null, server.snapshot());
});

test("a move is refused exactly where it would make a circle or change nothing", () => {
  fc.assert(
    fc.property(organisation, fc.constantFrom(...IDS), fc.option(fc.constantFrom(...IDS)), (state, id, target) => {
      const tree = buildTree(state.orgNodes);
      const refusal = refusalOfMove(tree, state.orgNodes, id, target);
      const stays = (state.orgNodes.get(id)?.parentId ?? null) === target;
      const circle = target !== null && (target === id || ancestorsOf(tree, target).includes(id));
      expect(refusal !== null).toBe(stays || circle);
      if (refusal !== null) return;
      const after = buildTree(withParent(state, id, target).orgNodes);
      expect(after.parent.get(id) ?? null).toBe(target);
      expect(descendantsOf(after, id).sort()).toEqual(descendantsOf(tree, id).sort());
    }),
  );
});

test("the words say who is in the way", () => {
  const server = new ModelServer();
  server.do({ verb: "create", id: "a", parent: null });
  server.do({ verb: "create", id: "b", parent: "a" });
  const { orgNodes } = applySnapshot(null, server.snapshot());
  const why = (id: string, target: string | null): string | null => refusalOfMove(buildTree(orgNodes), orgNodes, id, target);
  expect(why("a", "b")).toBe("Agent a cannot report to Agent b, which is below it.");
  expect(why("b", "b")).toBe("Agent b cannot report to itself.");
  expect(why("b", "a")).toBe("Agent b already reports to Agent a.");
  expect(why("a", null)).toBe("Agent a is already at the top level.");
  expect(why("b", null)).toBeNull();
});

test("all below are named once each, those above before those below, also around a circle", () => {
  const children = new Map([["a", ["b", "c"]], ["b", ["d"]], ["d", ["b"]]]);
  expect(descendantsOf({ roots: ["a"], children, parent: new Map() }, "a")).toEqual(["b", "c", "d"]);
});
