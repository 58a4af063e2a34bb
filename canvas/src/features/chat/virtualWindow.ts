/** Which lines of a long chat are rendered: a window that follows the newest line, or stays at the reading position. */

import type { Line } from "../../core/state/model";
import { keyOf } from "./conversationItems";

/** With the day headings, the document stays below 300 items. */
const MAX_LINES = 140;
const FIRST_LINES = 60;
const STEP = 40;
/** Of what precedes the first unread message. */
const LINES_BEFORE = 10;
/** A window begins at most this many lines earlier so that it has the whole of a group of delegations. */
const MAX_GROUP = 40;

export interface LineWindow {
  /** Key of the last rendered line; null: follow the newest. */
  end: string | null;
  size: number;
}

export const FOLLOWING: LineWindow = { end: null, size: FIRST_LINES };

interface LineRange {
  from: number;
  to: number;
}

export function rangeOf(span: LineWindow, lines: readonly Line[]): LineRange {
  const at = span.end === null ? -1 : lines.findLastIndex((line) => keyOf(line) === span.end);
  const to = at === -1 ? lines.length : at + 1;
  return { from: beginOfGroup(lines, Math.max(0, to - span.size)), to };
}

function beginOfGroup(lines: readonly Line[], from: number): number {
  const isInside = (at: number): boolean => lines[at]?.author === "work" && lines[at - 1]?.author === "work";
  let begin = from;
  while (isInside(begin) && from - begin < MAX_GROUP) begin -= 1;
  return begin;
}

/** The same window, whatever is added below. */
export function pinned(span: LineWindow, lines: readonly Line[]): LineWindow {
  const last = lines.at(-1);
  return span.end !== null || last === undefined ? span : { ...span, end: keyOf(last) };
}

/** Show older lines, and drop the newest rendered ones if there are too many. */
export function showOlder(span: LineWindow, lines: readonly Line[]): LineWindow {
  const { from, to } = rangeOf(span, lines);
  if (from === 0) return span;
  const start = Math.max(0, from - STEP);
  const end = Math.min(to, start + MAX_LINES);
  const last = lines[end - 1];
  return { end: last ? keyOf(last) : null, size: end - start };
}

/** Show newer lines, and drop the oldest rendered ones. */
export function showNewer(span: LineWindow, lines: readonly Line[]): LineWindow {
  const { from, to } = rangeOf(span, lines);
  if (to >= lines.length) return span;
  const end = Math.min(lines.length, to + STEP);
  const last = lines[end - 1];
  return { end: last ? keyOf(last) : null, size: Math.min(MAX_LINES, end - from) };
}

/** A window with one line in its middle. */
export function centredOn(at: number, lines: readonly Line[]): LineWindow {
  const end = Math.min(lines.length, at + Math.floor(FIRST_LINES / 2) + 1);
  const last = lines[end - 1];
  return { end: last ? keyOf(last) : null, size: FIRST_LINES };
}

/** A window that begins shortly before a line. */
export function startingAt(at: number, lines: readonly Line[]): LineWindow {
  const end = Math.min(lines.length, at + FIRST_LINES - LINES_BEFORE);
  const last = lines[end - 1];
  return { end: last ? keyOf(last) : null, size: Math.min(FIRST_LINES, end - Math.max(0, at - LINES_BEFORE)) };
}
