/** Unread messages of the chats. Pure. */

import type { Chat } from "../../core/state/model";

/** The chats with unread messages, those with the oldest first. */
export function unreadChats(chats: ReadonlyMap<string, Chat>): readonly string[] {
  const found = [...chats].flatMap(([id, chat]) => {
    if (chat.unread === 0 || chat.last === null) return [];
    const oldest = chat.lines.find((line) => line.author === "agent" && line.seq > chat.readSeq);
    return [{ id, at: oldest?.at ?? chat.last.at }];
  });
  return found.sort((one, other) => (one.at < other.at ? -1 : 1)).map(({ id }) => id);
}

export function unreadTotal(chats: ReadonlyMap<string, Chat>): number {
  let total = 0;
  for (const chat of chats.values()) total += chat.unread;
  return total;
}
