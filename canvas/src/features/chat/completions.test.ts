// @vitest-environment node
import { expect, test } from "vitest";
import { completionAt, matching, withMention } from "./completions";

const named = (...names: string[]) => names.map((name) => ({ id: name, name, hint: "" }));

test("a name is completed after an @ that begins a word, also one with a blank", () => {
  expect(completionAt("ask @Fir", 8)).toEqual({ kind: "agent", from: 4, query: "Fir" });
  expect(completionAt("ask @First li now", 13)).toEqual({ kind: "agent", from: 4, query: "First li" });
  expect(completionAt("@", 1)).toEqual({ kind: "agent", from: 0, query: "" });
  for (const text of ["ada@example.org", "no mark", "@one\ntwo"]) expect(completionAt(text, text.length)).toBeNull();
});

test("a command is completed only where it is all of the text", () => {
  expect(completionAt("/st", 3)).toEqual({ kind: "command", from: 0, query: "st" });
  for (const text of ["see /st", "/st now", "/etc/passwd"]) expect(completionAt(text, text.length)).toBeNull();
  expect(completionAt("/stop it", 3)).toBeNull();
});

test("names that begin with the letters come first, then those with such a word", () => {
  expect(matching(named("Night line", "Lina", "Second line", "Crayon"), "li").map(({ name }) => name)).toEqual(["Lina", "Night line", "Second line"]);
  expect(matching(named("Ops"), "ops and more")).toEqual([]);
});

test("a mention takes the place of what was typed, with one blank behind it", () => {
  const at = { kind: "agent", from: 4, query: "Fi" } as const;
  expect(withMention("ask @Fi", at, "First line")).toEqual({ text: "ask @First line ", caret: 16 });
  expect(withMention("ask @Fi please", at, "First line")).toEqual({ text: "ask @First line please", caret: 16 });
});
