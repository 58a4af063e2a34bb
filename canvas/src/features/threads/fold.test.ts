// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { CollabCallEntry, EntryItem, EventFrame, MailItem, ThreadItem } from "../../core/wire";
import { withEvents, isComplete, lastOf, newestFirst, EMPTY_THREADS, treeRows, withCollab, withLines, withThreads, type ThreadsState } from "./fold";

const SCOPE = { rootId: "root" };
const at = (second: number): string => `2026-03-01T10:00:${String(second).padStart(2, "0")}.000Z`;

function item(id: string, part: Partial<ThreadItem> = {}): ThreadItem {
  const base = { version: 1, sha256: "a", provenance: { type: "prompt", source: "" }, item_id: "i", bytes: 1, tokens: 1 } as const;
  return {
    ...{ thread_id: id, workspace_id: "w", org_id: "org", root_id: "root", parent_thread_id: null, requester_thread_id: null, forked_from: null },
    ...{ path: id, task_name: "", nickname: "", role: null, kind: "root", model: null, effort: null, tools: null, permissions: null },
    ...{ status: { type: "pending_init", message: null }, active_flags: [], idle: true, closed: false, turn_id: null, queued: [], turns: 0 },
    ...{ generation: 0, owner: null, owner_until: null, base, tokens_used: 0, tree_tokens_used: null, last_ordinal: 2, created_at: at(0) },
    ...{ updated_at: at(0), call_id: null, wake: "wake", revision: 1 },
    ...part,
  } as ThreadItem;
}

function frame(event: string, payload: object, second = 1, workspace_id = "w"): EventFrame {
  return { event, workspace_id, timestamp: at(second), payload: { root_id: "root", ...payload }, entity: { kind: "thread", id: "x", rev: 0 } } as unknown as EventFrame;
}

function news(thread_id: string, ordinal: number, entry: object, more: object = {}): EventFrame {
  return frame("THREAD_ITEM", { thread_id, ordinal, type: (entry as { type: string }).type, turn_id: null, entry, ...more }, ordinal);
}

function call(call_id: string, status: CollabCallEntry["status"], more: Partial<CollabCallEntry> = {}): CollabCallEntry {
  return {
    ...{ type: "collab", call_id, tool: "wait", status, sender_thread_id: "root", receiver_thread_ids: ["a"], new_thread_id: null, prompt: null },
    ...{ model: null, effort: null, agents: [], descendants: null, timed_out: false, reason: null, deadline: null, since: 0, mode: "any", clamped: null, after: null },
    ...more,
  } as CollabCallEntry;
}

const base = withThreads(EMPTY_THREADS, [item("root")]);
const lineOf = (ordinal: number): EntryItem => ({ ordinal, item_id: `root.${ordinal}`, turn_id: null, at: at(1), type: "usage", entry: { type: "usage", record_key: `${ordinal}`, input: 1, output: 1 } });

test("a tree grows by what is heard: a child appears under its parent, and a wait goes on until it ends", () => {
  const child = item("a", { parent_thread_id: "root", path: "root/a", created_at: at(1) });
  let known = withEvents(base, [frame("THREAD_STARTED", child), news("root", 3, call("c", "inProgress", { deadline: 5 }))], SCOPE);
  expect(treeRows(known).map(({ thread, level, waits }) => [thread.thread_id, level, waits.length])).toEqual([["root", 1, 1], ["a", 2, 0]]);
  known = withEvents(known, [news("root", 4, call("c", "completed", { timed_out: true }))], SCOPE);
  expect(treeRows(known)[0]?.waits).toEqual([]);
  expect([...known.calls.values()]).toMatchObject([{ beganAt: at(3), endedAt: at(4), call: { timed_out: true } }]);
  // Whether the end arrives first or the beginning is read again, it stays ended.
  expect([...withEvents(known, [news("root", 3, call("c", "inProgress"))], SCOPE).calls.values()][0]?.call.status).toBe("completed");
  expect(known.gaps).toBe(0);
});

test("lines make of a thread what the server makes of it", () => {
  const turn = { turn_id: "t" };
  const known = withEvents(
    base,
    [
      news("root", 3, { type: "turn_accepted", ...turn, input: [] }, turn),
      news("root", 4, { type: "turn_started", ...turn }, turn),
      news("root", 5, { type: "usage", input: 5, output: 2 }, turn),
      frame("THREAD_STATUS_CHANGED", { thread_id: "root", status: { type: "running", message: null }, active_flags: ["waiting_on_agents"], revision: 2 }),
    ],
    SCOPE,
  );
  expect(known.threads.get("root")).toMatchObject({ turn_id: "t", queued: [], turns: 1, tokens_used: 7, idle: false, status: { type: "running" }, active_flags: ["waiting_on_agents"] });
  const ended = withEvents(known, [news("root", 6, { type: "turn_ended", ...turn, status: "completed" }, turn), news("root", 7, { type: "closed" })], SCOPE);
  expect(ended.threads.get("root")).toMatchObject({ turn_id: null, idle: false, closed: true });
  // What was read meanwhile contains these lines already.
  const read = withThreads(known, [item("root", { revision: 9, last_ordinal: 7, tokens_used: 7 })]);
  expect(withEvents(read, [news("root", 5, { type: "usage", input: 5, output: 2 })], SCOPE).threads.get("root")?.tokens_used).toBe(7);
});

test("what only the server can complete is counted, and what is of other trees changes nothing", () => {
  expect(withEvents(base, [frame("THREAD_STARTED", item("x", { root_id: "other" }))], SCOPE)).toBe(base);
  expect(withEvents(base, [frame("THREAD_STATUS_CHANGED", { thread_id: "unknown", status: { type: "running" }, revision: 4 })], SCOPE).gaps).toBe(1);
  expect(withEvents(base, [news("root", 9, { type: "agent_message" })], SCOPE).gaps).toBe(1);
  expect(withEvents(base, [news("root", 3, { type: "collab" }, { entry: null })], SCOPE).gaps).toBe(1);
  for (const odd of [{}, { thread_id: 4 }, { thread_id: "root", ordinal: "3" }]) expect(withEvents(base, [frame("THREAD_ITEM", odd), frame("THREAD_MAIL", odd)], SCOPE)).toBe(base);
  // A list is read in pages, for one workspace.
  const own = { workspaceId: "w" };
  expect(withEvents(EMPTY_THREADS, [frame("THREAD_STATUS_CHANGED", { thread_id: "old", status: { type: "running" }, revision: 4 }), news("old", 3, { type: "usage" })], own)).toMatchObject({ threads: new Map() });
  const two = withEvents(EMPTY_THREADS, [frame("THREAD_STARTED", item("one")), frame("THREAD_STARTED", item("two", { created_at: at(4) })), frame("THREAD_STARTED", item("three"), 1, "v")], own);
  expect(newestFirst(two.threads.values()).map(({ thread_id }) => thread_id)).toEqual(["two", "one"]);
});

test("receipts of letters go one way", () => {
  const mail = (state: MailItem["state"]): EventFrame => frame("THREAD_MAIL", { mail_id: "m", mail_type: "MESSAGE", author_thread_id: "a", receiver_thread_id: "root", state });
  for (const order of [["accepted", "delivered", "answered"], ["answered", "delivered", "accepted"], ["delivered", "answered", "failed"]] as const) {
    expect(withEvents(base, order.map(mail), SCOPE).mail.get("m")?.state).toBe("answered");
  }
  expect(withEvents(base, [mail("accepted"), mail("failed"), mail("answered")], SCOPE).mail.get("m")?.state).toBe("failed");
  expect(withCollab(base, { calls: [], mail: [{ mail_id: "m", mail_type: "MESSAGE", author_thread_id: null, receiver_thread_id: "root", state: "delivered", sent_at: at(0) }] }).mail.size).toBe(1);
});

test("whatever of the stream is lost, said twice or read meanwhile: reading what is missing makes it whole", () => {
  const last = 12;
  const all = Array.from({ length: last - 2 }, (_, each) => news("root", each + 3, lineOf(each + 3).entry as object));
  const log = Array.from({ length: last }, (_, each) => lineOf(each + 1));
  const step = fc.oneof(fc.record({ hear: fc.nat(all.length - 1) }), fc.record({ read: fc.nat(last), upto: fc.nat(last) }));
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), fc.nat(last), (steps, start) => {
      let known: ThreadsState = withLines(base, "root", { after: start, lines: log.filter(({ ordinal }) => ordinal > start && ordinal <= start + 2) });
      for (const each of steps) {
        if ("hear" in each) known = withEvents(known, all.slice(each.hear, each.hear + 1), SCOPE);
        else known = withLines(known, "root", { after: each.read, lines: log.filter(({ ordinal }) => ordinal > each.read && ordinal <= each.upto) });
        const now = known.logs.get("root")!;
        expect(now.lines.map(({ ordinal }) => ordinal)).toEqual(now.lines.map((_, place) => now.from + place + 1));
      }
      const before = known.logs.get("root")!;
      known = withLines(known, "root", { after: lastOf(before), lines: log.filter(({ ordinal }) => ordinal > lastOf(before)) });
      expect(isComplete(known.logs.get("root")!)).toBe(true);
      expect(lastOf(known.logs.get("root")!)).toBe(Math.max(last, lastOf(before)));
    }),
  );
});
