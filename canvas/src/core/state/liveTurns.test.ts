import { expect, test } from "vitest";
import type { EventFrame, LiveTurnPayload } from "../wire";
import { isEnded, NO_LIVE_TURNS, turnKey, unsaidText, withLiveTurns, type LiveTurn, type LiveTurns } from "./liveTurns";

const FIRST: LiveTurnPayload = {
  activity_id: "m",
  thread_id: "",
  status: "working",
  status_text: "",
  started_at: "2026-03-02T10:00:00Z",
  text_at: 0,
  text: "",
  tools: [],
  whole: false,
  stop_requested_by: null,
};

function frame(change: Partial<LiveTurnPayload>): EventFrame {
  return { event: "LIVE_TURN", workspace_id: "a", timestamp: "2026-03-02T10:00:01Z", payload: { ...FIRST, ...change }, entity: { kind: "workspace", id: "a", rev: 0 } };
}

function after(...changes: Partial<LiveTurnPayload>[]): LiveTurn | undefined {
  return all(...changes).get(turnKey("a", "m"));
}

function all(...changes: Partial<LiveTurnPayload>[]): LiveTurns {
  return changes.reduce((turns, change) => withLiveTurns(turns, [frame(change)]), NO_LIVE_TURNS);
}

test("text continues, and a repeated part changes nothing", () => {
  expect(after({ whole: true, text: "Hel" }, { text_at: 3, text: "lo" }, { text_at: 3, text: "lo" })?.text).toBe("Hello");
});

test("positions count characters, not UTF-16 units", () => {
  expect(after({ whole: true, text: "🙂🙂" }, { text_at: 2, text: "!" })?.text).toBe("🙂🙂!");
});

test("a whole turn replaces what was known", () => {
  const turn = after({ whole: true, text: "Hello" }, { whole: true, text_at: 90, text: "the end" }, { text_at: 97, text: "." });
  expect([turn?.textAt, turn?.text]).toEqual([90, "the end."]);
});

test("a tool call keeps its place when its status changes", () => {
  const call = { call_id: "1", tool: "Bash", title: "ls", status: "started" } as const;
  const turn = after({ tools: [call, { ...call, call_id: "2" }] }, { tools: [{ ...call, status: "completed" }] });
  expect(turn?.tools.map(({ call_id, status }) => `${call_id} ${status}`)).toEqual(["1 completed", "2 started"]);
});

test("a lost turn is removed, an ended one stays for its answer", () => {
  expect(after({}, { status: "lost" })).toBeUndefined();
  const ended = after({}, { status: "stopped" });
  expect(ended !== undefined && isEnded(ended)).toBe(true);
});

test("payloads of another shape and other events change nothing", () => {
  const turns = all({ text: "Hello" });
  expect(withLiveTurns(turns, [{ ...frame({}), event: "TASK_UPDATED" }])).toBe(turns);
  expect([...withLiveTurns(turns, [{ ...frame({}), payload: { status: 5 } as unknown as LiveTurnPayload }])]).toEqual([...turns]);
});

test.each([
  ["I look.\n\nNobody.", ["I look."], "Nobody."],
  ["I look.\n\nNobody.", ["I look.", "Nobody."], ""],
  ["Nobody.", ["something else"], "Nobody."],
  ["Nobody.", [""], "Nobody."],
])("of %j, %j is shown as messages already", (text, said, rest) => {
  const turn = after({ text });
  expect(turn === undefined ? null : unsaidText(turn, said)).toBe(rest);
});
