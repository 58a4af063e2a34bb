/** What needs a person: failed, degraded and silent agents, and what was not read. Oldest first. */

import { isSilent, standingOf } from "./standing";
import type { Chat, State, Workspace } from "./model";

export interface Concern {
  workspaceId: string;
  name: string;
  kind: "failed" | "degraded" | "silent" | "unread";
  /** Since when it needs somebody. */
  since: string;
  unread: number;
}

export function concerns(state: Pick<State, "workspaces" | "chats">): Concern[] {
  const found: Concern[] = [];
  for (const workspace of state.workspaces.values()) {
    const trouble = troubleOf(workspace);
    if (trouble !== null) found.push(trouble);
    const unread = unreadOf(workspace, state.chats.get(workspace.id));
    if (unread !== null) found.push(unread);
  }
  return found.sort(byAge);
}

function byAge(one: Concern, other: Concern): number {
  if (one.since !== other.since) return one.since < other.since ? -1 : 1;
  return one.workspaceId < other.workspaceId ? -1 : one.workspaceId > other.workspaceId ? 1 : 0;
}

function troubleOf(workspace: Workspace): Concern | null {
  const about = { workspaceId: workspace.id, name: workspace.name, unread: 0 };
  const standing = standingOf(workspace);
  if (standing === "failed" || standing === "degraded") {
    return { ...about, kind: standing, since: workspace.updated_at };
  }
  if (!isSilent(standing) || workspace.last_heard_at === null) return null;
  return { ...about, kind: "silent", since: workspace.last_heard_at };
}

function unreadOf(workspace: Workspace, chat: Chat | undefined): Concern | null {
  if (!chat || chat.unread === 0 || chat.last === null) return null;
  const oldest = chat.lines.find((line) => line.author === "agent" && line.seq > chat.readSeq);
  return {
    workspaceId: workspace.id,
    name: workspace.name,
    kind: "unread",
    since: oldest?.at ?? chat.last.at,
    unread: chat.unread,
  };
}

export function unreadTotal(chats: ReadonlyMap<string, Chat>): number {
  let total = 0;
  for (const chat of chats.values()) total += chat.unread;
  return total;
}

/** "99+" where the count ended. */
export function countText(unread: number): string {
  return unread > 99 ? "99+" : String(unread);
}
