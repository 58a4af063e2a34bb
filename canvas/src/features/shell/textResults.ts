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

/** The snippet in parts. Its places count characters, which JavaScript's strings do not. */
export function snippetParts({ text, matches }: SearchItem["snippet"]): SnippetPart[] {
  const characters = Array.from(text);
  const parts: SnippetPart[] = [];
  let at = 0;
  for (const [from = 0, to = 0] of matches) {
    if (from > at) parts.push({ text: characters.slice(at, from).join(""), isMatch: false });
    parts.push({ text: characters.slice(from, to).join(""), isMatch: true });
    at = to;
  }
  if (at < characters.length) parts.push({ text: characters.slice(at).join(""), isMatch: false });
  return parts;
}
