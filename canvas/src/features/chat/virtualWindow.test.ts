// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { NEW_MESSAGE, type Line } from "../../core/state/model";
import { centredOn, rangeOf, startingAt, showNewer, FOLLOWING, pinned, showOlder, type LineWindow } from "./virtualWindow";

function chat(length: number): Line[] {
  return Array.from({ length }, (_, at) => ({ ...NEW_MESSAGE, id: `a${at}`, clientId: null, author: "agent", text: "", at: "", seq: at, userName: null, attachments: [], delivery: null, problem: null }));
}

const shown = (span: LineWindow, lines: Line[]): [number, number] => {
  const { from, to } = rangeOf(span, lines);
  return [from, to];
};

test("it follows the newest", () => {
  expect(shown(FOLLOWING, chat(10_000))).toEqual([9_940, 10_000]);
  expect(shown(FOLLOWING, chat(10))).toEqual([0, 10]);
});

test("held, it stays where it is when lines come below and above", () => {
  const lines = chat(100);
  const span = pinned(FOLLOWING, lines);
  const [from, to] = shown(span, lines);
  const older = chat(30).map((line) => ({ ...line, id: `older ${line.id}` }));
  expect(shown(span, [...older, ...lines, ...chat(3).map((line) => ({ ...line, id: `new ${line.id}` }))])).toEqual([from + 30, to + 30]);
});

test("going up shows older lines, going down newer ones, and never more than a few in the document", () => {
  const steps = fc.array(fc.constantFrom("up", "up", "down"), { maxLength: 400 });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 1_000 }), steps, (length, all) => {
      const lines = chat(length);
      let span = pinned(FOLLOWING, lines);
      for (const each of all) {
        const [from, to] = shown(span, lines);
        span = each === "up" ? showOlder(span, lines) : showNewer(span, lines);
        const [nextFrom, nextTo] = shown(span, lines);
        expect(nextTo - nextFrom).toBeLessThanOrEqual(140);
        if (each === "up") expect(nextFrom).toBeLessThanOrEqual(from);
        else expect(nextTo).toBeGreaterThanOrEqual(to);
        expect(nextFrom <= to && nextTo >= from, "what was looked at is still there").toBe(true);
      }
    }),
    { numRuns: 50 },
  );
});

test("both ends can be reached", () => {
  const lines = chat(1_000);
  let span = pinned(FOLLOWING, lines);
  for (let turn = 0; turn < 40; turn += 1) span = showOlder(span, lines);
  expect(shown(span, lines)[0]).toBe(0);
  for (let turn = 0; turn < 40; turn += 1) span = showNewer(span, lines);
  expect(shown(span, lines)[1]).toBe(1_000);
});

test("a line that a link names is among those shown", () => {
  const lines = chat(500);
  for (const at of [0, 3, 250, 499]) {
    const [from, to] = shown(centredOn(at, lines), lines);
    expect(from <= at && at < to).toBe(true);
  }
});

test("the first unread line is shown with a few before it and the rest behind it", () => {
  const lines = chat(500);
  const spans = [0, 3, 250, 499].map((at) => shown(startingAt(at, lines), lines));
  expect(spans).toEqual([[0, 50], [0, 53], [240, 300], [489, 500]]);
});

test("a window does not begin within a group of delegations", () => {
  const lines = chat(200).map((line, at) => (at >= 130 && at < 160 ? { ...line, author: "work" as const } : line));
  expect(shown(FOLLOWING, lines)).toEqual([130, 200]);
  expect(shown(FOLLOWING, lines.map((line) => ({ ...line, author: "work" as const })))).toEqual([100, 200]);
});
