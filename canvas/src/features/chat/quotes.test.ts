// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { quotedLine, splitQuote, withQuote } from "./quotes";

test("a quoted line is one line of plain text, cut where it is long", () => {
  expect(quotedLine("## Plan\n\n**All** of `it`\n- one")).toBe("Plan All of it one");
  expect([...quotedLine("🍎 ".repeat(200))]).toHaveLength(160);
});

test("a reply is split into what it quotes and what was written", () => {
  fc.assert(fc.property(fc.string(), fc.string(), (quoted, words) => {
    const line = quotedLine(quoted);
    fc.pre(line !== "");
    expect(splitQuote(withQuote(line, words))).toEqual({ quote: line, words });
  }));
});

test("a text that is no reply stays whole", () => {
  for (const text of ["", "plain", "> one\n> two\n\nrest", ">no blank", "a\n> b"]) expect(splitQuote(text)).toEqual({ quote: null, words: text });
});
