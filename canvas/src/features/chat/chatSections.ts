/** The list of chats in sections: unread, recent, and agents without messages. Pure. */

import type { Chat, Workspace } from "../../core/state/model";

export interface ChatEntry {
  workspace: Workspace;
  chat: Chat | undefined;
}

export type SectionName = "unread" | "recent" | "others";

export interface ChatSection {
  name: SectionName;
  entries: readonly ChatEntry[];
}

export const SECTION_TITLES: Readonly<Record<SectionName, string>> = { unread: "Unread", recent: "Recent", others: "Other agents" };

interface Wanted {
  /** Part of a name or role. */
  query?: string;
  /** A chat that was opened when it was unread: it keeps its place while it is open. */
  kept?: string | null;
}

/** Sections that are not empty. Chats with messages are sorted newest first, the others by name. */
export function chatSections(workspaces: ReadonlyMap<string, Workspace>, chats: ReadonlyMap<string, Chat>, { query = "", kept = null }: Wanted = {}): readonly ChatSection[] {
  const wanted = query.trim().toLowerCase();
  const found: Record<SectionName, ChatEntry[]> = { unread: [], recent: [], others: [] };
  for (const workspace of workspaces.values()) {
    if (wanted !== "" && !workspace.name.toLowerCase().includes(wanted) && !(workspace.role ?? "").toLowerCase().includes(wanted)) continue;
    const chat = chats.get(workspace.id);
    const name: SectionName = (chat?.unread ?? 0) > 0 || workspace.id === kept ? "unread" : chat?.last != null ? "recent" : "others";
    found[name].push({ workspace, chat });
  }
  return (["unread", "recent", "others"] as const).filter((name) => found[name].length > 0).map((name) => ({ name, entries: found[name].sort(byTime) }));
}

function byTime(one: ChatEntry, other: ChatEntry): number {
  const [a, b] = [one.chat?.last?.at ?? "", other.chat?.last?.at ?? ""];
  if (a !== b) return a > b ? -1 : 1;
  return one.workspace.name.localeCompare(other.workspace.name) || (one.workspace.id < other.workspace.id ? -1 : 1);
}

export interface SectionRows {
  from: number;
  to: number;
}

/** Which rows of each section are within a view, in the unit of the given heights. A section has a head and equal rows. */
export function rowsInView(sections: readonly Pick<ChatSection, "entries">[], { top, height }: { top: number; height: number }, { head, row, spare }: { head: number; row: number; spare: number }): readonly SectionRows[] {
  let begin = 0;
  return sections.map(({ entries }) => {
    const first = begin + head;
    begin = first + entries.length * row;
    const clamp = (at: number): number => Math.min(entries.length, Math.max(0, at));
    return { from: clamp(Math.floor((top - first) / row) - spare), to: clamp(Math.ceil((top + height - first) / row) + spare) };
  });
}
