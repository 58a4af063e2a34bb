/** The page's copy of the organisation. Values are immutable: a change creates a new object. */

import type { SnapshotLimits, SnapshotOrg, SnapshotWorkspace, SessionUser } from "../wire";
import type { Approvals } from "./approvals";
import type { Delegation } from "./delegations";
import type { Obligation, Unanswered } from "./obligations";

/** A workspace. `reported_at`: time of the last event about it on this page; older heartbeats are ignored. */
export interface Workspace extends SnapshotWorkspace {
  reported_at: string | null;
}

/** Position of a workspace in the org tree. The map is laid out again only when one of these changes. */
export interface OrgNode {
  id: string;
  parentId: string | null;
  name: string;
  createdAt: string;
}

/** Delivery state of a person's message. */
export type Delivery = "stored" | "in_inbox" | "handed_over" | "acked" | "dead";

export interface Line {
  id: string;
  clientId: string | null;
  /** `work`: a delegation by the agent, not a message. */
  author: "user" | "agent" | "work";
  text: string;
  at: string;
  seq: number;
  userName: string | null;
  attachments: readonly Attachment[];
  /** Null for messages of the agent. */
  delivery: Delivery | null;
  /** Why it cannot be delivered. */
  problem: string | null;
  /** Obligation of a person's message; null for messages of the agent and those that need no answer. */
  obligation: Obligation | null;
  /** Delivery and obligation are as of the event with this sequence number, or later. */
  lastEventSeq: number;
  /** Whether nothing about it is known only in part. */
  complete: boolean;
  /** Options of an agent's question. */
  options: readonly string[];
  /** For a person's answer to a question: the chosen option. */
  choice: Choice | null;
  /** For a person's reply: the message that it quotes. */
  replyTo: string | null;
  /** For a delegation: its id, all else is in the state's table. Null for messages. */
  delegationId: string | null;
}

/** A line with text, not a delegation. */
export type MessageLine = Line & { author: "user" | "agent" };

export function isMessageLine(line: Line): line is MessageLine {
  return line.author !== "work";
}

/** A delegation that a guard rejected before it began. */
export interface RefusedDelegation {
  seq: number;
  at: string;
  sourceId: string;
  targetId: string;
  task: string;
  limit: string;
  use: number;
  most: number;
  remedy: string;
}

/** One of the options of a question. */
export interface Choice {
  of: string;
  option: number;
}

export interface Attachment {
  name: string;
  size: number | null;
  /** Address in messages; null while only this page has the file. */
  uri: string | null;
  /** Media type claimed by the sender. */
  type: string | null;
}

export interface Chat {
  unread: number;
  readSeq: number;
  /** `unread` of the snapshot counts up to this seq. */
  countedSeq: number;
  last: Pick<MessageLine, "id" | "author" | "text" | "at" | "seq"> | null;
  lines: readonly Line[];
  /** The newest page was read: `lines` has no gap before its end. */
  loaded: boolean;
  /** After this seq some lines may be missing; null: no gap. */
  holeAfter: number | null;
  /** Nothing older than `lines` exists. */
  reachedEnd: boolean;
}

export interface State {
  epoch: string;
  /** Sequence number of the last applied event. */
  last: number;
  org: SnapshotOrg;
  user: SessionUser;
  limits: SnapshotLimits;
  workspaces: ReadonlyMap<string, Workspace>;
  orgNodes: ReadonlyMap<string, OrgNode>;
  chats: ReadonlyMap<string, Chat>;
  /** By workspace: overdue messages and drafts; without any it has no entry. */
  unanswered: ReadonlyMap<string, Unanswered>;
  /** Open delegations, and ended ones that this page has seen. */
  delegations: ReadonlyMap<string, Delegation>;
  /** Pending approvals, and closed ones that this page has seen. */
  approvals: Approvals;
  /** Agents with open questions to people, as the list of questions was read last. */
  asking: ReadonlySet<string>;
  /** The last delegations that guards rejected while this page was open. */
  refused: readonly RefusedDelegation[];
  /** A delegation without activity for this long is shown as stuck. */
  stuckSeconds: number;
  /** Revisions of removed workspaces: a late event must not restore one. */
  removed: ReadonlyMap<string, number>;
  /** Events of unknown name or shape. */
  unknownEvents: number;
}

/** Initial delivery and obligation members of a message. */
export const NEW_MESSAGE = { obligation: null, lastEventSeq: 0, complete: true, options: [], choice: null, replyTo: null, delegationId: null } satisfies Partial<Line>;

/** The server counts up to here; the page shows "99+". */
export const MAX_UNREAD = 100;

export const EMPTY_CHAT: Chat = {
  unread: 0,
  readSeq: 0,
  countedSeq: 0,
  last: null,
  lines: [],
  loaded: false,
  holeAfter: null,
  reachedEnd: false,
};

export function orgNodeOf(workspace: SnapshotWorkspace): OrgNode {
  return {
    id: workspace.id,
    parentId: workspace.parent_id,
    name: workspace.name,
    createdAt: workspace.created_at,
  };
}

export function sameOrgNode(one: OrgNode | undefined, other: OrgNode): boolean {
  return one !== undefined && one.parentId === other.parentId && one.name === other.name;
}
