// @vitest-environment node
import { expect, test } from "vitest";
import { hrefOf } from "../../core/router";
import type { SearchItem } from "../../core/wire";
import { groupTexts, placeOfText, snippetParts } from "./textResults";

const item = (kind: string, more: Partial<SearchItem> = {}): SearchItem => ({
  kind, id: "x", ordinal: null, workspace_id: "ops", workspaces: [{ id: "ops", name: "Ops" }], in_chat: false, at: "2026-03-01T00:00:00Z", snippet: { text: "", matches: [] }, ...more,
});

test("texts are grouped by kind, and those of each kind stay newest first", () => {
  const found = [item("memory", { id: "1" }), item("message", { id: "2" }), item("strange", { id: "3" }), item("message", { id: "4" }), item("delegation", { id: "5" })];
  expect(groupTexts(found).map((each) => each.id)).toEqual(["2", "4", "5", "1"]);
  expect(groupTexts(found, new Set(["2", "5"])).map((each) => each.id)).toEqual(["2", "4", "1"]);
});

test("each kind leads to its place", () => {
  const peers = [{ id: "ops", name: "Ops" }, { id: "lead", name: "Lead" }];
  const places = [item("message", { in_chat: true }), item("message", { workspaces: peers }), item("message"), item("delegation"), item("thread"), item("memory")].map((each) => hrefOf(placeOfText(each)));
  expect(places[0]).toBe("/app/chat/ops?m=x");
  expect(places[1]).toContain("lead");
  expect(places.slice(2)).toEqual(["/app/org?focus=ops&panel=messages", "/app/delegations/x", "/app/threads/x", "/app/org?focus=ops&panel=about"]);
});

test("matches are counted in characters, also behind an emoji", () => {
  expect(snippetParts({ text: "😀 the plum", matches: [[6, 10]] })).toEqual([{ text: "😀 the ", isMatch: false }, { text: "plum", isMatch: true }]);
  expect(snippetParts({ text: "plum", matches: [] })).toEqual([{ text: "plum", isMatch: false }]);
});

test.each([
  ["**Plan** for the `plum`", "Plan for the plum"],
  ["Words. ## Next steps - [x] ship it - [ ] rest", "Words. Next steps ship it rest"],
  ["| Item | Cost | | --- | --- | | plum | 2 |", "Item Cost plum 2 "],
  ["see [the notes](https://example.org/a) and __all__ of it**", "see the notes and all of it"],
  ["2 * 3 is snake_case, a - b > c", "2 * 3 is snake_case, a - b > c"],
])("%j is plain text in a result", (text, plain) => {
  expect(snippetParts({ text, matches: [] }).map((part) => part.text).join("")).toBe(plain);
});

test("a match keeps its place when marks are taken out before, in and behind it", () => {
  expect(snippetParts({ text: "😀 **the plum** tree", matches: [[8, 12]] })).toEqual([{ text: "😀 the ", isMatch: false }, { text: "plum", isMatch: true }, { text: " tree", isMatch: false }]);
});
