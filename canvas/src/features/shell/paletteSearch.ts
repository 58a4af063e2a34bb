/** Results of the palette: agents, chats, open delegations and commands; unread and recent ones first. */

import type { Delegation } from "../../core/state/delegations";
import type { Chat, Workspace } from "../../core/state/model";

export interface Command {
  name: string;
  hint: string;
}

export type SearchResult =
  | { kind: "agent"; key: string; workspace: Workspace; unread: number }
  | { kind: "chat"; key: string; workspace: Workspace; unread: number }
  | { kind: "work"; key: string; delegation: Delegation; target: string }
  | { kind: "command"; key: string; command: Command };

const MAX_RESULTS = 40;
const MAX_DELEGATIONS = 10;

export function search(
  words: string,
  workspaces: ReadonlyMap<string, Workspace>,
  chats: ReadonlyMap<string, Chat>,
  commands: readonly Command[],
  delegations: readonly Delegation[] = [],
): SearchResult[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text: string): boolean => wanted.every((word) => text.toLowerCase().includes(word));
  const people = [...workspaces.values()].filter((each) => fits(`${each.name} ${each.role ?? ""} chat`)).sort(byRelevance(words.trim().toLowerCase(), chats));
  const unread = (id: string): number => chats.get(id)?.unread ?? 0;
  const open = people.filter((each) => unread(each.id) > 0 || (wanted.length > 0 && chats.has(each.id)));
  const found: SearchResult[] = [
    ...open.map((workspace): SearchResult => ({ kind: "chat", key: `chat ${workspace.id}`, workspace, unread: unread(workspace.id) })),
    ...people.map((workspace): SearchResult => ({ kind: "agent", key: `agent ${workspace.id}`, workspace, unread: 0 })),
  ];
  const doing = commands.filter((each) => fits(each.name)).map((command): SearchResult => ({ kind: "command", key: command.name, command }));
  return [...found.slice(0, MAX_RESULTS), ...delegationsFor(wanted, workspaces, delegations), ...doing];
}

/** Delegations match by task and agent; without search words they are left out. */
function delegationsFor(wanted: readonly string[], workspaces: ReadonlyMap<string, Workspace>, delegations: readonly Delegation[]): SearchResult[] {
  if (wanted.length === 0) return [];
  const found: SearchResult[] = [];
  for (const delegation of delegations) {
    const target = workspaces.get(delegation.targetId)?.name ?? "";
    const text = `${delegation.task} ${target} task`.toLowerCase();
    if (wanted.every((word) => text.includes(word))) found.push({ kind: "work", key: `work ${delegation.id}`, delegation, target });
    if (found.length === MAX_DELEGATIONS) break;
  }
  return found;
}

/** Exact names first, then names that begin with the words, then unread chats, then recent ones. */
function byRelevance(words: string, chats: ReadonlyMap<string, Chat>): (one: Workspace, other: Workspace) => number {
  const nearness = (each: Workspace): number => {
    const name = each.name.toLowerCase();
    return words === "" ? 0 : name === words ? 2 : name.startsWith(words) ? 1 : 0;
  };
  const unread = (each: Workspace): boolean => (chats.get(each.id)?.unread ?? 0) > 0;
  const recent = (each: Workspace): string => chats.get(each.id)?.last?.at ?? "";
  return (one, other) => {
    if (nearness(one) !== nearness(other)) return nearness(other) - nearness(one);
    if (unread(one) !== unread(other)) return unread(one) ? -1 : 1;
    if (recent(one) !== recent(other)) return recent(one) > recent(other) ? -1 : 1;
    return one.name.localeCompare(other.name);
  };
}
