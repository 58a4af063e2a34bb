// @vitest-environment node
import { expect, test } from "vitest";
import { showInvisible } from "../../core/text/invisible";
import { readDetails } from "./detailsInput";
import { actionText, fitsRow, prettyDetails, rowLines } from "./texts";

const PROPOSED = { to: "production", count: 3, dry: false, who: ["a"], more: { deep: true }, none: null };
const words = (change: object): string => JSON.stringify({ ...PROPOSED, ...change }, null, 2);
const told = (text: string): unknown => readDetails(text, PROPOSED).marks.map(({ line, text: said, warning }) => [line, said, warning]);

test("details that keep their kinds are taken", () => {
  const change = { to: "staging", count: 1.5, dry: true, who: [], more: {}, none: "now one" };
  expect(readDetails(words(change), PROPOSED)).toEqual({ details: { ...PROPOSED, ...change }, marks: [] });
});

test("what has another kind than what was proposed is told at its line", () => {
  expect(readDetails(words({ count: "3" }), PROPOSED).details).toBeNull();
  expect(told(words({ count: "3" }))).toEqual([[3, "“count” must be a number, not a string.", false]]);
  expect(told(words({ who: {} }))).toEqual([[5, "“who” must be an array, not an object.", false]]);
});

test("what is new or left out is told and may be", () => {
  const { to: _to, ...rest } = PROPOSED;
  const edited = readDetails(JSON.stringify({ ...rest, force: true }, null, 2), PROPOSED);
  expect(edited.details).toEqual({ ...rest, force: true });
  expect(edited.marks.map(({ text: said, warning }) => [said.slice(0, 20), warning])).toEqual([["“force” is not in th", true], ["“to” was removed.", true]]);
});

test("what is no JSON, and what is no object, is told where it is", () => {
  expect(told('{\n  "to": "x",\n  "count": \n}')).toEqual([[4, expect.stringContaining("Invalid JSON"), false]]);
  expect(told("[1]")).toEqual([[1, "The details must be an object: { … }.", false]]);
  expect(readDetails("", PROPOSED).details).toBeNull();
});

test("what is not seen, or turns its neighbours around, is shown by its number and means the same", () => {
  const details = { to: "a\u202eb\u200b\u{e0041}", name: "می\u200cخواهم 👩\u200d🔧\n" };
  expect(showInvisible(details.to)).toBe("a\\u202eb\\u200b\\udb40\\udc41");
  expect(showInvisible(details.name)).toBe(details.name);
  expect(prettyDetails(details)).toContain("a\\u202eb");
  expect(JSON.parse(prettyDetails(details))).toEqual(details);
});

test("only what can be read whole in a row, may be answered with others", () => {
  const one = { action: "deploy", reason: "", details: { to: "x" }, source: "api" };
  expect(fitsRow(one)).toBe(true);
  expect(fitsRow({ ...one, details: { to: "x".repeat(200) } })).toBe(false);
  expect(fitsRow({ ...one, details: { a: 1, b: 2, c: 3, d: 4 } })).toBe(false);
  expect(fitsRow({ ...one, reason: "one\ntwo" })).toBe(false);
  const raise = { ...one, source: "budget", details: { a: 1, b: 2, c: 3, d: 4 } };
  expect([fitsRow(raise), rowLines(raise), actionText(raise)]).toEqual([true, [], "Raise the budget"]);
});
