/** The order of conversations: those with messages first, newest on top, then the others by name. */

import type { Chat, Workspace } from "../../core/state/model";

interface ChatEntry {
  workspace: Workspace;
  chat: Chat | undefined;
}

export function chatOrder(workspaces: ReadonlyMap<string, Workspace>, chats: ReadonlyMap<string, Chat>): ChatEntry[] {
  const entries = [...workspaces.values()].map((workspace) => ({ workspace, chat: chats.get(workspace.id) }));
  return entries.sort((one, other) => {
    const [a, b] = [one.chat?.last?.at ?? "", other.chat?.last?.at ?? ""];
    if (a !== b) return a > b ? -1 : 1;
    return one.workspace.name.localeCompare(other.workspace.name) || (one.workspace.id < other.workspace.id ? -1 : 1);
  });
}
