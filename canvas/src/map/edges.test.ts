// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { mergeDelegation, type Delegation } from "../core/state/delegations";
import type { OrgNode } from "../core/state/model";
import { buildTree } from "../core/state/tree";
import { anyRecent, edgesOf, headOf, MAX_EDGES, MESSAGE_MS, type EdgesOf } from "./edges";
import type { EventFrame } from "../core/wire";
import { layOut } from "./layout";
import { addPassed } from "./usePassedMessages";

const NOON = Date.parse("2026-03-01T12:00:00Z");
const seat = (id: string, parentId: string | null): [string, OrgNode] => [id, { id, parentId, name: id, createdAt: "2026-01-01T00:00:00Z" }];
const SEATS = new Map([seat("lead", null), seat("red", "lead"), seat("r1", "red"), seat("r2", "red"), seat("blue", "lead"), seat("b1", "blue"), seat("b2", "blue")]);
const TREE = buildTree(SEATS);

function given(sourceId: string, targetId: string, part: Partial<Delegation> = {}): Delegation {
  const id = `${sourceId} ${targetId} ${JSON.stringify(part)}`;
  return mergeDelegation(undefined, { id, sourceId, targetId, status: "queued", createdAt: "2026-03-01T11:59:30Z", updatedAt: "2026-03-01T11:59:30Z", ...part }, 1);
}

function edges(works: readonly Delegation[], part: Partial<EdgesOf> & { folded?: string[] } = {}) {
  const layout = layOut(TREE, new Set(part.folded), null);
  const delegations = new Map(works.map((each) => [each.id, each]));
  return edgesOf({ delegations, messages: [], layout, tree: TREE, selected: null, bundled: false, now: NOON, ...part });
}

const told = (found: ReturnType<typeof edges>): unknown => found.shown.map(({ key, count }) => `${key} ${count}`);

test("a line says who gave work to whom and how it stands", () => {
  const delegations = [
    given("r1", "b1"),
    given("r2", "b2", { phase: "claimed", takenAt: "2026-03-01T11:59:20Z", updatedAt: "2026-03-01T11:59:29Z" }),
    given("b1", "r1", { status: "completed", updatedAt: "2026-03-01T11:59:28Z" }),
    given("b2", "r2", { status: "failed", updatedAt: "2026-03-01T11:59:27Z" }),
  ];
  expect(told(edges(delegations))).toEqual(["r1 b1 waiting 1", "r2 b2 working 1", "b1 r1 done 1", "b2 r2 failed 1"]);
});

test("a line goes a minute after the last thing that happened, but those of the chosen agent stay while they are open", () => {
  const old = given("r1", "b1", { updatedAt: "2026-03-01T11:00:00Z" });
  const done = given("r1", "b2", { updatedAt: "2026-03-01T11:00:00Z", status: "completed" });
  expect(told(edges([old, done]))).toEqual([]);
  expect(told(edges([old, done], { selected: "b1" }))).toEqual(["r1 b1 waiting 1"]);
  expect(told(edges([old, done], { selected: "b2" }))).toEqual([]);
  expect(anyRecent(new Map([["d", given("r1", "b1")]]), [], NOON)).toBe(true);
  expect(anyRecent(new Map([["d", given("r1", "b1")]]), [], NOON + 31_000)).toBe(false);
});

test("what is in a folded team stands for its team, and from afar teams are bundled", () => {
  const delegations = [given("r1", "b1"), given("r2", "b2"), given("r1", "r2")];
  expect(told(edges(delegations, { folded: ["red"] }))).toEqual(["red b1 waiting 1", "red b2 waiting 1"]);
  expect(told(edges(delegations, { bundled: true }))).toEqual(["frame:red frame:blue waiting 2"]);
});

test("more lines than can be told apart are counted and not drawn", () => {
  const many = new Map<string, OrgNode>([seat("lead", null)]);
  const delegations: Delegation[] = [];
  for (let at = 0; at < MAX_EDGES + 30; at += 1) {
    many.set(...seat(`w${at}`, "lead"));
    delegations.push(given("lead", `w${at}`));
  }
  const tree = buildTree(many);
  const found = edges(delegations, { tree, layout: layOut(tree, new Set(), null) });
  expect(found.shown).toHaveLength(MAX_EDGES);
  expect(found.more).toBe(30);
});

test("a line begins at the edge of one card and ends at that of the other; its head points on", () => {
  const anybody = fc.constantFrom(...SEATS.keys());
  fc.assert(
    fc.property(anybody, anybody, (from, to) => {
      const layout = layOut(TREE, new Set(), null);
      for (const edge of edges([given(from, to)]).shown) {
        for (const [id, point] of [[from, edge.from], [to, edge.to]] as const) {
          const box = layout.cards.get(id);
          if (box === undefined) throw new Error("no card");
          const [dx, dy] = [Math.abs(point.x - box.x - box.w / 2) - box.w / 2, Math.abs(point.y - box.y - box.h / 2) - box.h / 2];
          expect(Math.abs(Math.max(dx, dy))).toBeLessThanOrEqual(7.001);
        }
        expect(headOf(edge, 9)[0]).toEqual(edge.to);
      }
    }),
  );
});

test("an agent that is not on the map has no line", () => {
  expect(edges([given("gone", "b1"), given("b1", "gone")]).shown).toEqual([]);
});

test("a message is an edge of its own for some seconds", () => {
  const messages = [{ sourceId: "r1", targetId: "b1", at: NOON - 1_000 }];
  expect(told(edges([given("r1", "b1")], { messages }))).toEqual(["r1 b1 message 1", "r1 b1 waiting 1"]);
  expect(told(edges([], { messages, now: NOON + MESSAGE_MS }))).toEqual([]);
  expect([anyRecent(new Map(), messages, NOON), anyRecent(new Map(), messages, NOON + MESSAGE_MS)]).toEqual([true, false]);
});

test("the last message of each pair is kept, within the bound", () => {
  const frame = (source: string, kind = "peer_agent"): EventFrame =>
    ({ event: "ACTIVITY_LOGGED", workspace_id: "b1", payload: { activity_type: "a2a_receive", source_id: source, kind } }) as unknown as EventFrame;
  const known = new Map();
  expect(addPassed(known, [frame("r1"), frame("r2"), frame("r1"), frame("r3", "delegation")], NOON)).toBe(true);
  expect([...known.keys()]).toEqual(["r2 b1", "r1 b1"]);
  addPassed(known, Array.from({ length: MAX_EDGES + 5 }, (_, at) => frame(`s${at}`)), NOON + 1);
  expect(known.size).toBe(MAX_EDGES);
  expect(addPassed(known, [], NOON + MESSAGE_MS + 1)).toBe(false);
  expect(known.size).toBe(0);
});
