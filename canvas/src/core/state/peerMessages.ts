/** Messages between agents: the lines of a conversation of two agents, and the events about them. Pure. */

import type { ConversationPage, EventFrame, PeerMessage, TimelineDelegation } from "../wire";
import { ofHistory, type Delegation } from "./delegations";
import { deliveryOf, isFurther } from "./delivery";
import { number, text } from "./json";
import { attachment, lineOfDelegation } from "./lines";
import { NEW_MESSAGE, type Line } from "./model";
import { obligationOf } from "./obligationUpdates";

/** A line of a conversation of two agents. `seq` orders it by time: their logs have no common numbers. */
export interface PeerLine extends Line {
  sourceId: string;
  targetId: string;
  /** Kind of the message, such as `peer_agent` or `approval_request`. */
  kind: string;
  /** Sequence number in the log of the recipient. */
  logSeq: number;
  approvalId: string | null;
  /** For a delegation: as it was when it was read. */
  delegation: Delegation | null;
}

export interface PeerChat {
  lines: readonly PeerLine[];
  /** The newest page was read. */
  loaded: boolean;
  /** Nothing older exists. */
  reachedEnd: boolean;
}

export const EMPTY_PEER_CHAT: PeerChat = { lines: [], loaded: false, reachedEnd: false };

const EVENTS = new Set(["BROADCAST_MESSAGE", "MESSAGE_TICK", "MESSAGE_OVERDUE", "MESSAGE_DRAFTED", "MESSAGE_DEAD", "MESSAGE_REQUEUED"]);

/** Whether an event is about a message between agents, or may be. */
export function isPeerEvent(frame: EventFrame): boolean {
  return EVENTS.has(frame.event) || senderOf(frame) !== null;
}

/** The agent that sent the message which arrived at `frame.workspace_id`; null for all other events. */
export function senderOf({ event, workspace_id, payload }: EventFrame): string | null {
  if (event !== "ACTIVITY_LOGGED" || text(payload, "activity_type") !== "a2a_receive") return null;
  const source = text(payload, "source_id");
  return source === workspace_id ? null : source;
}

/** Whether an event adds messages to what an agent exchanged with others. */
export function isMessageOf(frame: EventFrame, workspaceId: string): boolean {
  if (frame.event === "BROADCAST_MESSAGE") return true;
  const source = senderOf(frame);
  return source !== null && (source === workspaceId || frame.workspace_id === workspaceId);
}

/** Whether an event adds messages to the conversation of two agents. */
export function isMessageBetween(frame: EventFrame, one: string, other: string): boolean {
  if (frame.event === "BROADCAST_MESSAGE") return frame.workspace_id === one || frame.workspace_id === other;
  const source = senderOf(frame);
  return (source === one && frame.workspace_id === other) || (source === other && frame.workspace_id === one);
}

/** Microseconds since 1970: the server's times are more exact than a `Date`. */
function microseconds(at: string): number {
  const fraction = /\.(\d+)/.exec(at)?.[1] ?? "";
  return Math.floor(Date.parse(at) / 1000) * 1_000_000 + Number(fraction.slice(0, 6).padEnd(6, "0"));
}

function lineOfMessage(message: PeerMessage): PeerLine {
  return {
    ...NEW_MESSAGE,
    id: message.id,
    clientId: null,
    author: "agent",
    text: message.content,
    at: message.timestamp,
    seq: microseconds(message.timestamp),
    userName: null,
    attachments: (message.attachments ?? []).map(attachment),
    delivery: deliveryOf(message.delivery),
    problem: message.trouble ?? null,
    obligation: obligationOf(message.obligation),
    sourceId: message.source_id,
    targetId: message.target_id,
    kind: message.message_kind,
    logSeq: message.seq,
    approvalId: message.approval_id ?? null,
    delegation: null,
  };
}

function lineOf(item: PeerMessage | TimelineDelegation): PeerLine {
  if (item.kind === "message") return lineOfMessage(item);
  const delegation = ofHistory(item);
  const line = lineOfDelegation({ id: delegation.id, createdAt: delegation.createdAt, seq: microseconds(delegation.createdAt) });
  const { sourceId, targetId } = delegation;
  return { ...line, sourceId, targetId, kind: "delegation", logSeq: -1, approvalId: null, delegation };
}

/** The conversation with a page of it. A newest page that does not reach the known lines replaces them. */
export function withPeerPage(chat: PeerChat, { items, reached_end }: ConversationPage, isNewest: boolean): PeerChat {
  const lines = items.map(lineOf);
  const known = new Map(chat.lines.map((line) => [line.id, line]));
  const joins = !isNewest || reached_end || lines.some((line) => known.has(line.id));
  const all = new Map(joins ? known : []);
  for (const line of lines) all.set(line.id, line);
  const sorted = [...all.values()].sort((one, other) => one.seq - other.seq || (one.id < other.id ? -1 : 1));
  const pageIsOldest = lines.length === 0 || sorted[0]?.id === lines[0]?.id;
  return {
    lines: sorted,
    loaded: chat.loaded || isNewest,
    reachedEnd: pageIsOldest ? reached_end : chat.reachedEnd,
  };
}

/** The conversation after an event about the delivery of its messages; the same object if it is about none of them. */
export function withPeerTick(chat: PeerChat, frame: EventFrame): PeerChat {
  if (!touches(chat, frame)) return chat;
  const { event, payload } = frame;
  const tick = event === "MESSAGE_DEAD" ? "dead" : event === "MESSAGE_REQUEUED" ? "stored" : text(payload, "tick");
  const delivery = deliveryOf(tick);
  const back = event === "MESSAGE_REQUEUED";
  const lines = chat.lines.map((line) => {
    if (!isTouched(line, frame) || line.delivery === null || (!back && !isFurther(delivery, line.delivery))) return line;
    return { ...line, delivery, problem: text(payload, "reason") };
  });
  return { ...chat, lines };
}

/** The id after which the page ends that has the newest line which an event is about; undefined: the newest page; null:
 * no line. */
export function pageOfTick(chat: PeerChat, frame: EventFrame, size: number): string | undefined | null {
  const at = chat.lines.findLastIndex((line) => isTouched(line, frame));
  if (at === -1) return null;
  return at >= chat.lines.length - size ? undefined : chat.lines[at + 1]?.id;
}

function touches(chat: PeerChat, frame: EventFrame): boolean {
  return chat.lines.some((line) => isTouched(line, frame));
}

function isTouched(line: PeerLine, { event, workspace_id, payload }: EventFrame): boolean {
  if (!event.startsWith("MESSAGE_") || line.targetId !== workspace_id || line.delegation !== null) return false;
  const first = number(payload, "first_seq") ?? number(payload, "seq");
  const last = number(payload, "last_seq") ?? first;
  return first !== null && last !== null && line.logSeq >= first && line.logSeq <= last;
}
