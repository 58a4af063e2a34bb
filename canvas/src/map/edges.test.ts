// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { mergeDelegation, type Delegation } from "../core/state/delegations";
import type { OrgNode } from "../core/state/model";
import { buildTree } from "../core/state/tree";
import { anyRecent, bundleLevel, headOf, labelOf, linksOf, MAX_EDGES, MESSAGE_MS, routed, spotOf, titleOf, type EdgesOf } from "./edges";
import type { EventFrame } from "../core/wire";
import { placeOfLink } from "./follow";
import { layOut } from "./layout";
import { Router } from "./routes";
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
  return linksOf({ delegations, messages: [], layout, tree: TREE, selected: null, level: null, now: NOON, ...part });
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
  expect(told(edges(delegations, { level: 1 }))).toEqual(["frame:red frame:blue waiting 2"]);
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

test("from afar a lead's own team is a line from its card, and what a team does inside is none", () => {
  const works = [given("lead", "r1"), given("lead", "red"), given("r1", "r2"), given("b1", "lead")];
  expect(told(edges(works, { level: 1 }))).toEqual(["lead frame:red waiting 2", "frame:blue lead waiting 1"]);
  expect(told(edges(works, { level: 0 }))).toEqual([]);
  const [line] = edges(works, { level: 1 }).shown;
  expect([line?.sourceId, line?.targetId]).toEqual(["lead", "red"]);
});

test("teams that are too small in the window are merged with the team above", () => {
  const layout = layOut(TREE, new Set(), null);
  expect(bundleLevel(layout, 0.5)).toBeNull();
  expect(bundleLevel(layout, 0.2)).toBe(1);
  const frames = new Map([["a", { x: 0, y: 0, w: 4_000, h: 1, depth: 0, gap: 20, title: 30 }], ["b", { x: 0, y: 0, w: 1_000, h: 1, depth: 1, gap: 20, title: 30 }], ["c", { x: 0, y: 0, w: 500, h: 1, depth: 2, gap: 20, title: 30 }]]);
  expect([bundleLevel({ frames }, 0.2), bundleLevel({ frames }, 0.05)]).toEqual([2, 1]);
});

test("every line has a route, and its head is its end", () => {
  const agent = fc.constantFrom(...SEATS.keys());
  const layout = layOut(TREE, new Set(), null);
  const router = new Router(layout, TREE.parent, (anchor) => spotOf(anchor, layout, TREE));
  fc.assert(
    fc.property(fc.array(fc.tuple(agent, agent), { maxLength: 12 }), fc.constantFrom(null, 0, 1), (pairs, level) => {
      const links = edges(pairs.map(([from, to]) => given(from, to)), { level });
      const found = routed(links, router);
      expect(found.shown.map(({ key }) => key)).toEqual(links.shown.map(({ key }) => key));
      for (const { points } of found.shown) expect(headOf(points, 9)[0]).toEqual(points.at(-1));
    }),
  );
});

test("a label is the task, or the state and the number; the title says between whom", () => {
  const [one] = edges([given("r1", "b1", { task: "Dig **deep** and report what you find" })]).shown;
  const [two] = edges([given("r1", "b1"), given("r1", "b1", { task: "Other" })]).shown;
  if (!one || !two) throw new Error("no line");
  expect([labelOf(one, 99), labelOf(one, 10), labelOf(two, 99)]).toEqual(["Dig deep and report what you find", "Dig deep…", "Waiting · 2"]);
  expect(titleOf(one, (id) => id.toUpperCase())).toBe("R1 → B1: waiting\nDig deep and report what you find");
  expect(titleOf(two, (id) => id)).toBe("r1 → b1: waiting · 2");
});

test("a click opens the delegation, all of several, or the conversation of two agents", () => {
  const org = { view: "org", focus: null, panel: null, filter: "x" } as const;
  const opened = (found: ReturnType<typeof edges>) => found.shown.map((link) => placeOfLink(link, org));
  const one = given("r1", "b1");
  expect(opened(edges([one]))).toEqual([{ view: "delegation", id: one.id, node: null }]);
  expect(opened(edges([one, given("r1", "b1", { task: "Other" })]))).toEqual([{ view: "org", focus: "r1", panel: "work", filter: "x" }]);
  expect(opened(edges([one, given("r2", "b1")], { level: 1 }))).toEqual([{ view: "org", focus: "red", panel: "work", filter: "x" }]);
  const messages = [{ sourceId: "r1", targetId: "b1", at: NOON }];
  expect(opened(edges([], { messages }))).toEqual([{ view: "peers", workspaceId: "r1", peerId: "b1", messageId: null }]);
  expect(opened(edges([], { messages: [...messages, { sourceId: "r1", targetId: "b2", at: NOON }], level: 1 }))).toEqual([{ view: "org", focus: "r1", panel: "messages", filter: "x" }]);
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
