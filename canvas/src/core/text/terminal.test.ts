import { expect, test } from "vitest";
import { withoutTerminalCodes } from "./terminal";

test.each([
  ["\u001b[31mred\u001b[0m", "red"],
  ["\u001b[38;2;255;100;0m1 passed\u001b[39;49m in 2 s", "1 passed in 2 s"],
  ["\u009b1mbold\u009b0m", "bold"],
  ["\u001b[2K\u001b[1Gdone", "done"],
  ["\u001b]0;window title\u0007$ ls", "$ ls"],
  ["\u001b]8;;https://example.org\u001b\\the notes\u001b]8;;\u001b\\", "the notes"],
  ["\u001bP1$r0m\u001b\\after", "after"],
  ["\u001b(B\u001b=plain\u001b7", "plain"],
  ["cut in a colour \u001b[3", "cut in a colour "],
  ["a title without an end \u001b]0;x\nnext line", "a title without an end \nnext line"],
  ["\u009d0;title\u009cafter", "after"],
  ["\u00d0\u009dedge of \u00c4\u009bt", "\u00d0\u009dedge of \u00c4\u009bt"],
  ["[31m and a[0] stay", "[31m and a[0] stay"],
  ["日本語 \u001b[1m太字\u001b[0m", "日本語 太字"],
])("%j reads %j", (text, words) => {
  expect(withoutTerminalCodes(text)).toBe(words);
});

test("a long text of openings takes no long time", () => {
  expect(withoutTerminalCodes("\u001b]".repeat(100_000))).toBe("");
  expect(withoutTerminalCodes("\u009d".repeat(100_000)).length).toBe(100_000);
});
