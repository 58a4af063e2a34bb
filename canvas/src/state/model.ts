/** What the page knows of an organisation. Values are never changed in place: what is new is another object. */

import type { SnapshotLimits, SnapshotOrg, SnapshotWorkspace, User } from "../wire";

/** A workspace. `said_at`: the time of the last event about it on this page; what its agent said before is old. */
export interface Workspace extends SnapshotWorkspace {
  said_at: string | null;
}

/** The place of a workspace in the tree. Only when one of these changes is the picture laid out anew. */
export interface Seat {
  id: string;
  parentId: string | null;
  name: string;
  createdAt: string;
}

/** How far a person's message has come on its way to the agent. */
export type Delivery = "stored" | "handed_over" | "acked" | "dead";

export interface Line {
  id: string;
  clientId: string | null;
  author: "user" | "agent";
  text: string;
  at: string;
  seq: number;
  userName: string | null;
  attachments: readonly Attachment[];
  /** Null for what an agent wrote. */
  delivery: Delivery | null;
  /** Why it cannot be delivered. */
  trouble: string | null;
}

export interface Attachment {
  name: string;
  size: number | null;
  /** How messages name it; null while only this page has it. */
  uri: string | null;
  /** What its sender says that it is. */
  type: string | null;
}

export interface Chat {
  unread: number;
  readSeq: number;
  last: Pick<Line, "id" | "author" | "text" | "at" | "seq"> | null;
  lines: readonly Line[];
  /** The newest page was read, so that `lines` has no hole up to its end. */
  loaded: boolean;
  /** Nothing older than `lines` exists. */
  reachedEnd: boolean;
}

export interface State {
  epoch: string;
  /** The seq of the last event that is in here. */
  last: number;
  org: SnapshotOrg;
  user: User;
  limits: SnapshotLimits;
  workspaces: ReadonlyMap<string, Workspace>;
  seats: ReadonlyMap<string, Seat>;
  chats: ReadonlyMap<string, Chat>;
  /** Revisions of removed workspaces: a late event must not bring one back. */
  gone: ReadonlyMap<string, number>;
  /** Events whose name or shape this page does not know. */
  unknownEvents: number;
}

/** The server stops counting there, and so does the page; it shows "99+". */
export const MOST_UNREAD = 100;

export const EMPTY_CHAT: Chat = {
  unread: 0,
  readSeq: 0,
  last: null,
  lines: [],
  loaded: false,
  reachedEnd: false,
};

export function seatOf(workspace: SnapshotWorkspace): Seat {
  return {
    id: workspace.id,
    parentId: workspace.parent_id,
    name: workspace.name,
    createdAt: workspace.created_at,
  };
}

export function sameSeat(one: Seat | undefined, other: Seat): boolean {
  return one !== undefined && one.parentId === other.parentId && one.name === other.name;
}
