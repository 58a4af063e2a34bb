import { expect, test } from "vitest";
import { examplesOf } from "./examples";

const card = (...examples: unknown[]) => ({ skills: [{ id: "a", name: "A" }, { id: "b", examples }] });

test("examples are those of all skills, at most three, each once", () => {
  expect(examplesOf({ skills: [{ examples: ["one", "two"] }, { examples: ["two", "three", "four"] }] })).toEqual(["one", "two", "three"]);
});

test("a text that a button does not show as it is sent is no example", () => {
  expect(examplesOf(card("", "  ", "a\nb", "x".repeat(121), "pay\u202Eelpoep", "a\u200Bb", 5, null, { text: "a" }, "good"))).toEqual(["good"]);
});

test("a card of any shape has no examples at worst", () => {
  for (const odd of [undefined, null, 5, "card", [], {}, { skills: "many" }, { skills: [null, 3, { examples: "one" }] }]) expect(examplesOf(odd)).toEqual([]);
});
