/** A state from a snapshot, and one taken over an older state. */

import type { Snapshot, SnapshotChat } from "../wire";
import { headOf } from "./lines";
import { EMPTY_CHAT, seatOf, type Chat, type State } from "./model";

/** The state as the snapshot says it. Of the state before, only what the snapshot does not tell is kept: lines of chats,
 * marked as having a hole where the chat went on meanwhile, and what was counted. */
export function applySnapshot(before: State | null, snapshot: Snapshot): State {
  const known = before?.org.id === snapshot.org.id && before.epoch === snapshot.epoch ? before : null;
  return {
    epoch: snapshot.epoch,
    last: snapshot.as_of,
    org: snapshot.org,
    user: snapshot.user,
    limits: snapshot.limits,
    workspaces: new Map(snapshot.workspaces.map((each) => [each.id, { ...each, said_at: null }])),
    seats: new Map(snapshot.workspaces.map((each) => [each.id, seatOf(each)])),
    chats: new Map(snapshot.chats.map((each) => [each.workspace_id, chatOf(each, known?.chats.get(each.workspace_id))])),
    gone: new Map(),
    unknownEvents: before?.unknownEvents ?? 0,
  };
}

function chatOf(chat: SnapshotChat, known: Chat | undefined): Chat {
  const author = chat.last.role === "agent" ? "agent" : "user";
  const { id, content, timestamp, seq } = chat.last;
  const lines = known?.lines ?? [];
  // What happened meanwhile to messages on their way is only in the pages.
  const underway = lines.some((line) => line.delivery !== null && line.delivery !== "acked");
  const whole = lines.at(-1)?.id === id && !underway;
  return {
    ...EMPTY_CHAT,
    ...known,
    loaded: known?.loaded === true && whole,
    unread: chat.unread,
    readSeq: chat.read_seq,
    last: headOf({ id, author, text: content, at: timestamp, seq }),
  };
}
