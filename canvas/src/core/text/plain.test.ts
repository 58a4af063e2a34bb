import { expect, test } from "vitest";
import { plainLine } from "./plain";

test.each([
  ["It waits for the **disk**, _not_ the `cpu`.", "It waits for the disk, not the cpu."],
  ["# Result\n\n1. read\n2) write\n- say\n> so", "Result read write say so"],
  ["| what | after |\n| --- | ---: |\n| p50 | 2 ms |", "what, after p50, 2 ms"],
  ["see [the log](https://a.example/x) and ![a picture](b.png)", "see the log and a picture"],
  ["```sh\nmake measure\n```\ndone", "make measure done"],
  ["2 * 3 * 4, snake_case_name, a|b, [not a link], **", "2 * 3 * 4, snake_case_name, a|b, [not a link], **"],
  ["~~gone~~ and __strong__", "gone and strong"],
  ["", ""],
])("of %j stays %j", (text, plain) => {
  expect(plainLine(text)).toBe(plain);
});

test("long lines of marks are done in no time", () => {
  const before = performance.now();
  for (const mark of ["*", "_", "`", "|", "[", "- ", "**a", "__", "| --- "]) plainLine(mark.repeat(2_000));
  expect(performance.now() - before).toBeLessThan(1_000);
});
