/** Approvals. Lists, snapshots and events each contain the whole approval; the one with the most changes counts, in whatever
 * order they arrive, and a closed one stays closed. */

import { list, members, number, text, type Members } from "./json";
import { memoized } from "../store/memoized";

const RANK = { pending: 0, info_requested: 0, approved: 1, denied: 1, expired: 1, withdrawn: 1 } as const;

export type ApprovalStatus = keyof typeof RANK;

export type Verdict = "approve" | "deny" | "escalate" | "more_info";

/** A decision as a person enters it. */
export interface DecisionInput {
  verdict: Verdict;
  note: string;
  /** Edited details; null: as requested. */
  details: Members | null;
}

/** A party of an approval. `kind`: person, workspace, rule, clock, server, requester or none. */
export interface Party {
  kind: string;
  id: string | null;
  name: string;
}

/** One step of the escalation path. */
export interface PathStep {
  at: string;
  what: string;
  by: Party;
  /** For `asked`: who was asked; for `escalated`: the previous holder. */
  holder: Party | null;
  why: string;
  note: string;
}

export interface Decision {
  decision: string;
  by: Party;
  /** Short name of the credential that was used. */
  session: string | null;
  at: string;
  note: string;
  edited: boolean;
}

export interface Approval {
  id: string;
  /** The requesting workspace. */
  workspaceId: string;
  requesterName: string;
  action: string;
  reason: string;
  /** What is decided on: `edited` if a person has edited it, otherwise `proposed`. */
  details: Members;
  proposed: Members;
  edited: Members | null;
  cost: number | null;
  status: ApprovalStatus;
  /** Rises when the details change. */
  revision: number;
  actionHash: string;
  holder: Party;
  forPerson: boolean;
  source: string;
  tool: string | null;
  risk: readonly string[];
  createdAt: string;
  expiresAt: string;
  levelDeadline: string | null;
  decided: Decision | null;
  usedAt: string | null;
  policy: readonly { kind: string; text: string }[];
  path: readonly PathStep[];
  /** Counts all changes. */
  seq: number;
}

export type Approvals = ReadonlyMap<string, Approval>;

/** Upper bound; closed ones are dropped first. */
export const MAX_KEPT = 2_000;
/** Dropped in batches, since finding candidates costs a full scan. */
const DROP_COUNT = 100;

export function isPending({ status }: Pick<Approval, "status">): boolean {
  return RANK[status] === 0;
}

/** Whether it is pending with a person who has been notified. */
export function waitsForPerson({ status, forPerson }: Pick<Approval, "status" | "forPerson">): boolean {
  return status === "pending" && forPerson;
}

/** Parse an approval; null if its shape is unknown. */
export function approvalOf(value: unknown): Approval | null {
  const [id, workspaceId, status] = [text(value, "approval_id"), text(value, "workspace_id"), text(value, "status")];
  const [seq, revision, createdAt] = [number(value, "seq"), number(value, "revision"), text(value, "created_at")];
  if (id === null || workspaceId === null || !isStatus(status) || seq === null || revision === null || createdAt === null) return null;
  const details = members(members(value)?.["details"]) ?? {};
  const requesterName = text(value, "requester_name") ?? workspaceId;
  const nameOf = namesIn(value, workspaceId, requesterName);
  return {
    id,
    workspaceId,
    requesterName,
    action: text(value, "action") ?? "",
    reason: text(value, "reason") ?? "",
    details,
    proposed: members(members(value)?.["proposed"]) ?? details,
    edited: members(members(value)?.["edited"]),
    cost: number(value, "cost"),
    status,
    revision,
    actionHash: text(value, "action_hash") ?? "",
    holder: partyOf(members(value)?.["holder"], nameOf),
    forPerson: members(value)?.["for_person"] === true,
    source: text(value, "source") ?? "",
    tool: text(value, "tool"),
    risk: list(value, "risk").filter((each) => typeof each === "string"),
    createdAt,
    expiresAt: text(value, "expires_at") ?? "",
    levelDeadline: text(value, "level_deadline"),
    decided: decisionOf(members(value)?.["decided"], nameOf),
    usedAt: text(value, "used_at"),
    policy: list(value, "policy").map((each) => ({ kind: text(each, "kind") ?? "", text: text(each, "text") ?? "" })),
    path: list(value, "path").map((step) => pathStepOf(step, nameOf)),
    seq,
  };
}

function isStatus(word: string | null): word is ApprovalStatus {
  return word !== null && Object.hasOwn(RANK, word);
}

type NameOf = (id: string) => string | undefined;

/** A requesting agent is named by id alone; its name is in the request. */
function namesIn(value: unknown, requesterId: string, requesterName: string): NameOf {
  const names = new Map([[requesterId, requesterName]]);
  for (const step of list(value, "path")) {
    const [id, name] = [text(step, "holder", "id"), text(step, "holder", "name")];
    if (id !== null && name !== null && name !== "") names.set(id, name);
  }
  return (id) => names.get(id);
}

function partyOf(value: unknown, nameOf: NameOf): Party {
  const [id, name] = [text(value, "id") ?? text(value, "workspace_id"), text(value, "name") ?? ""];
  return { kind: text(value, "kind") ?? "none", id, name: name === "" ? (nameOf(id ?? "") ?? "") : name };
}

function pathStepOf(value: unknown, nameOf: NameOf): PathStep {
  const holder = members(value)?.["holder"];
  return {
    at: text(value, "at") ?? "",
    what: text(value, "what") ?? "",
    by: partyOf(members(value)?.["by"], nameOf),
    holder: members(holder) === null ? null : partyOf(holder, nameOf),
    why: text(value, "why") ?? "",
    note: text(value, "note") ?? "",
  };
}

function decisionOf(value: unknown, nameOf: NameOf): Decision | null {
  const [decision, by] = [text(value, "decision"), members(value)?.["by"]];
  if (decision === null) return null;
  const edited = members(value)?.["edited"] === true;
  return { decision, by: partyOf(by, nameOf), session: text(by, "session"), at: text(value, "at") ?? "", note: text(value, "note") ?? "", edited };
}

/** The later of two versions of one approval. */
export function laterApproval(known: Approval | undefined, update: Approval): Approval {
  if (known === undefined) return update;
  const ahead = RANK[update.status] - RANK[known.status] || update.seq - known.seq;
  return ahead > 0 ? update : known;
}

/** The table with these approvals, within its bound; the same object if nothing is new. */
export function withApprovals(all: Approvals, updates: readonly Approval[]): Approvals {
  let next: Map<string, Approval> | null = null;
  for (const each of updates) {
    const known = (next ?? all).get(each.id);
    const later = laterApproval(known, each);
    if (later !== known) (next ??= new Map(all)).set(each.id, later);
  }
  if (next !== null && next.size > MAX_KEPT + DROP_COUNT) shrink(next);
  return next ?? all;
}

function shrink(all: Map<string, Approval>): void {
  const age = (each: Approval): string => (isPending(each) ? "1" : "0") + each.createdAt;
  const oldest = [...all.values()].sort((one, other) => (age(one) < age(other) ? -1 : 1));
  for (const { id } of oldest.slice(0, all.size - MAX_KEPT)) all.delete(id);
}

/** What stays when a snapshot arrives: it contains all pending ones and none of the closed ones. */
export function withoutPending(all: Approvals): Approvals {
  return new Map([...all].filter(([, each]) => !isPending(each)));
}

function byAge(one: Approval, other: Approval): number {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt ? -1 : 1;
  return one.id < other.id ? -1 : 1;
}

/** The lists of the inbox. */
export const LISTS = ["waiting", "open", "decided", "all"] as const;
export type ListName = (typeof LISTS)[number];

/** `waiting` and `open`: oldest first. `decided` and `all`: newest first. */
export const approvalLists = memoized((all: Approvals): Readonly<Record<ListName, readonly Approval[]>> => {
  const ordered = [...all.values()].sort(byAge);
  const endedAt = ({ decided, path, createdAt }: Approval): string => decided?.at ?? path.at(-1)?.at ?? createdAt;
  const ended = ordered.filter((each) => !isPending(each)).sort((one, other) => (endedAt(one) > endedAt(other) ? -1 : 1));
  return { waiting: ordered.filter(waitsForPerson), open: ordered.filter(isPending), decided: ended, all: ordered.toReversed() };
});

/** An approval in a chat, with the time since which it belongs there. */
export interface PlacedApproval {
  approval: Approval;
  at: string;
}

/** The approvals of a chat that fall between the shown lines. */
export function placedWithin(all: readonly PlacedApproval[], lines: readonly { at: string }[], { atBegin, atEnd }: { atBegin: boolean; atEnd: boolean }): readonly PlacedApproval[] {
  const [first, last] = [lines[0]?.at ?? "", lines.at(-1)?.at ?? ""];
  return all.filter(({ at }) => (atBegin || at >= first) && (atEnd || at <= last));
}

/** By workspace: approvals that it requested or was asked to decide, in order of time. */
export const approvalsByWorkspace = memoized((all: Approvals): ReadonlyMap<string, readonly PlacedApproval[]> => {
  const found = new Map<string, PlacedApproval[]>();
  for (const approval of all.values()) {
    const since = new Map([[approval.workspaceId, approval.createdAt]]);
    for (const { what, holder, at } of approval.path) {
      if (what === "asked" && holder?.kind === "workspace" && holder.id !== null && !since.has(holder.id)) since.set(holder.id, at);
    }
    for (const [id, at] of since) void (found.get(id)?.push({ approval, at }) ?? found.set(id, [{ approval, at }]));
  }
  for (const each of found.values()) each.sort((one, other) => (one.at === other.at ? byAge(one.approval, other.approval) : one.at < other.at ? -1 : 1));
  return found;
});
