/** Which lines of a long chat are rendered: a window that follows the newest line, or stays at the reading position. */

import type { Line } from "../../core/state/model";
import { keyOf } from "./conversationItems";

/** With the day headings, the document stays below 300 items. */
const MAX_LINES = 140;
const FIRST_LINES = 60;
const STEP = 40;

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
  return { from: Math.max(0, to - span.size), to };
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
