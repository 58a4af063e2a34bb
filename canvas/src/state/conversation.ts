/** What a conversation shows, as one list: days, messages, messages on their way, and where the new ones begin. */

import { dayHeading, dayKey } from "../text/time";
import type { Delivery, Line } from "./model";
import type { Unsent } from "./outbox";

export type Tick = Delivery | "sending" | "not_sent";

export interface Message {
  kind: "message";
  /** The same before and after the server has it, so that it stays the same element. */
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
  /** Why it was not sent, or cannot be delivered. */
  reason: string | null;
  /** Goes on from the one above: same author, shortly after. */
  joined: boolean;
}

export type Item = Message | { kind: "day"; key: string; heading: string } | { kind: "new"; key: string };

/** Messages of one author within this time stand together. */
const JOIN_MS = 5 * 60_000;

export interface Shown {
  lines: readonly Line[];
  unsent: readonly Unsent[];
  /** The "new" mark goes above the first of the agent's messages behind this seq. */
  newAfter: number | null;
  now: number;
  zone?: string;
}

export function conversationItems({ lines, unsent, newAfter, now, zone }: Shown): Item[] {
  const items: Item[] = [];
  let before: Message | null = null;
  let day = "";
  let marked = newAfter === null;
  for (const message of [...lines.map(ofLine), ...waiting(lines, unsent)]) {
    const ownDay = dayKey(Date.parse(message.at), zone);
    const newDay = ownDay !== day;
    if (newDay) items.push({ kind: "day", key: `day ${ownDay}`, heading: dayHeading(message.at, now, zone) });
    const isNew = !marked && message.author === "agent" && (message.seq ?? 0) > (newAfter ?? 0);
    if (isNew) items.push({ kind: "new", key: "new" });
    marked ||= isNew;
    day = ownDay;
    before = { ...message, joined: !newDay && !isNew && joins(before, message) };
    items.push(before);
  }
  return items;
}

function joins(before: Message | null, message: Message): boolean {
  if (before === null || before.author !== message.author || before.userName !== message.userName) return false;
  return Date.parse(message.at) - Date.parse(before.at) < JOIN_MS;
}

function ofLine(line: Line): Message {
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
    reason: line.trouble,
    joined: false,
  };
}

export function keyOf(line: Pick<Line, "id" | "clientId">): string {
  return line.clientId ?? line.id;
}

function waiting(lines: readonly Line[], unsent: readonly Unsent[]): Message[] {
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
      joined: false,
    }));
}
