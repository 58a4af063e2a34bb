/** Whether messages were answered: for one message in a chat, and for all in the organisation. Events refer to sequence
 * numbers; what they contain only in part (draft text, due time) is read with a page of the chat. */

import type { ChatObligation, SnapshotUnanswered } from "../wire";
import type { Chat, Line } from "./model";
import type { Obligation, ObligationState, Unanswered } from "./obligations";

/** An event about the messages from `first` to `last`; `seq` is the event's own number. */
export interface ObligationUpdate {
  seq: number;
  first: number;
  last: number;
  what: ObligationState | "in_inbox" | "handed_over" | "acked" | "failed" | "drafted" | "undrafted" | "forgotten";
  reason: string | null;
}

/** Later ones win where two apply; the last two are final. */
const ORDER: readonly ObligationState[] = ["open", "answered_outside", "overdue", "declined", "answered"];
const BLANK: Obligation = { state: "open", dueAt: null, draft: null, reason: null, template: null, form: null, tokens: null };

/** An unknown state counts as open: nothing shows that the message was answered. */
export function obligationStateOf(word: string): ObligationState {
  return ORDER.find((each) => each === word) ?? "open";
}

/** Whether a tick concerns obligations. */
export function isObligationTick(tick: string): tick is ObligationState | "in_inbox" | "handed_over" | "acked" | "failed" | "forgotten" {
  return tick === "in_inbox" || tick === "handed_over" || tick === "acked" || tick === "failed" || tick === "forgotten" || ORDER.some((each) => each === tick);
}

export function isSettled(state: ObligationState): boolean {
  return state === "answered" || state === "declined";
}

export function obligationOf(update: ChatObligation | undefined): Obligation | null {
  if (update === undefined) return null;
  return {
    state: obligationStateOf(update.state),
    dueAt: update.due_at ?? null,
    draft: update.draft ?? null,
    reason: update.reason ?? null,
    template: update.template ?? null,
    form: update.form ?? null,
    tokens: update.tokens ?? null,
  };
}

/** The chat after an event about some of its messages; the same object if it has none of them. */
export function withObligationUpdate(chat: Chat, update: ObligationUpdate): Chat {
  const takes = (line: Line): boolean => line.author === "user" && line.seq >= update.first && line.seq <= update.last;
  if (!chat.lines.some(takes)) return chat;
  return { ...chat, lines: chat.lines.map((line) => (takes(line) ? updateLine(line, update) : line)) };
}

function updateLine(line: Line, { seq, what, reason }: ObligationUpdate): Line {
  const known = line.obligation;
  // An acknowledged message was claimed before; usually that is known.
  if (what === "acked") return known === null ? { ...line, lastEventSeq: seq, complete: false } : line;
  // A final event is complete, apart from what the page already knows.
  const whole = known !== null && (what === "answered" || what === "declined") ? line.complete : false;
  if (what === "forgotten") return line;
  if (what === "in_inbox" || what === "handed_over" || what === "drafted") return { ...line, lastEventSeq: seq, complete: whole };
  if (what === "undrafted") return known === null ? { ...line, lastEventSeq: seq, complete: whole } : { ...line, lastEventSeq: seq, complete: whole, obligation: withoutDraft(known) };
  const before = known ?? BLANK;
  if (what === "failed") return { ...line, lastEventSeq: seq, complete: whole, obligation: isSettled(before.state) ? before : { ...before, reason } };
  const ahead = ORDER.indexOf(before.state) > ORDER.indexOf(what);
  const next = ahead ? before : { ...before, state: what, reason: isSettled(what) ? reason : before.reason };
  return { ...line, lastEventSeq: seq, complete: whole, obligation: isSettled(next.state) ? { ...next, draft: null } : next };
}

function withoutDraft(known: Obligation): Obligation {
  return { ...known, draft: null, state: known.state === "answered_outside" ? "open" : known.state };
}

/** The newest incomplete line, and the seq of the line after it: a page that ends before that ends with it. */
export function incompleteLine(chat: Chat): { line: Line; before: number | undefined } | null {
  const at = chat.lines.findLastIndex((line) => !line.complete);
  const line = chat.lines[at];
  return line === undefined ? null : { line, before: chat.lines[at + 1]?.seq };
}

const NONE: Unanswered = { overdue: new Set(), outside: new Set() };

export function unansweredOf({ overdue, outside }: SnapshotUnanswered): Unanswered {
  return { overdue: new Set(overdue), outside: new Set(outside) };
}

/** Unanswered messages after an event; null if there are none. */
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
