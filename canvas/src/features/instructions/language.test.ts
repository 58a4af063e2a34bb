import { expect, test } from "vitest";
import { completionsAt, linesOf } from "./language";

/** The pieces of a text in short: what they are in, what they are, their words. */
function read(text: string): string[] {
  return linesOf(text).map((line) => line.map(({ tag, kind, text: words }) => `${tag ?? ""}${kind === null ? "" : `.${kind}`}[${words}]`).join(""));
}

/** What is suggested at the place of the caret, `¦`. */
function suggested(text: string): string[] {
  const caret = text.indexOf("¦");
  return completionsAt(text.replace("¦", ""), caret)?.options.map(({ insert }) => insert) ?? [];
}

test("tags, keywords, texts and unknown names are distinguished, line by line", () => {
  expect(read('Reply with {{ reply_tool }}.\n{% if kind == "peer" %}')).toEqual([
    "[Reply with ]output[{{]output[ ]output[reply_tool]output[ ]output[}}][.]",
    'statement[{%]statement[ ]statement.keyword[if]statement[ ]statement[kind]statement[ == ]statement.string["peer"]statement[ ]statement[%}]',
  ]);
  expect(read("{{ replytool }}")).toEqual(["output[{{]output[ ]output.unknown[replytool]output[ ]output[}}]"]);
});

test("the entry of a loop is a name, and a comment or an open tag is none", () => {
  expect(read("{% for tool in available_tools %}{{ tool }}{% endfor %}").join()).not.toContain("unknown");
  expect(read("{# note #}")).toEqual(["wrong[{# note #}]"]);
  expect(read("one {{ peer\ntwo")).toEqual(["[one ]wrong[{{ peer]", "wrong[two]"]);
});

test("every character of a text is in its lines", () => {
  const text = "a {{ b | join(\", \") }}\n\n{% if 'it's' %}{{\n{% {{ %} }} {# x";
  expect(linesOf(text).map((line) => line.map((piece) => piece.text).join("")).join("\n")).toBe(text);
});

test("names are completed in tags alone, and the tag is closed with them", () => {
  expect(suggested("{{ reply_t¦")).toEqual(["reply_tool }}"]);
  expect(suggested("{{ reply_t¦ }}")).toEqual(["reply_tool"]);
  expect(suggested("{{ reply_tool¦ }}")).toEqual([]);
  expect(suggested("reply_t¦")).toEqual([]);
  expect(suggested("{{ kind }} rep¦")).toEqual([]);
  expect(suggested("{% if kind == \"pe¦")).toEqual([]);
  expect(suggested("{{ ¦")).toHaveLength(19);
});

test("a statement begins with its word, a loop names a list, a list can be joined", () => {
  expect(suggested("{% en¦")).toEqual(["endif %}", "endfor %}"]);
  expect(suggested("{% if no¦ %}")).toEqual(["not"]);
  expect(suggested("{% for tool in ¦ %}")).toEqual(["available_tools", "attachments"]);
  expect(suggested("{% for ¦")).toEqual([]);
  expect(suggested("{% for tool in available_tools %}{{ to¦ }}")[0]).toBe("tool");
  expect(suggested("{{ attachments | jo¦")).toEqual(['join(", ") }}']);
});

test("a part of a name finds it after those that begin with it", () => {
  expect(suggested("{{ handle¦ }}")).toEqual(["reply_handle", "message_handle"]);
  expect(suggested("{{ workspace¦ }}")).toEqual(["workspace_id", "arrival_workspace_id"]);
});
