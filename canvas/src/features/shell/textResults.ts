/** Found texts in the palette: grouped by kind, with the place that each leads to. */

import type { Place } from "../../core/router";
import type { SearchItem } from "../../core/wire";

const GROUPS: readonly (readonly [kind: string, title: string])[] = [
  ["message", "Messages"],
  ["delegation", "Delegations"],
  ["thread", "Threads"],
  ["memory", "Memories"],
];

/** The items by kind, newest first within each. Kinds of a newer server are left out, and delegations that are listed already. */
export function groupTexts(items: readonly SearchItem[], listed: ReadonlySet<string> = new Set()): SearchItem[] {
  return GROUPS.flatMap(([kind]) => items.filter((each) => each.kind === kind && !(kind === "delegation" && listed.has(each.id))));
}

export function titleOf(kind: string): string {
  return GROUPS.find(([each]) => each === kind)?.[1] ?? "";
}

/** A message between two agents is in their conversation; other messages are in the log of the agent alone. */
export function placeOfText(item: SearchItem): Place {
  if (item.kind === "delegation") return { view: "delegation", id: item.id, node: null };
  if (item.kind === "thread") return { view: "thread", id: item.id, tab: "said" };
  if (item.kind === "message" && item.in_chat) return { view: "chats", workspaceId: item.workspace_id, messageId: item.id };
  const peer = item.workspaces.find((each) => each.id !== item.workspace_id);
  if (item.kind === "message" && peer) return { view: "peers", workspaceId: item.workspace_id, peerId: peer.id, messageId: item.id };
  return { view: "org", focus: item.workspace_id, panel: item.kind === "message" ? "messages" : "about", filter: "" };
}

export interface SnippetPart {
  text: string;
  isMatch: boolean;
}

/** The marks of Markdown in a snippet, which is one line cut out of a text: beginnings of lines are anywhere in it, and a pair
 * may have lost its other half. */
const MARKS: readonly RegExp[] = [
  /\*\*|__(?=\S)|(?<=\S)__|~~|`+/g,
  /(?<=^|\s)#{1,6} +/g,
  /(?<=^|\s)(?:[-*+] +)?\[[ xX]\] +/g,
  /^(?:[>*+-]|\d{1,3}[.)]) +/g,
  /(?<=^|\s)\|?(?: *:?-{2,}:? *\|)+(?: *:?-{2,}:?)?(?=\s|$)/g,
  /(?<=^|\s)\|(?=\s|$)/g,
  /\]\([^()\s]*\)/g,
  /!?\[(?=[^\]]*\]\()/g,
];

/** The snippet in parts, without the marks of Markdown. Its places count characters, which JavaScript's strings do not. */
export function snippetParts({ text, matches }: SearchItem["snippet"]): SnippetPart[] {
  const characters = Array.from(text);
  const isShown = shownCharacters(text, characters);
  const isMatch = new Array<boolean>(characters.length).fill(false);
  for (const [from = 0, to = 0] of matches) isMatch.fill(true, from, to);
  const parts: SnippetPart[] = [];
  characters.forEach((character, at) => {
    const part = parts.at(-1);
    const last = part?.text.at(-1) ?? " ";
    if (!isShown[at] || (character === " " && last === " ")) return;
    if (part !== undefined && part.isMatch === isMatch[at]) part.text += character;
    else parts.push({ text: character, isMatch: isMatch[at] ?? false });
  });
  return parts;
}

function shownCharacters(text: string, characters: readonly string[]): boolean[] {
  const isMark = new Array<boolean>(text.length).fill(false);
  for (const mark of MARKS) for (const found of text.matchAll(mark)) isMark.fill(true, found.index, found.index + found[0].length);
  let unit = 0;
  return characters.map((character) => {
    unit += character.length;
    return isMark[unit - 1] === false;
  });
}
