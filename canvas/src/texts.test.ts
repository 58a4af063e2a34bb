// @vitest-environment node
/// <reference types="node" />
/** Check the texts of the page: they use no banned word. The words are those of the guards of the Python sources. */

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { pageTexts } from "./core/testing/pageTexts";

const ROOT = "src";
const VOCABULARY = "../tests/architecture/vocabulary.py";
/** Not texts of the page: tests, their tools, and generated types. */
const NOT_READ = /\.test\.tsx?$|^core\/testing\/|^core\/wire\.ts$|^ui\/hostileMarkdown\.ts$/;

function readBannedWords(): readonly string[] {
  const [, words = ""] = /^BANNED_WORDS = \(\n(.*?)^\)/ms.exec(readFileSync(VOCABULARY, "utf8")) ?? [];
  return [...words.matchAll(/^ {4}r"(.*)",$/gm)].map(([, pattern = ""]) => pattern);
}

const BANNED = new RegExp(`\\b(?:${readBannedWords().join("|")})\\b`, "gi");

/** Banned words in the texts of a file, with their lines. */
function findBannedWords(file: string, source: string): string[] {
  return pageTexts(file, source).flatMap(({ line, text }) => [...text.matchAll(BANNED)].map(([word]) => `${file}:${line} ${word.toLowerCase()}: ${text}`));
}

test("no text of the page uses a banned word", () => {
  const files = globSync("**/*.{ts,tsx}", { cwd: ROOT }).map((file) => file.replaceAll("\\", "/")).filter((file) => !NOT_READ.test(file)).sort();
  const sources = files.map((file) => [file, readFileSync(join(ROOT, file), "utf8")] as const);
  expect(sources.flatMap(([file, source]) => pageTexts(file, source)).length).toBeGreaterThan(800);
  expect(sources.flatMap(([file, source]) => findBannedWords(file, source))).toEqual([]);
});

/** Labels that readers of English did not understand, and the like of them. */
const UNIDIOMATIC = /asks? for leave|way so far|it was given|came of it|none told|that of its|without sending it|clock decided|of before|look for words|put together|^made$/i;

test("no text of the page is worded in a way that was not understood", () => {
  const files = globSync("**/*.{ts,tsx}", { cwd: ROOT }).map((file) => file.replaceAll("\\", "/")).filter((file) => !NOT_READ.test(file));
  const texts = files.flatMap((file) => pageTexts(file, readFileSync(join(ROOT, file), "utf8")).map(({ text }) => `${file}: ${text}`));
  expect(texts.filter((each) => UNIDIOMATIC.test(each.replace(/^.*?: /, "")))).toEqual([]);
});

test("no text of the page has a soft hyphen", () => {
  const files = globSync("**/*.{ts,tsx}", { cwd: ROOT }).filter((file) => !NOT_READ.test(file));
  expect(files.filter((file) => pageTexts(file, readFileSync(join(ROOT, file), "utf8")).some(({ text }) => text.includes("\u00ad")))).toEqual([]);
});

test("the banned words are those of the Python guards", () => {
  expect(readBannedWords().length).toBeGreaterThan(15);
  expect(readBannedWords()).toContain("seats?|seated");
});

test.each([
  ["text of an element", "const a = <p>Make a seat</p>;"],
  ["a label", 'const a = <button aria-label="Make a seat" />;'],
  ["a string", 'const a = open ? "Make a seat" : "Done";'],
  ["the property of an object", 'const a = { label: "Seats" };'],
  ["a template", "const a = `${count} seats of ${name}`;"],
  ["the value of a template", 'const a = `${open ? "Make a seat" : ""}`;'],
  ["text in parts", "const a = (\n  <p>\n    Remove <b>{count}</b> seats\n  </p>\n);"],
])("a banned word is found in %s", (_, source) => {
  expect(findBannedWords("a.tsx", source)).toHaveLength(1);
});

test.each(['import { seat } from "seat";', 'type A = "Make a seat";', 'const a = <p className="seat">Done</p>;', "const seat = told(letter);", "// Make a seat"])("no text of the page: %s", (source) => {
  expect(findBannedWords("a.tsx", source)).toEqual([]);
});
