/** What the page knows of an organisation. Values are never changed in place: what is new is another object. */

import type { SnapshotLimits, SnapshotOrg, SnapshotWorkspace, SessionUser } from "../wire";
import type { Approvals } from "./approvals";
import type { Delegation } from "./delegations";
import type { Obligation, Unanswered } from "./obligations";

/** A workspace. `reported_at`: the time of the last event about it on this page; what its agent said before is old. */
export interface Workspace extends SnapshotWorkspace {
  reported_at: string | null;
}

/** The place of a workspace in the tree. Only when one of these changes is the picture laid out anew. */
export interface OrgNode {
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
  /** `work`: nobody wrote it; the agent gave work to another one. */
  author: "user" | "agent" | "work";
  text: string;
  at: string;
  seq: number;
  userName: string | null;
  attachments: readonly Attachment[];
  /** Null for what an agent wrote. */
  delivery: Delivery | null;
  /** Why it cannot be delivered. */
  problem: string | null;
  /** Whether a person's message was answered; null for what an agent wrote, and for what needs no answer. */
  obligation: Obligation | null;
  /** What is known of its way and its answer was true at the event of this number, or later. */
  lastEventSeq: number;
  /** Nothing of it was told in part only. */
  complete: boolean;
  /** Of an agent's question: what it lets choose. */
  options: readonly string[];
  /** Of a person's answer to one: what was chosen. */
  choice: Choice | null;
  /** Of work that was given to another agent: which; all else of it is in the state's table. Null for messages. */
  delegationId: string | null;
}

/** What somebody wrote. */
export type MessageLine = Line & { author: "user" | "agent" };

export function isMessageLine(line: Line): line is MessageLine {
  return line.author !== "work";
}

/** A delegation that a guard stopped before it began. */
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
  /** How messages name it; null while only this page has it. */
  uri: string | null;
  /** What its sender says that it is. */
  type: string | null;
}

export interface Chat {
  unread: number;
  readSeq: number;
  /** What the snapshot has counted in `unread` goes up to here. */
  countedSeq: number;
  last: Pick<MessageLine, "id" | "author" | "text" | "at" | "seq"> | null;
  lines: readonly Line[];
  /** The newest page was read, so that `lines` has no hole up to its end. */
  loaded: boolean;
  /** Behind the line of this number some may be missing, whatever came since; null: nowhere. */
  holeAfter: number | null;
  /** Nothing older than `lines` exists. */
  reachedEnd: boolean;
}

export interface State {
  epoch: string;
  /** The seq of the last event that is in here. */
  last: number;
  org: SnapshotOrg;
  user: SessionUser;
  limits: SnapshotLimits;
  workspaces: ReadonlyMap<string, Workspace>;
  orgNodes: ReadonlyMap<string, OrgNode>;
  chats: ReadonlyMap<string, Chat>;
  /** By workspace: messages that wait although an answer was due; who has none is not in it. */
  unanswered: ReadonlyMap<string, Unanswered>;
  /** Open delegations, and ended ones that this page has seen. */
  delegations: ReadonlyMap<string, Delegation>;
  /** Approvals that are open, and ended ones that this page has seen. */
  approvals: Approvals;
  /** The last delegations that guards stopped while this page was open. */
  refused: readonly RefusedDelegation[];
  /** So long without a sign of life, and work is shown as stuck. */
  stuckSeconds: number;
  /** Revisions of removed workspaces: a late event must not bring one back. */
  removed: ReadonlyMap<string, number>;
  /** Events whose name or shape this page does not know. */
  unknownEvents: number;
}

/** What is known of a message when it is new. */
export const NEW_MESSAGE = { obligation: null, lastEventSeq: 0, complete: true, options: [], choice: null, delegationId: null } satisfies Partial<Line>;

/** The server stops counting there, and so does the page; it shows "99+". */
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
