// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { EventFrame, Snapshot } from "../../core/wire";
import { applyAll } from "../../core/state/apply";
import { conversationItems } from "./conversationItems";
import { delegationState, cutReply, isOpen, mergeDelegation, ofEvent, ofHistory, RANK, shownTask, type Delegation, type DelegationStatus } from "../../core/state/delegations";
import { withPage } from "../../core/state/lines";
import type { State, Workspace } from "../../core/state/model";
import { applySnapshot } from "../../core/state/snapshot";
import { ModelServer, type Verb } from "../../core/testing/modelServer";
import { missedDelegations, queues, withRead, withReply, delegationProblems, delegationsByWorkspace } from "../../core/state/delegationLists";

const EMPTY: Snapshot = new ModelServer().snapshot();
const start = (snapshot: Snapshot = EMPTY): State => applySnapshot(null, snapshot);

const COMPANY: readonly Verb[] = ["a", "b", "c"].map((id) => ({ verb: "create", id, parent: null }));
const AT = { at: fc.nat(9) };
const WHO = { id: fc.constantFrom("a", "b", "c") };
const WORDS = fc.oneof(fc.string({ maxLength: 30 }), fc.string({ minLength: 60, maxLength: 260, unit: "grapheme" }));
const working: fc.Arbitrary<Verb> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ verb: fc.constant("delegate" as const), ...WHO, target: fc.constantFrom("a", "b", "c"), text: WORDS }) },
  fc.record({ verb: fc.constant("delegate" as const), ...WHO, target: fc.constantFrom("a", "b", "c"), text: WORDS, within: fc.nat(9) }),
  { weight: 2, arbitrary: fc.record({ verb: fc.constantFrom("hand" as const, "give_back" as const, "lose" as const, "retry" as const), ...WHO, ...AT }) },
  { weight: 2, arbitrary: fc.record({ verb: fc.constant("progress" as const), ...WHO, ...AT, text: fc.string({ maxLength: 20 }) }) },
  { weight: 2, arbitrary: fc.record({ verb: fc.constant("settle" as const), ...WHO, ...AT, how: fc.constantFrom("completed" as const, "failed" as const, "cancelled" as const), text: WORDS }) },
  fc.record({ verb: fc.constantFrom("ask" as const, "answer" as const), ...WHO, text: WORDS }),
);
const days = fc.array(working, { maxLength: 40 }).map((more) => [...COMPANY, ...more]);
const MANY = { numRuns: 300 };

function ran(all: readonly Verb[], server = new ModelServer()): ModelServer {
  for (const each of all) server.do(each);
  return server;
}

/** Without the members that only decide which source is newer. */
function forgetful({ rev: _rev, lastEventSeq: _toldBy, updatedAt: _updatedAt, ...rest }: Delegation): unknown {
  return rest;
}

function told(frames: readonly EventFrame[]): Delegation | undefined {
  let known: Delegation | undefined;
  for (const frame of frames) known = ofEvent(known, frame) ?? known;
  return known;
}

test("a thousand orders of what is told of a delegation, with repetitions and progress, come to the same", () => {
  const one: readonly Verb[] = [
    { verb: "delegate", id: "a", target: "b", text: "Read the log" },
    { verb: "hand", id: "a", at: 0 },
    { verb: "progress", id: "a", at: 0, text: "reading" },
    { verb: "give_back", id: "a", at: 0 },
    { verb: "hand", id: "a", at: 0 },
    { verb: "progress", id: "a", at: 0, text: "still reading" },
    { verb: "lose", id: "a", at: 0 },
    { verb: "hand", id: "a", at: 0 },
  ];
  const ends = fc.option(fc.constantFrom("completed" as const, "failed" as const, "cancelled" as const));
  fc.assert(
    fc.property(ends, fc.nat(one.length), fc.infiniteStream(fc.nat()), fc.infiniteStream(fc.boolean()), (how, far, picks, twice) => {
      const verbs = [...one.slice(0, Math.max(1, far)), ...(how === null ? [] : [{ verb: "settle" as const, id: "a", at: 0, how, text: "so it ended" }])];
      const events = ran([...COMPANY, ...verbs]).journal.filter((frame) => frame.event.startsWith("DELEGATION"));
      const all = events.flatMap((frame) => (twice.next().value ? [frame, frame] : [frame]));
      const shuffled: EventFrame[] = [];
      for (const frame of all) shuffled.splice((picks.next().value as number) % (shuffled.length + 1), 0, frame);
      expect(told(shuffled)).toEqual(told(events));
      if (how !== null) expect(told(shuffled)?.status).toBe(how);
    }),
    { numRuns: 1_000 },
  );
});

test("what has ended stays as it ended, whatever is told of it afterwards", () => {
  const statuses = Object.keys(RANK) as DelegationStatus[];
  const news = fc.record({ status: fc.constantFrom(...statuses), rev: fc.integer({ min: 0, max: 9 }), phase: fc.constantFrom("waiting", "working"), reply: fc.option(fc.string()) });
  fc.assert(
    fc.property(fc.constantFrom("completed" as const, "failed" as const, "cancelled" as const), fc.array(news), (end, later) => {
      const ended = mergeDelegation(undefined, { id: "d", status: end, phase: "ended", reply: end === "completed" ? "done" : null, replyComplete: true, updatedAt: "2026-03-01T12:00:00Z" }, 1);
      const after = later.reduce<Delegation>((known, { rev, ...each }) => mergeDelegation(known, { id: "d", updatedAt: "2026-03-01T13:00:00Z", ...each }, Math.max(2, rev)), ended);
      expect({ status: after.status, phase: after.phase, reply: after.reply }).toEqual({ status: end, phase: "ended", reply: ended.reply });
    }),
  );
});

test("nothing goes back to an earlier status", () => {
  fc.assert(
    fc.property(days, (verbs) => {
      const ranks = new Map<string, number>();
      let state = start();
      for (const frame of ran(verbs).journal) {
        state = applyAll(state, [frame]);
        for (const { id, status } of state.delegations.values()) {
          expect(RANK[status]).toBeGreaterThanOrEqual(ranks.get(id) ?? 0);
          ranks.set(id, RANK[status]);
        }
      }
    }),
  );
});

test("an old snapshot and its events give the open delegations of the new snapshot", () => {
  fc.assert(
    fc.property(days, fc.array(working, { maxLength: 20 }), (before, after) => {
      const server = ran(before);
      const old = start(server.snapshot());
      ran(after, server);
      const open = ({ delegations }: State): unknown => new Map([...delegations].filter(([, each]) => isOpen(each)).map(([id, each]) => [id, forgetful(each)]));
      expect(open(applyAll(old, server.journal))).toEqual(open(start(server.snapshot())));
    }),
    MANY,
  );
});

test("a snapshot over a running page keeps what has ended, and marks what may have ended meanwhile until it is read", () => {
  fc.assert(
    fc.property(days, fc.array(working, { maxLength: 20 }), (before, after) => {
      const server = ran(before);
      const running = applyAll(start(), server.journal);
      ran(after, server);
      const again = applySnapshot(running, server.snapshot());
      const now = applyAll(start(), server.journal);
      for (const [id, each] of running.delegations) {
        const there = again.delegations.get(id);
        if (!isOpen(each)) expect(there).toBe(each);
        else expect(there?.complete).toBe(isOpen(now.delegations.get(id) ?? each));
      }
      const items = ["a", "b", "c"].flatMap((id) => server.timeline(id)).filter((item) => item.kind === "delegation");
      const read = withRead(again, items.map(ofHistory));
      expect(missedDelegations(read.delegations)).toEqual([]);
      expect(new Map([...read.delegations].map(([id, each]) => [id, forgetful(each)]))).toEqual(new Map([...now.delegations].map(([id, each]) => [id, forgetful(each)])));
    }),
    MANY,
  );
});

test("bubbles from the history are the bubbles from live events, in the same places", () => {
  fc.assert(
    fc.property(days, (verbs) => {
      const server = ran(verbs);
      const live = applyAll(start(), server.journal);
      const fresh = start(server.snapshot());
      for (const id of ["a", "b", "c"]) {
        const items = server.timeline(id);
        const chat = withPage(undefined, { items, reachedEnd: true, isNewest: true, since: fresh.last });
        const read = withRead(fresh, items.filter((item) => item.kind === "delegation").map(ofHistory));
        const shown = (state: State, lines: State["chats"] extends ReadonlyMap<string, infer Chat> ? Chat : never): unknown =>
          conversationItems({ lines: lines.lines, unsent: [], delegations: state.delegations, isGroupOpen: () => true, newAfter: null, now: 0, zone: "UTC" })
            .filter((item) => item.kind === "delegation" || item.kind === "group")
            .map((item) => (item.kind === "group" ? { key: item.key, group: item.delegations.map(forgetful) } : { key: item.key, inGroup: item.inGroup, delegation: forgetful(item.delegation) }));
        expect(shown(live, live.chats.get(id) ?? chat)).toEqual(shown(read, chat));
      }
    }),
    MANY,
  );
});

test("a page that was read before the last events takes nothing of them back", () => {
  fc.assert(
    fc.property(days, fc.array(working, { maxLength: 20 }), (before, after) => {
      const server = ran(before);
      const early = applyAll(start(), server.journal);
      const asked = ["a", "b", "c"].flatMap((id) => server.timeline(id)).filter((item) => item.kind === "delegation").map(ofHistory);
      ran(after, server);
      const late = applyAll(early, server.journal);
      const read = withRead(late, asked);
      for (const [id, each] of late.delegations) expect(forgetful(read.delegations.get(id) as Delegation)).toEqual(forgetful(each));
    }),
    MANY,
  );
});

test("delegations change neither what is unread nor the last message of a chat", () => {
  fc.assert(
    fc.property(days, (verbs) => {
      const isTalk = ({ verb }: Verb): boolean => verb === "create" || verb === "ask" || verb === "answer";
      const heads = (all: readonly Verb[]): unknown =>
        [...applyAll(start(), ran(all).journal).chats].filter(([, { last }]) => last !== null).map(([id, { unread, last }]) => [id, unread, last?.text]).sort();
      expect(heads(verbs)).toEqual(heads(verbs.filter(isTalk)));
    }),
  );
});

test("an event whose first one was missed makes a delegation that is to be read, and no line", () => {
  const server = ran([...COMPANY, { verb: "delegate", id: "a", target: "b", text: "x" }]);
  const { last, ...state } = applyAll(start(), server.journal.slice(0, 3));
  const known = applyAll({ ...state, last }, server.journal.slice(4));
  expect([...known.delegations.values()]).toMatchObject([{ id: "d1", sourceId: "a", targetId: "b", status: "queued", complete: false }]);
  expect(known.chats.get("a")?.lines ?? []).toEqual([]);
});

test("events about delegations in another shape are counted and change nothing", () => {
  const server = ran(COMPANY);
  const state = start(server.snapshot());
  const frame = (event: string, payload: unknown): EventFrame => ({ event, workspace_id: "a", timestamp: "t", payload, entity: { kind: "delegation", id: "d", rev: 1 }, seq: state.last + 1, prev: state.last });
  for (const event of ["DELEGATION_SENT", "DELEGATION_STATUS", "DELEGATION_COMPLETE", "DELEGATION_FAILED", "DELEGATION_REFUSED"]) {
    const next = applyAll(state, [frame(event, { delegation_id: 3 })]);
    expect(next.unknownEvents).toBe(1);
    expect(next.delegations).toBe(state.delegations);
  }
});

test("a delegation that a guard stopped is told, with the limit and the remedy", () => {
  const payload = { target_id: "b", task_preview: "again", limit: "depth", use: 9, most: 8, remedy: "Do it yourself." };
  const frame: EventFrame = { event: "DELEGATION_REFUSED", workspace_id: "a", timestamp: "2026-03-01T12:00:00Z", payload, entity: { kind: "refusal", id: "a", rev: 0 }, seq: 1, prev: 0 };
  expect(applyAll(start(), [frame]).refused).toMatchObject([{ sourceId: "a", targetId: "b", limit: "depth", use: 9, most: 8, remedy: "Do it yourself." }]);
});

test.each([
  ["Dig", "Dig"],
  ["x".repeat(96), "x".repeat(96)],
  ["x".repeat(100), `${"x".repeat(100)}…`],
  ["ü".repeat(50), `${"ü".repeat(50)}…`],
])("of the task %j the page shows %j", (task, shown) => {
  expect(shownTask(task)).toBe(shown);
});

test("what a guard stopped before this page was opened is told by the snapshot as its event would have", () => {
  const told = { target_id: "b", task_preview: "again", limit: "depth", use: 9, most: 8, remedy: "Do it yourself." };
  const frames = [1, 2].map((seq): EventFrame => ({ event: "DELEGATION_REFUSED", workspace_id: "a", timestamp: `2026-03-01T12:00:0${seq}Z`, payload: told, entity: { kind: "refusal", id: "a", rev: 0 }, seq, prev: seq - 1 }));
  const live = applyAll(start(), frames);
  const refusals = frames.map(({ seq = 0, timestamp }) => ({ ...told, seq, at: timestamp, source_id: "a" })).reverse();
  const read = applySnapshot(null, { ...EMPTY, as_of: 2, refusals });
  expect(read.refused).toEqual(live.refused);
  expect(applySnapshot(live, { ...EMPTY, as_of: 2, refusals }).refused).toEqual(live.refused);
});

test("of very many delegations the oldest that have ended go first", () => {
  const verbs: Verb[] = [...COMPANY];
  for (let turn = 0; turn < 5_300; turn += 1) {
    verbs.push({ verb: "delegate", id: "a", target: "b", text: `task ${turn}` });
    if (turn < 1_000) verbs.push({ verb: "settle", id: "a", at: 0, how: "completed", text: "done" });
  }
  const { delegations } = applyAll(start(), ran(verbs).journal);
  expect(delegations.size).toBeLessThanOrEqual(5_250);
  expect(delegations.has("d1")).toBe(false);
  expect([...delegations.values()].filter(isOpen)).toHaveLength(4_300);
});

test("a cut answer is a prefix of at most 200 bytes that breaks no letter", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 400, unit: "grapheme" }), (reply) => {
      const cut = cutReply(reply);
      expect(reply.startsWith(cut)).toBe(true);
      expect(new TextEncoder().encode(cut).length).toBeLessThanOrEqual(200);
      expect(() => encodeURIComponent(cut)).not.toThrow();
      if (new TextEncoder().encode(reply).length <= 200) expect(cut).toBe(reply);
    }),
    MANY,
  );
});

const BASE = mergeDelegation(undefined, { id: "d", lifeAt: "2026-03-01T12:00:00Z", takenAt: "2026-03-01T12:00:00Z", createdAt: "2026-03-01T12:00:00Z" }, 1);
const NOON = Date.parse("2026-03-01T12:00:00Z");

test.each<[Partial<Delegation>, number, string]>([
  [{ status: "pending" }, 0, "sent"],
  [{ status: "dispatched" }, 0, "dispatched"],
  [{ status: "queued", phase: "waiting" }, 0, "queued"],
  [{ status: "queued", phase: "waiting" }, 3_600, "queued"],
  [{ status: "queued", phase: "claimed" }, 0, "working"],
  [{ status: "dispatched", phase: "working" }, 600, "working"],
  [{ status: "dispatched", phase: "working" }, 601, "stuck"],
  [{ status: "unknown_after_send", phase: "waiting" }, 0, "unknown"],
  [{ status: "unknown_after_send", phase: "working" }, 0, "working"],
  [{ status: "completed" }, 0, "completed"],
  [{ status: "failed", reason: "refused" }, 0, "failed"],
  [{ status: "failed", reason: "expired" }, 0, "expired"],
  [{ status: "cancelled" }, 0, "cancelled"],
])("%j after %i s is %s", (part, seconds, state) => {
  expect(delegationState({ ...BASE, ...part }, undefined, NOON + seconds * 1_000, 600)).toBe(state);
});

const AT_WORK = { current_task: "page 3", active_tasks: 0, last_heard_at: "2026-03-01T12:09:00Z" };

test.each<[string, Partial<typeof AT_WORK>, number, string]>([
  ["says what it works on", {}, 601, "working"],
  ["says that it has work", { current_task: "", active_tasks: 1 }, 601, "working"],
  ["said so too long ago", {}, 540 + 601, "stuck"],
  ["says that it does nothing", { current_task: "" }, 601, "stuck"],
  ["was heard before the work gave its last sign", { last_heard_at: "2026-03-01T11:00:00Z" }, 600, "working"],
])("work in the hands of an agent that %s", (_what, part, seconds, state) => {
  const one: Delegation = { ...BASE, status: "queued", phase: "claimed" };
  expect(delegationState(one, { ...AT_WORK, ...part }, NOON + seconds * 1_000, 600)).toBe(state);
});

test("how many wait before one is counted for each agent, and what was handed out counts", () => {
  const verbs: Verb[] = [
    ...COMPANY,
    { verb: "delegate", id: "a", target: "b", text: "1" },
    { verb: "delegate", id: "c", target: "b", text: "2" },
    { verb: "delegate", id: "a", target: "c", text: "3" },
    { verb: "hand", id: "a", at: 0 },
  ];
  const { delegations } = applyAll(start(), ran(verbs).journal);
  expect([...queues(delegations)]).toEqual([["d2", 1], ["d3", 0]]);
});

test("the work of an agent is what it gave and was given, open ones first", () => {
  const verbs: Verb[] = [
    ...COMPANY,
    { verb: "delegate", id: "a", target: "b", text: "1" },
    { verb: "delegate", id: "b", target: "c", text: "2" },
    { verb: "settle", id: "b", at: 0, how: "completed", text: "done" },
    { verb: "delegate", id: "c", target: "a", text: "3" },
  ];
  const { delegations } = applyAll(start(), ran(verbs).journal);
  expect(delegationsByWorkspace(delegations).get("b")?.map(({ id }) => id)).toEqual(["d1", "d2"]);
  expect(delegationsByWorkspace(delegations).get("a")?.map(({ id }) => id)).toEqual(["d3", "d1"]);
});

test("all of an answer that was read stays when its event comes again", () => {
  const long = "word ".repeat(80).trim();
  const server = ran([...COMPANY, { verb: "delegate", id: "a", target: "b", text: "1" }, { verb: "settle", id: "a", at: 0, how: "completed", text: long }]);
  const state = applyAll(start(), server.journal);
  expect(state.delegations.get("d1")).toMatchObject({ replyComplete: false });
  const read = withReply(state, "d1", long);
  const last = server.journal.at(-1) as EventFrame;
  expect(ofEvent(read.delegations.get("d1"), last)).toMatchObject({ reply: long, replyComplete: true });
});

test("what needs a person: failed and not looked at nor tried again, stuck, unknown, and stopped", () => {
  const verbs: Verb[] = [
    ...COMPANY,
    { verb: "delegate", id: "a", target: "b", text: "fails, is tried again" },
    { verb: "settle", id: "a", at: 0, how: "failed", text: "no" },
    { verb: "retry", id: "a", at: 0 },
    { verb: "settle", id: "a", at: 0, how: "failed", text: "no again" },
    { verb: "delegate", id: "b", target: "c", text: "stuck" },
    { verb: "hand", id: "b", at: 0 },
    { verb: "delegate", id: "c", target: "a", text: "lost" },
    { verb: "lose", id: "c", at: 0 },
    { verb: "settle", id: "c", at: 9, how: "cancelled", text: "enough" },
    { verb: "delegate", id: "c", target: "b", text: "lost too" },
    { verb: "lose", id: "c", at: 0 },
  ];
  const state = applyAll(start(), ran(verbs).journal);
  const later = Date.parse("2026-03-01T13:00:00Z");
  const found = delegationProblems(state, later, new Set());
  expect(found.failed.map(({ id }) => id)).toEqual(["d2"]);
  expect(found.stuck.map(({ id }) => id)).toEqual(["d3"]);
  expect(found.unknown.map(({ id }) => id)).toEqual(["d5"]);
  expect(delegationProblems(state, later, new Set(["d2"])).failed).toEqual([]);
  const heard = { ...(state.workspaces.get("c") as Workspace), active_tasks: 1, last_heard_at: "2026-03-01T12:59:00Z" };
  expect(delegationProblems({ ...state, workspaces: new Map([["c", heard]]) }, later, new Set()).stuck).toEqual([]);
  expect(delegationProblems(state, later + 25 * 3_600_000, new Set()).failed).toEqual([]);
});
