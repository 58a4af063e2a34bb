/** The items of a conversation as one list: days, messages, unsent messages, and the "new" mark. */

import { dayHeading, dayKey } from "../../core/text/time";
import type { Approval, PlacedApproval } from "../../core/state/approvals";
import { lastAttempts, type Delegation } from "../../core/state/delegations";
import { isMessageLine, type Choice, type Delivery, type Line, type MessageLine } from "../../core/state/model";
import type { Obligation } from "../../core/state/obligations";
import type { UnsentMessage } from "../../core/session/outbox";

export type Tick = Delivery | "sending" | "not_sent";

export interface Message {
  kind: "message";
  /** The same before and after the server has the message, so that its element stays. */
  key: string;
  /** Null while only this page has it. */
  id: string | null;
  clientId: string | null;
  author: "user" | "agent";
  userName: string | null;
  text: string;
  at: string;
  seq: number | null;
  attachments: Line["attachments"];
  tick: Tick | null;
  /** Why it was not sent or cannot be delivered. */
  reason: string | null;
  obligation: Obligation | null;
  options: readonly string[];
  /** The message that a reply quotes. */
  replyTo: string | null;
  /** Follows a message of the same author within a short time. */
  joined: boolean;
}

/** A delegation by the agent: one element from its first event to the answer. */
export interface DelegationEntry {
  kind: "delegation";
  key: string;
  delegation: Delegation;
  /** Belongs to the group above it. */
  inGroup: boolean;
}

/** The heading of the delegations that the agent made without a message in between. They follow it if it is open. */
export interface GroupEntry {
  kind: "group";
  key: string;
  delegations: readonly Delegation[];
  isOpen: boolean;
}

/** An approval: one element from the request to the decision. */
export interface ApprovalEntry {
  kind: "approval";
  key: string;
  approval: Approval;
  /** Since when it belongs to this chat. */
  at: string;
}

export type Item = Message | DelegationEntry | GroupEntry | ApprovalEntry | { kind: "day"; key: string; heading: string } | { kind: "new"; key: string };

/** Messages of one author within this time are grouped. */
const JOIN_MS = 5 * 60_000;

export interface Shown {
  lines: readonly Line[];
  unsent: readonly UnsentMessage[];
  delegations: ReadonlyMap<string, Delegation>;
  /** In order of time, within the shown lines. */
  approvals?: readonly PlacedApproval[];
  /** Whether a group shows its delegations. */
  isGroupOpen?: (key: string, delegations: readonly Delegation[]) => boolean;
  /** The "new" mark precedes the first of the agent's messages after this seq. */
  newAfter: number | null;
  now: number;
  zone?: string;
}

type Entry = Message | DelegationEntry | GroupEntry | ApprovalEntry;

export function conversationItems({ lines, unsent, delegations, approvals = [], isGroupOpen = () => false, newAfter, now, zone }: Shown): Item[] {
  const items: Item[] = [];
  let before: Message | null = null;
  let day = "";
  let marked = newAfter === null;
  const dayOf = (one: Entry): string => dayKey(Date.parse(timeOf(one)), zone);
  const entries = withApprovals(lines.flatMap((line) => itemOf(line, delegations)), approvals);
  for (const one of [...withGroups(entries, dayOf, isGroupOpen), ...waiting(lines, unsent)]) {
    const ownDay = dayOf(one);
    const newDay = ownDay !== day;
    if (newDay) items.push({ kind: "day", key: `day ${ownDay}`, heading: dayHeading(timeOf(one), now, zone) });
    day = ownDay;
    const isNew = !marked && one.kind === "message" && one.author === "agent" && (one.seq ?? 0) > (newAfter ?? 0);
    if (isNew) items.push({ kind: "new", key: "new" });
    marked ||= isNew;
    // After a delegation the author is named again.
    before = one.kind !== "message" ? null : { ...one, joined: !newDay && !isNew && joins(before, one) };
    items.push(before ?? one);
  }
  return items;
}

/** Delegations of a day with no message in between become a group, if there are several besides repeated attempts. Approvals
 * among them follow it. */
function withGroups(entries: readonly (Message | DelegationEntry | ApprovalEntry)[], dayOf: (one: Entry) => string, isOpen: NonNullable<Shown["isGroupOpen"]>): Entry[] {
  const items: Entry[] = [];
  let run: DelegationEntry[] = [];
  let among: ApprovalEntry[] = [];
  const end = (): void => {
    const [first] = run;
    const delegations = run.map(({ delegation }) => delegation);
    if (first !== undefined && lastAttempts(delegations).length > 1) {
      const key = `group ${first.key}`;
      const open = isOpen(key, delegations);
      items.push({ kind: "group", key, delegations, isOpen: open });
      if (open) items.push(...run.map((each) => ({ ...each, inGroup: true })));
    } else items.push(...run);
    items.push(...among);
    [run, among] = [[], []];
  };
  for (const one of entries) {
    const [first] = run;
    if (first !== undefined && (one.kind === "message" || dayOf(one) !== dayOf(first))) end();
    if (one.kind === "delegation") run.push(one);
    else if (one.kind === "approval" && run.length > 0) among.push(one);
    else items.push(one);
  }
  end();
  return items;
}

function timeOf(one: Entry): string {
  if (one.kind === "group") return one.delegations[0]?.createdAt ?? "";
  return one.kind === "delegation" ? one.delegation.createdAt : one.at;
}

/** Merge both: lines keep their order, and an approval precedes the first line that is newer. */
function withApprovals(lines: readonly (Message | DelegationEntry)[], approvals: readonly PlacedApproval[]): (Message | DelegationEntry | ApprovalEntry)[] {
  const items: (Message | DelegationEntry | ApprovalEntry)[] = [];
  let next = 0;
  const put = (until: string | null): void => {
    for (let one = approvals[next]; one !== undefined && (until === null || one.at < until); one = approvals[next]) {
      items.push({ kind: "approval", key: `approval ${one.approval.id}`, ...one });
      next += 1;
    }
  };
  for (const line of lines) {
    put(timeOf(line));
    items.push(line);
  }
  put(null);
  return items;
}

function joins(before: Message | null, message: Message): boolean {
  if (before === null || before.author !== message.author || before.userName !== message.userName) return false;
  return Date.parse(message.at) - Date.parse(before.at) < JOIN_MS;
}

/** Null for a delegation that is no longer kept. */
function itemOf(line: Line, delegations: ReadonlyMap<string, Delegation>): (Message | DelegationEntry)[] {
  if (isMessageLine(line)) return [ofLine(line)];
  const delegation = delegations.get(line.delegationId ?? "");
  return delegation === undefined ? [] : [{ kind: "delegation", key: keyOf(line), delegation, inGroup: false }];
}

function ofLine(line: MessageLine): Message {
  return {
    kind: "message",
    key: keyOf(line),
    id: line.id,
    clientId: line.clientId,
    author: line.author,
    userName: line.userName,
    text: line.text,
    at: line.at,
    seq: line.seq,
    attachments: line.attachments,
    tick: line.delivery,
    reason: line.problem,
    obligation: line.obligation,
    options: line.options,
    replyTo: line.replyTo,
    joined: false,
  };
}

export function keyOf(line: Pick<Line, "id" | "clientId">): string {
  return line.clientId ?? line.id;
}

function waiting(lines: readonly Line[], unsent: readonly UnsentMessage[]): Message[] {
  if (unsent.length === 0) return [];
  const known = new Set(lines.map((line) => line.clientId));
  return unsent
    .filter((entry) => !known.has(entry.clientId))
    .map((entry) => ({
      kind: "message",
      key: entry.clientId,
      id: null,
      clientId: entry.clientId,
      author: "user",
      userName: null,
      text: entry.text,
      at: entry.at,
      seq: null,
      attachments: entry.files,
      tick: entry.state,
      reason: entry.reason,
      obligation: null,
      options: [],
      replyTo: entry.replyTo,
      joined: false,
    }));
}

/** The chosen option of each question; the first one counts. */
export function choicesOf(lines: readonly Line[], unsent: readonly UnsentMessage[]): ReadonlyMap<string, number> {
  const choices = [...lines, ...unsent].map(({ choice }) => choice).filter((choice): choice is Choice => choice !== null);
  return new Map(choices.reverse().map(({ of, option }) => [of, option]));
}
