/** Whether messages were answered: of one message in a chat, and of all in the organisation. Events tell it for numbers of a
 * log; what they tell only in part (a draft's words, when an answer is due) is read with a page of the chat. */

import type { ChatObligation, SnapshotUnanswered } from "../wire";
import type { Chat, Line } from "./model";
import type { Obligation, ObligationState, Unanswered } from "./obligations";

/** What an event says of messages from `first` to `last`; `seq` is the event's own number. */
export interface ObligationUpdate {
  seq: number;
  first: number;
  last: number;
  what: ObligationState | "handed_over" | "acked" | "drafted" | "undrafted" | "forgotten";
  reason: string | null;
}

/** Later ones win where two are true; the last two are ends. */
const ORDER: readonly ObligationState[] = ["open", "answered_outside", "overdue", "declined", "answered"];
const BLANK: Obligation = { state: "open", dueAt: null, draft: null, reason: null, template: null, form: null, tokens: null };

/** A word of a newer server counts as open: nothing shows that the message was answered. */
export function obligationStateOf(word: string): ObligationState {
  return ORDER.find((each) => each === word) ?? "open";
}

/** Ticks that say something of answers. */
export function isObligationTick(tick: string): tick is ObligationState | "handed_over" | "acked" | "forgotten" {
  return tick === "handed_over" || tick === "acked" || tick === "forgotten" || ORDER.some((each) => each === tick);
}

export function isSettled(state: ObligationState): boolean {
  return state === "answered" || state === "declined";
}

export function obligationOf(told: ChatObligation | undefined): Obligation | null {
  if (told === undefined) return null;
  return {
    state: obligationStateOf(told.state),
    dueAt: told.due_at ?? null,
    draft: told.draft ?? null,
    reason: told.reason ?? null,
    template: told.template ?? null,
    form: told.form ?? null,
    tokens: told.tokens ?? null,
  };
}

/** The chat after an event about some of its messages; the same object if it has none of them. */
export function withObligationUpdate(chat: Chat, told: ObligationUpdate): Chat {
  const takes = (line: Line): boolean => line.author === "user" && line.seq >= told.first && line.seq <= told.last;
  if (!chat.lines.some(takes)) return chat;
  return { ...chat, lines: chat.lines.map((line) => (takes(line) ? updateLine(line, told) : line)) };
}

function updateLine(line: Line, { seq, what, reason }: ObligationUpdate): Line {
  const known = line.obligation;
  // What is handled was handed over; mostly that was told before.
  if (what === "acked") return known === null ? { ...line, lastEventSeq: seq, complete: false } : line;
  // An end is told whole, but for what the page already knows of it.
  const whole = known !== null && (what === "answered" || what === "declined") ? line.complete : false;
  if (what === "forgotten") return line;
  if (what === "handed_over" || what === "drafted") return { ...line, lastEventSeq: seq, complete: whole };
  if (what === "undrafted") return known === null ? { ...line, lastEventSeq: seq, complete: whole } : { ...line, lastEventSeq: seq, complete: whole, obligation: withoutDraft(known) };
  const before = known ?? BLANK;
  const ahead = ORDER.indexOf(before.state) > ORDER.indexOf(what);
  const next = ahead ? before : { ...before, state: what, reason: what === "declined" ? reason : before.reason };
  return { ...line, lastEventSeq: seq, complete: whole, obligation: isSettled(next.state) ? { ...next, draft: null } : next };
}

function withoutDraft(known: Obligation): Obligation {
  return { ...known, draft: null, state: known.state === "answered_outside" ? "open" : known.state };
}

/** The newest line of which only a part is known, and the number of the one behind it, before which a page ends with it. */
export function incompleteLine(chat: Chat): { line: Line; before: number | undefined } | null {
  const at = chat.lines.findLastIndex((line) => !line.complete);
  const line = chat.lines[at];
  return line === undefined ? null : { line, before: chat.lines[at + 1]?.seq };
}

const NONE: Unanswered = { overdue: new Set(), outside: new Set() };

export function unansweredOf({ overdue, outside }: SnapshotUnanswered): Unanswered {
  return { overdue: new Set(overdue), outside: new Set(outside) };
}

/** What waits after an event; null if nothing does. */
export function unansweredAfter(known: Unanswered | undefined, { first, last, what }: ObligationUpdate): Unanswered | null {
  const before = known ?? NONE;
  const within = (seq: number): boolean => seq >= first && seq <= last;
  const next: Unanswered =
    what === "overdue"
      ? { ...before, overdue: new Set([...before.overdue, first]) }
      : what === "drafted"
        ? { ...before, outside: new Set([...before.outside, first]) }
        : what === "undrafted"
          ? { ...before, outside: without(before.outside, within) }
          : what === "answered" || what === "declined" || what === "forgotten"
            ? { overdue: without(before.overdue, within), outside: without(before.outside, within) }
            : before;
  return countUnanswered(next) === 0 ? null : next;
}

function without(seqs: ReadonlySet<number>, gone: (seq: number) => boolean): ReadonlySet<number> {
  const left = [...seqs].filter((seq) => !gone(seq));
  return left.length === seqs.size ? seqs : new Set(left);
}

export function countUnanswered(waits: Unanswered | undefined): number {
  if (waits === undefined) return 0;
  let count = waits.overdue.size;
  for (const seq of waits.outside) if (!waits.overdue.has(seq)) count += 1;
  return count;
}
