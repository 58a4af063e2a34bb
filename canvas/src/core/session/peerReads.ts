/** How far this browser has shown the conversations of agents with each other. The server keeps no such marks: these messages
 * ask nothing of people. */

import { number, text } from "../state/json";
import { createStore, type Store } from "../store/store";
import type { KeyValueStorage } from "../store/browserStorage";
import type { ConversationPeer } from "../wire";

/** What was known of a conversation when it was last shown. */
interface PeerRead {
  at: string;
  /** Null: the list has not been read since. */
  count: number | null;
}

type Reads = ReadonlyMap<string, PeerRead>;
type Peer = Pick<ConversationPeer, "workspace_id" | "messages" | "last">;

/** Conversations per agent; the oldest are dropped. */
const MAX_KEPT = 500;

export interface PeerReads extends Store<ReadonlyMap<string, Reads>> {
  /** The list was read: conversations that are new to this browser begin as read. */
  noteListed(workspaceId: string, peers: readonly Peer[]): void;
  /** The conversation is shown up to a message. */
  markRead(workspaceId: string, peerId: string, at: string): void;
}

export function peerReadsStore(storage: KeyValueStorage, owner: { org: string; user: string }): PeerReads {
  const prefix = `molecule.peers.${owner.org}.${owner.user}.`;
  const store = createStore<ReadonlyMap<string, Reads>>(new Map(storage.keys(prefix).map((key) => [key.slice(prefix.length), parse(storage.get(key))])));
  const keep = (workspaceId: string, reads: Reads): void => {
    const kept = new Map([...reads].sort(([, one], [, other]) => (one.at > other.at ? -1 : 1)).slice(0, MAX_KEPT));
    storage.set(prefix + workspaceId, JSON.stringify([...kept].map(([id, { at, count }]) => ({ id, at, count }))));
    store.update((all) => new Map(all).set(workspaceId, kept));
  };
  return {
    ...store,
    noteListed: (workspaceId, peers) => {
      const known = store.get().get(workspaceId) ?? new Map<string, PeerRead>();
      const next = new Map(known);
      for (const { workspace_id: id, messages, last } of peers) {
        const read = known.get(id);
        if (read === undefined || (read.count === null && read.at >= last.timestamp)) next.set(id, { at: last.timestamp, count: messages });
      }
      if ([...next].some(([id, read]) => known.get(id) !== read)) keep(workspaceId, next);
    },
    markRead: (workspaceId, peerId, at) => {
      const known = store.get().get(workspaceId) ?? new Map<string, PeerRead>();
      if ((known.get(peerId)?.at ?? "") < at) keep(workspaceId, new Map(known).set(peerId, { at, count: null }));
    },
  };
}

/** Messages of a conversation that this browser has not shown. Where their number is not known, one stands for all. */
export function unreadOfPeer(reads: Reads | undefined, { workspace_id, messages, last }: Peer): number {
  const read = reads?.get(workspace_id);
  if (read === undefined || read.at >= last.timestamp) return 0;
  return Math.max(1, read.count === null ? 1 : messages - read.count);
}

function parse(stored: string | null): Reads {
  try {
    const found: unknown = JSON.parse(stored ?? "[]");
    const entries = (Array.isArray(found) ? found : []).map((each): [string | null, string | null, number | null] => [text(each, "id"), text(each, "at"), number(each, "count")]);
    return new Map(entries.flatMap(([id, at, count]): [string, PeerRead][] => (id === null || at === null ? [] : [[id, { at, count }]])));
  } catch {
    return new Map();
  }
}
