// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import type { EventFrame } from "../../core/wire";
import {
  chainOf, chainText, changesProblems, countProblems, deadLetterOf, NO_PROBLEMS, questionOf, reasonText, unansweredOf, unclaimedOf, unclaimedText,
  type OpenQuestion, type UnansweredMessage, type UnclaimedMessages,
} from "../../core/state/problems";

const LETTER = { activity_id: "a1", workspace_id: "w1", workspace_name: "Ops", source_id: null, summary: "hi", reason: "expired", detail: null, attempts: 0, died_at: "2026-03-01T10:00:00Z" };

test("rows of another shape are left out, and never thrown over", () => {
  fc.assert(
    fc.property(fc.anything(), (row) => {
      expect(deadLetterOf(row)).toBeNull();
      expect(chainOf(row)).toBeNull();
      expect(unansweredOf(row)).toBeNull();
      expect(unclaimedOf(row)).toBeNull();
      expect(questionOf(row)).toBeNull();
    }),
  );
  expect(deadLetterOf({ ...LETTER, died_at: 3 })).toBeNull();
  expect(deadLetterOf({ ...LETTER, workspace_name: 3 })?.workspaceName).toBe("w1");
});

test("a stopped chain says which limit it met", () => {
  const chain = (reason: string) => chainOf({ root_id: "r", workspace_id: "w", reason, hops: 24, messages: 1000, frozen_at: "2026-03-01T10:00:00Z" });
  const words = ["hops", "messages", "pingpong", "something new"].map((reason) => chainText(chain(reason) as never));
  expect(words).toEqual(["Forwarded 24 times", "Reached 1,000 messages", "Two agents keep thanking each other", "something new"]);
  expect(reasonText("something new")).toBe("something new");
});

const OWED = { activity_id: "a1", workspace_id: "w1", workspace_name: "Ops", seq: 7, source_id: null, summary: "hi", handed_at: "2026-03-01T09:00:00Z", overdue_at: "2026-03-01T10:00:00Z" };
const owed = unansweredOf(OWED) as UnansweredMessage;

function frame(event: string, payload: unknown = {}, workspace_id = "w1"): EventFrame {
  return { event, workspace_id, timestamp: "2026-03-01T10:00:00Z", payload, entity: { kind: "activity", id: "a1", rev: 0 } };
}

test("only events about what is stuck ask for the lists again", () => {
  const changes = (event: string): boolean => changesProblems(frame(event), NO_PROBLEMS);
  expect(["MESSAGE_OVERDUE", "MESSAGE_DRAFTED", "MESSAGE_DEAD", "MESSAGE_REQUEUED", "MESSAGE_DISCARDED", "CHAIN_FROZEN", "CHAIN_ENDED", "WORKSPACE_REMOVED"].every(changes)).toBe(true);
  expect(["MESSAGE_TICK", "USER_MESSAGE", "X_MESSAGE_DEAD", "CHAIN_FROZENX"].some(changes)).toBe(false);
});

test("an answer asks for them only if its message is in them", () => {
  const stuck = { ...NO_PROBLEMS, unanswered: [owed] };
  const asks = (tick: string, first: number, last: number, workspace = "w1"): boolean =>
    changesProblems(frame("MESSAGE_TICK", { tick, first_seq: first, last_seq: last }, workspace), stuck);
  expect([asks("answered", 7, 7), asks("declined", 6, 9), asks("forgotten", 7, 7)]).toEqual([true, true, true]);
  expect([asks("answered", 8, 9), asks("answered", 7, 7, "w2"), asks("handed_over", 7, 7), asks("acked", 1, 9)]).toEqual([false, false, false, false]);
});

const WAITING = { workspace_id: "w1", workspace_name: "Ops", status: "paused", waiting: 3, more: false, since: "2026-03-01T09:00:00Z" };
const waiting = unclaimedOf(WAITING) as UnclaimedMessages;

test("unread mail is one problem for each agent", () => {
  const stuck = { ...NO_PROBLEMS, unclaimed: [waiting, { ...waiting, workspaceId: "w2", since: "2026-03-01T08:00:00Z" }] };
  expect(countProblems(stuck)).toBe(2);
  expect(unclaimedOf({ ...WAITING, workspace_name: 3, more: "yes" })).toEqual({ ...waiting, workspaceName: "w1" });
});

test("mail that is taken asks for the lists again only if somebody waited for that", () => {
  const stuck = { ...NO_PROBLEMS, unclaimed: [waiting] };
  const asks = (tick: string, workspace = "w1"): boolean => changesProblems(frame("MESSAGE_TICK", { tick, first_seq: 1, last_seq: 1 }, workspace), stuck);
  expect([asks("handed_over"), asks("acked")]).toEqual([true, true]);
  expect([asks("handed_over", "w2"), asks("wake_asked"), asks("answered")]).toEqual([false, false, false]);
});

test("how an agent stands says what to do so that its mail is taken", () => {
  const words = (status: string, last_heard_at: string | null = "2026-03-01T09:00:00Z", limited_until: string | null = null): string =>
    unclaimedText({ status, active_tasks: 0, current_task: null, last_heard_at, limited_until });
  expect(words("online", undefined, "2026-03-01T14:05:00Z")).toContain("limit of its vendor");
  expect(words("paused")).toContain("is paused");
  expect(words("hibernated")).toContain("hibernated");
  expect(words("failed")).toContain("has failed");
  expect(["offline", "awaiting_agent", "something new"].map((status) => words(status))).toEqual(Array(3).fill(words("offline")));
  expect(["provisioning", "awaiting_agent"].map((status) => words(status, null))).toEqual(Array(2).fill("No agent has connected yet. Connect one"));
  expect(["online", "degraded"].map((status) => words(status, null))).toEqual(Array(2).fill(words("online")));
  expect(words("online")).toContain("online but does not pick up messages");
});

const ASKED = { activity_id: "q1", workspace_id: "w1", workspace_name: "Ops", seq: 3, text: "Now?", is_cut: false, options: ["Yes", "No"], asked_at: "2026-03-01T09:00:00Z" };

test("a question asks for the lists when it is asked, and any message to its agent once it is listed", () => {
  const question = questionOf(ASKED) as OpenQuestion;
  expect(question.options).toEqual(["Yes", "No"]);
  expect(questionOf({ ...ASKED, options: [] })).toBeNull();
  const asked = (payload: unknown): boolean => changesProblems(frame("AGENT_MESSAGE", payload), NO_PROBLEMS);
  expect([asked({ message: "Now?", options: ["Yes", "No"] }), asked({ message: "Hello", options: [] }), asked({ message: "Hello" })]).toEqual([true, false, false]);
  const listed = { ...NO_PROBLEMS, questions: [question] };
  expect([changesProblems(frame("USER_MESSAGE"), listed), changesProblems(frame("USER_MESSAGE", {}, "w2"), listed)]).toEqual([true, false]);
});
