// @vitest-environment node
import { expect, test } from "vitest";
import { plainLine } from "./plain";

test.each([
  ["It waits for the **disk**, _not_ the `cpu`.", "It waits for the disk, not the cpu."],
  ["# Result\n\n1. read\n2) write\n- say\n> so", "Result read write say so"],
  ["# Done\n\n**All** of `it`,\nby 2 * 3", "Done All of it, by 2 * 3"],
  ["| what | after |\n| --- | ---: |\n| p50 | 2 ms |", "what, after p50, 2 ms"],
  ["see [the log](https://a.example/x) and ![a picture](b.png)", "see the log and a picture"],
  ["```sh\nmake measure\n```\ndone", "make measure done"],
  ["2 * 3 * 4, snake_case_name, a|b, [not a link], **", "2 * 3 * 4, snake_case_name, a|b, [not a link], **"],
  ["f(*args, **kwargs), 2 ** 3 and C#", "f(*args, **kwargs), 2 ** 3 and C#"],
  ["~~gone~~ and __strong__, ``a`b``", "gone and strong, a`b"],
  ["- [x] read\n- [ ] write", "read write"],
  ["", ""],
])("of %j stays %j", (text, plain) => {
  expect(plainLine(text)).toBe(plain);
});

test.each([
  ["## Engineering The build is **green**. ### Next - ship", "Engineering The build is green. Next - ship"],
  ["| who | when | | --- | --- | | Ada | now |", "who, when, Ada, now"],
  ["It needs: - [x] words - [ ] colours - time", "It needs: words colours - time"],
  ["Run ```sh make check ``` first", "Run make check first"],
])("of a text that is on one line already, %j, stays %j", (text, plain) => {
  expect(plainLine(text)).toBe(plain);
});

test.each([
  [`${"word ".repeat(30)}and **the fir`, `${"word ".repeat(30)}and the fir`],
  ["It is **the fir…", "It is the fir…"],
  ["Call `make che…", "Call make che…"],
  ["See [the log](https://a.exam", "See the log"],
])("a mark without its other half goes from a text that was cut: %j", (text, plain) => {
  expect(plainLine(text)).toBe(plain);
});

test.each([
  "<img src=x onerror=alert(1)> <script>alert(1)</script>",
  "&lt;b&gt; &amp; &#x3c;",
  "javascript:alert(1)",
])("what another program would read as markup stays text: %j", (text) => {
  expect(plainLine(text)).toBe(text);
});

test("a link leaves its text and not its address, also if that is hostile", () => {
  expect(plainLine("[pay](javascript:alert(1)) [a](data:text/html,x)")).not.toMatch(/data:|\[/);
});

test("no mark of a terminal is left, and nothing but its beginning is read of a long text", () => {
  expect(plainLine("\u001b[31m**red**\u001b[0m \u001b]0;title\u0007ends")).toBe("red ends");
  const long = plainLine("😀".repeat(1_000_000));
  expect(long.length).toBeLessThanOrEqual(4_000);
  expect(() => encodeURIComponent(long)).not.toThrow();
});

test("a million marks cost no more than a few", () => {
  const marks = ["*", "_", "`", "|", "[", "- ", "**a", "__", "| --- ", "a*b_", "[a](", "# ", "[ ] ", "--", "``` ", "\u001b[", " ", "*a **b _c "];
  const before = performance.now();
  for (const mark of marks) plainLine(mark.repeat(1_000_000 / mark.length));
  expect(performance.now() - before).toBeLessThan(2_000);
});
