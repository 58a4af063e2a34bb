/** Which of a long chat's lines are in the document: a span that follows the newest, or stays where the reader is. */

import type { Line } from "../../core/state/model";
import { keyOf } from "./conversationItems";

/** With the day headings between them, the document stays below 300 items. */
const MOST = 140;
const FIRST = 60;
const STEP = 40;

export interface Span {
  /** The key of the last line shown; null: follow the newest. */
  end: string | null;
  size: number;
}

export const FOLLOWING: Span = { end: null, size: FIRST };

interface Cut {
  from: number;
  to: number;
}

export function cutOf(span: Span, lines: readonly Line[]): Cut {
  const at = span.end === null ? -1 : lines.findLastIndex((line) => keyOf(line) === span.end);
  const to = at === -1 ? lines.length : at + 1;
  return { from: Math.max(0, to - span.size), to };
}

/** Stays where it is, whatever is added below. */
export function held(span: Span, lines: readonly Line[]): Span {
  const last = lines.at(-1);
  return span.end !== null || last === undefined ? span : { ...span, end: keyOf(last) };
}

/** Shows older lines, and lets go of the newest shown if there are too many. */
export function upwards(span: Span, lines: readonly Line[]): Span {
  const { from, to } = cutOf(span, lines);
  if (from === 0) return span;
  const start = Math.max(0, from - STEP);
  const end = Math.min(to, start + MOST);
  const last = lines[end - 1];
  return { end: last ? keyOf(last) : null, size: end - start };
}

/** Shows newer lines, and lets go of the oldest shown. */
export function downwards(span: Span, lines: readonly Line[]): Span {
  const { from, to } = cutOf(span, lines);
  if (to >= lines.length) return span;
  const end = Math.min(lines.length, to + STEP);
  const last = lines[end - 1];
  return { end: last ? keyOf(last) : null, size: Math.min(MOST, end - from) };
}

/** Puts one line in the middle of what is shown. */
export function around(at: number, lines: readonly Line[]): Span {
  const end = Math.min(lines.length, at + Math.floor(FIRST / 2) + 1);
  const last = lines[end - 1];
  return { end: last ? keyOf(last) : null, size: FIRST };
}
