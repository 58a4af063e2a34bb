// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { EventFrame, Snapshot } from "../wire";
import { apply, applyAll } from "./apply";
import { withPage, type Page } from "./lines";
import type { Line, State } from "./model";
import { applySnapshot } from "./snapshot";
import { ModelServer, type Verb } from "../testing/modelServer";

const ID = fc.constantFrom("a", "b", "c", "dx", "ex");
const WORDS = fc.string({ maxLength: 100 });
const verb: fc.Arbitrary<Verb> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ verb: fc.constant("create" as const), id: ID, parent: fc.option(ID) }) },
  fc.record({ verb: fc.constant("rename" as const), id: ID, name: fc.string({ minLength: 1, maxLength: 8 }) }),
  fc.record({ verb: fc.constant("move" as const), id: ID, parent: fc.option(ID) }),
  fc.record({ verb: fc.constantFrom("pause" as const, "hibernate" as const), id: ID }),
  fc.record({ verb: fc.constantFrom("online" as const, "degrade" as const, "silence" as const, "card" as const, "log" as const), id: ID }),
  fc.record({ verb: fc.constant("remove" as const), id: ID }),
  fc.record({ verb: fc.constant("prune" as const), id: ID, keep: fc.integer({ min: 0, max: 3 }) }),
  { weight: 2, arbitrary: fc.record({ verb: fc.constantFrom("hand_over" as const, "handle" as const), id: ID, count: fc.integer({ min: 1, max: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ verb: fc.constantFrom("give_up" as const, "send_again" as const), id: ID, at: fc.nat(9) }) },
  { weight: 3, arbitrary: fc.record({ verb: fc.constantFrom("ask" as const, "answer" as const), id: ID, text: WORDS }) },
);
/** Messages in delivery, so that there is something to answer. */
const TALK: readonly Verb[] = [
  { verb: "create", id: "a", parent: null },
  ...["one", "two", "three"].map((text): Verb => ({ verb: "ask", id: "a", text })),
  { verb: "hand_over", id: "a", count: 3 },
];
const A = fc.constant("a");
const obligation: fc.Arbitrary<Verb> = fc.oneof(
  fc.record({ verb: fc.constantFrom("decline" as const, "be_late" as const, "fail" as const, "send_draft" as const, "drop_draft" as const, "forget" as const), id: A, at: fc.nat(9) }),
  fc.record({ verb: fc.constant("draft" as const), id: A, at: fc.nat(9), text: WORDS }),
  fc.record({ verb: fc.constant("peer_asks" as const), id: A }),
  fc.record({ verb: fc.constantFrom("ask" as const, "answer" as const), id: A, text: WORDS }),
  fc.record({ verb: fc.constantFrom("hand_over" as const, "handle" as const), id: A, count: fc.integer({ min: 1, max: 6 }) }),
);
/** Enough runs to cover every transition of an obligation. */
const MANY = { numRuns: 400 };
const anything = fc.array(verb, { minLength: 1, maxLength: 50 });
const answering = fc.array(fc.oneof({ weight: 3, arbitrary: obligation }, { weight: 1, arbitrary: verb }), { maxLength: 20 });
const verbs: fc.Arbitrary<readonly Verb[]> = fc.oneof(anything, answering.map((more) => [...TALK, ...more]));

function ran(all: readonly Verb[], server = new ModelServer()): ModelServer {
  for (const each of all) server.do(each);
  return server;
}

const EMPTY: Snapshot = new ModelServer().snapshot();
const start = (snapshot: Snapshot = EMPTY): State => applySnapshot(null, snapshot);

/** The state without what only events contain: lines, and the time of the last event. */
function told(state: State): unknown {
  return {
    last: state.last,
    seats: state.orgNodes,
    unanswered: state.unanswered,
    workspaces: new Map([...state.workspaces].map(([id, each]) => [id, { ...each, reported_at: null }])),
    chats: new Map([...state.chats].map(([id, { unread, readSeq, last }]) => [id, { unread, readSeq, last }])),
  };
}

/** The whole history of a chat, requested when the page had this state. */
function whole(server: ModelServer, id: string, { last }: State): Page {
  return { items: server.timeline(id), reachedEnd: true, isNewest: true, since: last };
}

/** A line without what events contain only in part: whether it was answered, without the details. */
function inText({ lastEventSeq: _toldBy, complete: _whole, obligation, ...line }: Line): unknown {
  return { ...line, owed: obligation?.state ?? "open" };
}

function forgetful({ lastEventSeq: _toldBy, ...line }: Line): unknown {
  return line;
}

/** Deliver in batches, repeating some of them. */
function delivered(state: State, frames: readonly EventFrame[], cuts: readonly { take: number; back: number }[]): State {
  let at = 0;
  let now = state;
  for (const { take, back } of cuts) {
    const from = Math.max(0, at - back);
    now = applyAll(now, frames.slice(from, at + take));
    at = Math.min(frames.length, at + take);
  }
  return applyAll(now, frames.slice(at));
}

const cuts = fc.array(fc.record({ take: fc.integer({ min: 0, max: 9 }), back: fc.integer({ min: 0, max: 9 }) }), { maxLength: 12 });

test("events in any batches, cut anywhere and repeated, give what they give once and one by one", () => {
  fc.assert(
    fc.property(verbs, cuts, (all, parts) => {
      const { journal } = ran(all);
      const once = journal.reduce(apply, start());
      expect(delivered(start(), journal, parts)).toEqual(once);
    }),
  );
});

test("an old snapshot and its events give the new snapshot", () => {
  fc.assert(
    fc.property(verbs, verbs, (before, after) => {
      const server = ran(before);
      const old = start(server.snapshot());
      ran(after, server);
      expect(told(applyAll(old, server.journal))).toEqual(told(start(server.snapshot())));
    }),
    MANY,
  );
});

test("a snapshot taken over a running state gives what a fresh page has", () => {
  fc.assert(
    fc.property(verbs, verbs, (before, after) => {
      const server = ran(before);
      const running = applyAll(start(), server.journal);
      ran(after, server);
      expect(told(applySnapshot(running, server.snapshot()))).toEqual(told(start(server.snapshot())));
    }),
  );
});

test("history and live events make the same lines", () => {
  fc.assert(
    fc.property(verbs, (all) => {
      const server = ran(all);
      const state = applyAll(start(), server.journal);
      for (const [id, chat] of state.chats) {
        const { lines } = withPage(undefined, whole(server, id, state));
        // pruned lines are in no history; a page that has them keeps them
        const oldest = lines[0]?.seq ?? 0;
        const live = chat.lines.filter(({ seq }) => seq >= oldest);
        expect(live.map(inText)).toEqual(lines.map(inText));
        // complete lines match the history
        const known = new Set(live.filter((line) => line.complete).map((line) => line.id));
        const within = (line: Line): boolean => known.has(line.id);
        expect(live.filter(within).map(forgetful)).toEqual(lines.filter(within).map(forgetful));
        // incomplete lines are complete after reading the page again
        expect(withPage({ ...chat, lines: live }, whole(server, id, state)).lines.map(forgetful)).toEqual(lines.map(forgetful));
      }
    }),
    MANY,
  );
});

test("a page of history that overtakes its events leaves as much unread as they alone", () => {
  fc.assert(
    fc.property(verbs, fc.nat(), (all, at) => {
      const server = ran(all.filter(({ verb }) => verb !== "prune" && verb !== "remove"));
      const cut = server.journal.length === 0 ? 0 : at % server.journal.length;
      const early = applyAll(start(), server.journal.slice(0, cut));
      const opened = [...early.workspaces.keys()].map((id) => {
        return [id, withPage(early.chats.get(id), whole(server, id, early))] as const;
      });
      const late = applyAll({ ...early, chats: new Map(opened) }, server.journal.slice(cut));
      for (const [id, chat] of applyAll(start(), server.journal).chats) {
        const { unread, last, lines } = late.chats.get(id) ?? chat;
        expect({ unread, last }).toEqual({ unread: chat.unread, last: chat.last });
        expect(lines.map(inText)).toEqual(chat.lines.map(inText));
      }
    }),
  );
});

test("a page of history that events have overtaken takes nothing of them back", () => {
  fc.assert(
    fc.property(answering, answering, (before, after) => {
      const server = ran([...TALK, ...before]);
      const early = applyAll(start(), server.journal);
      const asked = new Map([...early.chats.keys()].map((id) => [id, whole(server, id, early)]));
      ran(after, server);
      const late = applyAll(early, server.journal);
      for (const [id, chat] of late.chats) {
        const page = asked.get(id);
        if (page === undefined) continue;
        const overtaken = (line: Line): boolean => line.lastEventSeq > page.since;
        expect(withPage(chat, page).lines.filter(overtaken)).toEqual(chat.lines.filter(overtaken));
      }
    }),
    MANY,
  );
});

test("a page that was asked for before a message was sent again does not say that it is with the agent", () => {
  const server = ran(TALK);
  const early = applyAll(start(), server.journal);
  const page = whole(server, "a", early);
  ran([{ verb: "give_up", id: "a", at: 1 }, { verb: "send_again", id: "a", at: 0 }], server);
  const chat = applyAll(early, server.journal).chats.get("a");
  expect(chat?.lines.map(({ delivery }) => delivery)).toEqual(["handed_over", "stored", "handed_over"]);
  expect(withPage(chat, page).lines.map(({ delivery }) => delivery)).toEqual(["handed_over", "stored", "handed_over"]);
});

test("of two pages the one that was asked for later counts, in whatever order they come", () => {
  const server = ran(TALK);
  const early = applyAll(start(), server.journal);
  const old = whole(server, "a", early);
  ran([{ verb: "handle", id: "a", count: 3 }], server);
  const late = applyAll(early, server.journal);
  const fresh = withPage(undefined, whole(server, "a", late));
  expect(fresh.lines.map(({ delivery }) => delivery)).toEqual(["acked", "acked", "acked"]);
  expect(withPage(fresh, old).lines.map(forgetful)).toEqual(fresh.lines.map(forgetful));
});

test("what is unknown or has another shape is counted and never thrown", () => {
  fc.assert(
    fc.property(fc.string(), fc.anything(), fc.anything(), (event, payload, id) => {
      const frame = { event, workspace_id: "a", timestamp: "2026-03-01T10:00:00Z", payload, entity: { kind: "workspace", id, rev: 9 }, seq: 1, prev: 0 };
      const state = apply(start(), frame as EventFrame);
      expect(state.last).toBe(1);
    }),
  );
});

test("every event of the table is known, whatever its payload", () => {
  for (const event of ["WORKSPACE_UPDATED", "WORKSPACE_ONLINE", "USER_MESSAGE", "AGENT_MESSAGE", "TASK_UPDATED", "WORKSPACE_REMOVED"]) {
    for (const payload of [{}, { message: 3 }, { seq: "x" }, [], null]) {
      const frame = { event, workspace_id: "a", timestamp: "t", payload, entity: { kind: "workspace", id: "a", rev: 2 }, seq: 1, prev: 0 };
      expect(() => apply(start(), frame)).not.toThrow();
    }
  }
  const unknown = { event: "SOMETHING_ELSE", workspace_id: "a", timestamp: "t", payload: {}, entity: { kind: "thread", id: "t", rev: 1 }, seq: 1, prev: 0 };
  expect(apply(start(), unknown).unknownEvents).toBe(1);
});

test("an agent that registers without a card has none, whatever card the one before it had", () => {
  const server = ran([{ verb: "create", id: "a", parent: null }, { verb: "card", id: "a" }]);
  const state = start(server.snapshot());
  const payload = { delivery_mode: "poll", recovered_from: null, agent_card: null, url: null };
  const frame: EventFrame = { event: "WORKSPACE_ONLINE", workspace_id: "a", timestamp: "2026-03-02T00:00:00Z", payload, entity: { kind: "workspace", id: "a", rev: 99 }, seq: 99, prev: 2 };
  expect(state.workspaces.get("a")?.agent_card).not.toBeNull();
  expect(apply(state, frame).workspaces.get("a")?.agent_card).toBeNull();
});

test("a change with an older revision than the known one changes nothing", () => {
  const server = ran([{ verb: "create", id: "a", parent: null }, { verb: "rename", id: "a", name: "Mara" }]);
  const state = start(server.snapshot());
  const late: EventFrame = { event: "WORKSPACE_OFFLINE", workspace_id: "a", timestamp: "2026-03-02T00:00:00Z", payload: { last_heard_at: "2026-03-01T00:00:00Z" }, entity: { kind: "workspace", id: "a", rev: 1 }, seq: 99, prev: 2 };
  expect(apply(state, late).workspaces).toBe(state.workspaces);
});

test("a removed workspace does not come back with a late event", () => {
  const server = ran([{ verb: "create", id: "a", parent: null }, { verb: "remove", id: "a" }]);
  const gone = applyAll(start(), server.journal);
  const late = { ...(server.journal[0] as EventFrame), seq: 50 };
  expect(apply(gone, late).workspaces.size).toBe(0);
});

test("what an agent said earlier does not undo what it said later", () => {
  const server = ran([{ verb: "create", id: "a", parent: null }, { verb: "online", id: "a" }]);
  const say = (timestamp: string, current_task: string): EventFrame => ({ event: "TASK_UPDATED", workspace_id: "a", timestamp, payload: { current_task, active_tasks: 1 }, entity: { kind: "workspace", id: "a", rev: 0 } });
  const state = applyAll(start(server.snapshot()), [say("2026-03-02T10:00:02Z", "late"), say("2026-03-02T10:00:01Z", "early")]);
  expect(state.workspaces.get("a")?.current_task).toBe("late");
});

test("a heartbeat tells load and task, and that the agent lives; one that tells no task changes none", () => {
  const server = ran([{ verb: "create", id: "a", parent: null }, { verb: "online", id: "a" }]);
  const beat = (timestamp: string, payload: object): EventFrame => ({ event: "WORKSPACE_HEARTBEAT", workspace_id: "a", timestamp, payload, entity: { kind: "workspace", id: "a", rev: 0 } });
  const first = apply(start(server.snapshot()), beat("2026-03-02T10:00:01Z", { active_tasks: 2, uptime_seconds: 60, current_task: "writing", last_heard_at: "2026-03-02T10:00:00Z" }));
  expect(first.workspaces.get("a")).toMatchObject({ active_tasks: 2, uptime_seconds: 60, current_task: "writing", last_heard_at: "2026-03-02T10:00:00Z" });
  const second = apply(first, beat("2026-03-02T10:00:30Z", { active_tasks: 0, uptime_seconds: 90 }));
  expect(second.workspaces.get("a")).toMatchObject({ active_tasks: 0, current_task: "writing" });
  const third = apply(second, beat("2026-03-02T10:01:00Z", { active_tasks: 0, uptime_seconds: 120, current_task: null }));
  expect(third.workspaces.get("a")?.current_task).toBeNull();
});

test("a changed task is no sign of life of its own, since its heartbeat has one", () => {
  const server = ran([{ verb: "create", id: "a", parent: null }, { verb: "online", id: "a" }]);
  const before = start(server.snapshot());
  const frame: EventFrame = { event: "TASK_UPDATED", workspace_id: "a", timestamp: "2026-03-02T10:00:00Z", payload: { current_task: "writing", active_tasks: 1 }, entity: { kind: "workspace", id: "a", rev: 0 } };
  const after = apply(before, frame).workspaces.get("a");
  expect([after?.current_task, after?.last_heard_at]).toEqual(["writing", before.workspaces.get("a")?.last_heard_at]);
});

test("nothing new gives the same state, so that nothing is drawn", () => {
  const server = ran([{ verb: "create", id: "a", parent: null }]);
  const state = applyAll(start(), server.journal);
  expect(applyAll(state, server.journal)).toBe(state);
});
