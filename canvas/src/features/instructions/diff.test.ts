// @vitest-environment node
import fc from "fast-check";
import { expect, test } from "vitest";
import { diffLines, type DiffLine } from "./diff";

const text = fc.array(fc.constantFrom("a", "b", "c", ""), { maxLength: 12 }).map((lines) => lines.join("\n"));
const kept = (lines: DiffLine[], ...kinds: DiffLine["kind"][]): string =>
  lines.filter(({ kind }) => kinds.includes(kind)).map((line) => line.text).join("\n");

test("what stays and goes is the old text, what stays and comes is the new one", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after);
      expect(kept(lines, "same", "removed")).toBe(before);
      expect(kept(lines, "same", "added")).toBe(after);
    }),
  );
});

test("no line is taken out that is put in unchanged elsewhere, if it could stay", () => {
  fc.assert(
    fc.property(text, (same) => {
      expect(diffLines(same, same).every(({ kind }) => kind === "same")).toBe(true);
    }),
  );
  expect(diffLines("a\nb\nc", "a\nx\nc")).toEqual([
    { kind: "same", text: "a" },
    { kind: "removed", text: "b" },
    { kind: "added", text: "x" },
    { kind: "same", text: "c" },
  ]);
  expect(diffLines("a\nb\nc\nd", "b\nd\ne").filter(({ kind }) => kind === "same").map((line) => line.text)).toEqual(["b", "d"]);
});
