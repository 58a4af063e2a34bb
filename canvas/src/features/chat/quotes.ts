/** Quotes of earlier messages: a reply begins with the quoted line as Markdown, so that the agent reads it too. Pure. */

import { plainLine } from "../../core/text/plain";

const MAX_CHARACTERS = 160;

/** The beginning of a message on one line. */
export function quotedLine(text: string): string {
  const line = [...plainLine(text)];
  return line.length <= MAX_CHARACTERS ? line.join("") : `${line.slice(0, MAX_CHARACTERS - 1).join("")}…`;
}

/** The text of a reply. */
export function withQuote(line: string, words: string): string {
  return line === "" ? words : `> ${line}\n\n${words}`;
}

/** The quoted line of a reply, and what its writer added. A text without a quote is all the writer's. */
export function splitQuote(text: string): { quote: string | null; words: string } {
  const found = /^> ([^\n]*)(?:\n\n([\s\S]*))?$/.exec(text);
  return found === null ? { quote: null, words: text } : { quote: found[1] ?? "", words: found[2] ?? "" };
}
