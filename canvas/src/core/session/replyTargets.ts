/** The message that the person replies to, by conversation. Stored with the drafts, so that it survives a reload. */

import { text } from "../state/json";
import { createStore, type Store } from "../store/store";
import type { KeyValueStorage } from "../store/browserStorage";

export interface ReplyTarget {
  messageId: string;
  author: string;
  /** The quoted line. */
  line: string;
}

export interface ReplyTargets extends Store<ReadonlyMap<string, ReplyTarget>> {
  choose(workspaceId: string, target: ReplyTarget | null): void;
}

export function replyTargetsStore(storage: KeyValueStorage, owner: { org: string; user: string }): ReplyTargets {
  const prefix = `molecule.reply.${owner.org}.${owner.user}.`;
  const entries = storage.keys(prefix).map((key): [string, ReplyTarget | null] => [key.slice(prefix.length), parse(storage.get(key))]);
  const store = createStore<ReadonlyMap<string, ReplyTarget>>(new Map(entries.filter((each): each is [string, ReplyTarget] => each[1] !== null)));
  return {
    ...store,
    choose: (workspaceId, target) => {
      if (target === null) storage.remove(prefix + workspaceId);
      else storage.set(prefix + workspaceId, JSON.stringify(target));
      store.update((all) => {
        const next = new Map(all);
        if (target === null) next.delete(workspaceId);
        else next.set(workspaceId, target);
        return next;
      });
    },
  };
}

function parse(stored: string | null): ReplyTarget | null {
  try {
    const value: unknown = JSON.parse(stored ?? "null");
    const [messageId, author, line] = [text(value, "messageId"), text(value, "author"), text(value, "line")];
    return messageId === null || author === null || line === null ? null : { messageId, author, line };
  } catch {
    return null;
  }
}
