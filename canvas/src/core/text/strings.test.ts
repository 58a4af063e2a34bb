// @vitest-environment node
import { expect, test } from "vitest";
import { bytesOf, initials, plural, sizeText, tintOf } from "./strings";

test.each([
  ["Mara Lindqvist", "ML"],
  ["backend", "BA"],
  ["QA", "QA"],
  ["first-line support", "FS"],
  ["  x ", "X"],
  ["Ädä Öl", "ÄÖ"],
  ["!!!", "?"],
  ["(core) 2", "C2"],
  ["agent_7", "A7"],
])("the initials of %j are %s", (name, letters) => {
  expect(initials(name)).toBe(letters);
});

test("a name always has the same tint, and names differ", () => {
  expect(tintOf("Mara", 6)).toBe(tintOf("Mara", 6));
  const tints = new Set(["Ada", "Ben", "Cid", "Dee", "Eve", "Fay", "Gus"].map((name) => tintOf(name, 6)));
  expect(tints.size).toBeGreaterThan(2);
});

test("counts and sizes are told as people say them", () => {
  expect([plural(1, "agent"), plural(0, "agent"), plural(12_000, "agent")]).toEqual(["1 agent", "0 agents", "12,000 agents"]);
  expect([sizeText(999), sizeText(1_500), sizeText(262_144)]).toEqual(["999 bytes", "1.5 kB", "262.1 kB"]);
  expect(bytesOf("ä€😀")).toBe(9);
});
