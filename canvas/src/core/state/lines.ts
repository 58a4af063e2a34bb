/** The lines of one chat, built by the same functions from history, live events and snapshots. */

import type { ChatMessage, EventFrame, TimelineDelegation, TimelineMessage } from "../wire";
import { obligationOf } from "./obligationUpdates";
import type { Delegation } from "./delegations";
import { deliveryOf } from "./delivery";
import { EMPTY_CHAT, isMessageLine, MAX_UNREAD, NEW_MESSAGE, type Attachment, type Chat, type Choice, type Line, type MessageLine } from "./model";
import { at, list, number, text } from "./json";

/** A chat that was never opened keeps no more lines than this; its history is read on opening. */
const MAX_UNOPENED = 50;
/** The server cuts the last message in a snapshot to this many characters, on one line. */
const HEAD_LENGTH = 80;

function lineOfHistory(message: ChatMessage): MessageLine {
  return {
    ...NEW_MESSAGE,
    id: message.id,
    clientId: message.client_id ?? null,
    author: message.role === "agent" ? "agent" : "user",
    text: message.content,
    at: message.timestamp,
    seq: message.seq,
    userName: message.user ?? null,
    attachments: (message.attachments ?? []).map(attachment),
    delivery: message.role === "agent" ? null : deliveryOf(message.delivery),
    problem: message.trouble ?? null,
    obligation: message.role === "agent" ? null : obligationOf(message.obligation),
    options: message.options ?? [],
    choice: choiceOf(message.option_of ?? null, message.option ?? null),
    replyTo: message.in_reply_to ?? null,
  };
}

export function lineOfUserEvent(frame: EventFrame): MessageLine | null {
  const seq = number(frame.payload, "seq");
  const message = at(frame.payload, "request_body", "params", "message");
  if (seq === null || message === undefined) return null;
  const parts = list(message, "parts");
  return {
    ...NEW_MESSAGE,
    id: frame.entity.id,
    clientId: frame.client_id ?? null,
    author: "user",
    text: parts.map((part) => (text(part, "kind") === "text" ? text(part, "text") : null)).filter(isText).join("\n"),
    at: frame.timestamp,
    seq,
    userName:
      text(frame.payload, "request_body", "params", "metadata", "username") ??
      text(message, "metadata", "username"),
    attachments: parts.filter((part) => text(part, "kind") === "file").map((part) => attachment(at(part, "file"))),
    delivery: "stored",
    problem: null,
    choice: choiceOf(text(message, "metadata", "option_of"), number(message, "metadata", "option")),
    replyTo: text(message, "metadata", "in_reply_to"),
  };
}

export function lineOfAgentEvent(frame: EventFrame): MessageLine | null {
  const seq = number(frame.payload, "seq");
  const message = text(frame.payload, "message");
  if (seq === null || message === null) return null;
  return {
    ...NEW_MESSAGE,
    id: frame.entity.id,
    clientId: null,
    author: "agent",
    text: message,
    at: frame.timestamp,
    seq,
    userName: null,
    attachments: list(frame.payload, "attachments").map(attachment),
    delivery: null,
    problem: null,
    options: list(frame.payload, "options").filter((each) => typeof each === "string"),
  };
}

/** The line of a delegation in the chat of the delegating agent. */
export function lineOfDelegation({ id, createdAt, seq }: Pick<Delegation, "id" | "createdAt" | "seq">): Line {
  return {
    ...NEW_MESSAGE,
    id,
    clientId: null,
    author: "work",
    text: "",
    at: createdAt,
    seq,
    userName: null,
    attachments: [],
    delivery: null,
    problem: null,
    delegationId: id,
  };
}

function choiceOf(of: string | null, option: number | null): Choice | null {
  return of === null || option === null ? null : { of, option };
}

function isText(value: string | null): value is string {
  return value !== null;
}

export function attachment(value: unknown): Attachment {
  const type = text(value, "mime_type") ?? text(value, "mimeType");
  return { name: text(value, "name") ?? "file", size: number(value, "size"), uri: text(value, "uri"), type };
}

/** The chat with one more, new line. */
export function withLine(chat: Chat | undefined, line: Line): Chat {
  const known = chat ?? EMPTY_CHAT;
  if (!isMessageLine(line)) return withLines(known, merge(known.lines, [line], EVENT));
  const unreadNow = line.author === "agent" && line.seq > Math.max(known.readSeq, known.countedSeq) && !holds(known, line);
  const lines = merge(known.lines, [line], EVENT);
  return {
    ...withLines(known, lines),
    unread: unreadNow ? Math.min(known.unread + 1, MAX_UNREAD) : known.unread,
    last: known.last !== null && known.last.seq > line.seq ? known.last : headOf(line),
  };
}

function withLines(chat: Chat, lines: readonly Line[]): Chat {
  const kept = chat.loaded ? lines : lines.slice(-MAX_UNOPENED);
  return { ...chat, lines: kept, reachedEnd: chat.reachedEnd && kept.length === lines.length };
}

function holds(chat: Chat, line: Line): boolean {
  return chat.lines.some((each) => each.id === line.id);
}

export function headOf(line: Pick<MessageLine, "id" | "author" | "text" | "at" | "seq">): NonNullable<Chat["last"]> {
  return { id: line.id, author: line.author, text: beginning(line.text), at: line.at, seq: line.seq };
}

function beginning(whole: string): string {
  const letters = [...whole.slice(0, HEAD_LENGTH * 8)].slice(0, HEAD_LENGTH * 4).join("");
  const line = [...letters.split(/\s+/).filter(Boolean).join(" ")];
  return line.length <= HEAD_LENGTH ? line.join("") : `${line.slice(0, HEAD_LENGTH - 1).join("")}…`;
}

/** A page of a chat's history. `since`: sequence number of the last event before the request. */
export interface Page {
  items: readonly (TimelineMessage | TimelineDelegation)[];
  reachedEnd: boolean;
  isNewest: boolean;
  since: number;
}

function lineOfItem(item: TimelineMessage | TimelineDelegation): Line {
  if (item.kind === "message") return lineOfHistory(item);
  return lineOfDelegation({ id: item.delegation_id, createdAt: item.created_at, seq: item.seq });
}

/** The chat with a page of its history. A page that does not reach the known lines replaces them if they end in a gap. */
export function withPage(chat: Chat | undefined, { items, reachedEnd, isNewest, since }: Page): Chat {
  const known = chat ?? EMPTY_CHAT;
  const lines = items.map((item) => ({ ...lineOfItem(item), lastEventSeq: since }));
  const ids = new Set(lines.map((line) => line.id));
  const lastOfPage = lines.at(-1)?.seq ?? 0;
  const firstOfPage = lines[0]?.seq ?? 0;
  const touches = known.loaded || known.lines.some((line) => line.seq <= (known.holeAfter ?? Infinity) && ids.has(line.id));
  const kept = touches ? known.lines : known.lines.filter((line) => line.seq >= firstOfPage);
  const isRead = (line: Line): boolean => line.lastEventSeq <= since && (isNewest || line.seq <= lastOfPage) && line.seq >= (reachedEnd ? 0 : firstOfPage);
  // A line that the page should contain and does not was pruned; there is nothing more to read of it.
  const rest = kept.map((line) => (line.complete || !isRead(line) ? line : { ...line, complete: true }));
  const all = merge(rest, lines, since);
  const pageIsOldest = lines.length === 0 || all[0]?.id === lines[0]?.id;
  // What is newer than everything known is new; its event arrives later and counts no line twice.
  const lastKnown = known.last?.seq ?? 0;
  const newest = lines.findLast(isMessageLine);
  const unread = lines.filter((line) => line.author === "agent" && line.seq > Math.max(lastKnown, known.readSeq)).length;
  return {
    ...known,
    unread: Math.min(known.unread + unread, MAX_UNREAD),
    last: newest !== undefined && newest.seq > lastKnown ? headOf(newest) : known.last,
    lines: all,
    loaded: known.loaded || isNewest,
    holeAfter: isNewest ? null : known.holeAfter,
    reachedEnd: pageIsOldest ? reachedEnd : known.reachedEnd,
  };
}

/** Merge two versions of one message. Delivery and obligation come from the later one. */
function both(known: Line | undefined, line: Line, since: number): Line {
  if (known === undefined) return line;
  const { delivery, problem, obligation, lastEventSeq, complete } = known.lastEventSeq > since ? known : line;
  return { ...line, delivery, problem, obligation, lastEventSeq, complete, clientId: line.clientId ?? known.clientId };
}

/** Message events contain neither delivery nor obligation. */
const EVENT = -1;

/** Merge by seq, each message once. */
function merge(known: readonly Line[], more: readonly Line[], since: number): readonly Line[] {
  const last = known.at(-1);
  const first = more[0];
  if (more.length === 1 && first !== undefined && (last === undefined || last.seq < first.seq)) return [...known, first];
  const byId = new Map(known.map((line) => [line.id, line]));
  for (const line of more) byId.set(line.id, both(byId.get(line.id), line, since));
  return [...byId.values()].sort((one, other) => one.seq - other.seq);
}

/** The chat after pruning. `kept`: seqs of the agent's remaining lines. Lines on the page stay. */
export function withKept(chat: Chat, kept: readonly number[]): Chat {
  return { ...chat, unread: Math.min(kept.filter((seq) => seq > chat.readSeq).length, MAX_UNREAD) };
}

/** The chat with everything of the agent after `seq` unread. `unread`: how much that is, where the page does not have it all. */
export function unreadAfter(chat: Chat, seq: number, unread = 0): Chat {
  if (seq >= chat.readSeq) return chat;
  const known = chat.lines.filter((line) => line.author === "agent" && line.seq > seq).length;
  const last = chat.last !== null && chat.last.author === "agent" && chat.last.seq > seq ? 1 : 0;
  return { ...chat, readSeq: seq, unread: Math.min(Math.max(known, last, unread), MAX_UNREAD) };
}

/** The seq after which the last message of the agent is unread; null if the page knows none. */
export function beforeLastAnswer({ lines, last }: Chat): number | null {
  const line = lines.findLast(({ author }) => author === "agent")?.seq ?? 0;
  const found = Math.max(line, last?.author === "agent" ? last.seq : 0);
  return found === 0 ? null : found - 1;
}

/** The chat, read up to `seq`. */
export function readUpTo(chat: Chat, seq: number): Chat {
  if (seq <= chat.readSeq) return chat;
  const behind = (chat.last?.seq ?? 0) <= seq;
  const left = chat.lines.filter((line) => line.author === "agent" && line.seq > seq).length;
  return { ...chat, readSeq: seq, unread: behind ? 0 : Math.min(chat.unread, left) };
}
