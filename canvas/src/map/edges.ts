/** Edges between agents: delegations of the last minute, all open ones of the selected agent, and for a moment messages.
 * Pure. */

import { delegationState, isOpen, type Delegation } from "../core/state/delegations";
import type { Tree } from "../core/state/tree";
import type { Layout } from "./layout";
import type { Box } from "./pack";

/** An edge is shown this long after its last event. */
export const SHOWN_MS = 60_000;
/** A message is shown this long. */
export const MESSAGE_MS = 6_000;
/** More edges are not readable. */
export const MAX_EDGES = 200;
/** Below this zoom, edges connect teams. */
export const BUNDLE_ZOOM = 0.28;
/** Distance between edges of the same cards, one for each direction and state. */
const OFFSET = 7;

export type EdgeState = "waiting" | "working" | "done" | "failed" | "message";

/** A message that one agent has just sent to another. `at`: milliseconds since 1970. */
export interface PassedMessage {
  sourceId: string;
  targetId: string;
  at: number;
}

export interface Edge {
  key: string;
  state: EdgeState;
  /** Number of delegations that it represents; for messages, of pairs of agents. */
  count: number;
  from: Point;
  to: Point;
}

interface Point {
  x: number;
  y: number;
}

export interface Edges {
  shown: readonly Edge[];
  /** Number of edges that are left out. */
  more: number;
}

export interface EdgesOf {
  delegations: ReadonlyMap<string, Delegation>;
  messages: readonly PassedMessage[];
  layout: Pick<Layout, "cards" | "frames">;
  tree: Tree;
  selected: string | null;
  /** From afar, edges between two teams are merged. */
  bundled: boolean;
  now: number;
}

export function edgesOf({ delegations, messages, layout, tree, selected, bundled, now }: EdgesOf): Edges {
  const bundles = new Map<string, { from: string; to: string; state: EdgeState; count: number; at: string }>();
  const place = (id: string): string | null => anchorOf(id, layout, tree, bundled);
  const add = ({ sourceId, targetId }: Pick<Delegation, "sourceId" | "targetId">, state: EdgeState, when: string): void => {
    const [from, to] = [place(sourceId), place(targetId)];
    if (from === null || to === null || from === to) return;
    const key = `${from} ${to} ${state}`;
    const known = bundles.get(key);
    const at = known !== undefined && known.at > when ? known.at : when;
    bundles.set(key, { from, to, state, count: (known?.count ?? 0) + 1, at });
  };
  for (const each of delegations.values()) if (isShown(each, selected, now)) add(each, stateOf(each, now), each.updatedAt);
  for (const each of messages) if (isPassing(each, now)) add(each, "message", new Date(each.at).toISOString());
  const newest = [...bundles].sort(([, one], [, other]) => (one.at > other.at ? -1 : one.at < other.at ? 1 : 0));
  const lanes = new Map<string, number>();
  const shown = newest.slice(0, MAX_EDGES).flatMap(([key, { from, to, state, count }]) => {
    const lane = (lanes.get(`${from} ${to}`) ?? 0) + 1;
    lanes.set(`${from} ${to}`, lane);
    const line = lineBetween(boxOf(from, layout), boxOf(to, layout), lane * OFFSET);
    return line === null ? [] : [{ key, state, count, ...line }];
  });
  return { shown, more: Math.max(0, newest.length - MAX_EDGES) };
}

function isShown(each: Delegation, selected: string | null, now: number): boolean {
  if (isRecent(each, now)) return true;
  return selected !== null && isOpen(each) && (each.sourceId === selected || each.targetId === selected);
}

function isRecent({ updatedAt }: Delegation, now: number): boolean {
  return now - Date.parse(updatedAt) < SHOWN_MS;
}

function isPassing({ at }: PassedMessage, now: number): boolean {
  return now - at < MESSAGE_MS;
}

/** Whether an edge will expire. */
export function anyRecent(delegations: ReadonlyMap<string, Delegation>, messages: readonly PassedMessage[], now: number): boolean {
  if (messages.some((each) => isPassing(each, now))) return true;
  for (const each of delegations.values()) if (isRecent(each, now)) return true;
  return false;
}

function stateOf(each: Delegation, now: number): EdgeState {
  const state = delegationState(each, undefined, now, Infinity);
  if (state === "working") return "working";
  if (state === "completed") return "done";
  return isOpen(each) ? "waiting" : "failed";
}

const FRAME = "frame:";

/** What represents an agent: its card, the card of its collapsed team, or from afar its team. */
function anchorOf(id: string, layout: EdgesOf["layout"], tree: Tree, bundled: boolean): string | null {
  const met = new Set<string>();
  for (let at: string | undefined = id; at !== undefined && !met.has(at); at = tree.parent.get(at)) {
    met.add(at);
    if (bundled && layout.frames.has(at)) return FRAME + at;
    if (!bundled && layout.cards.has(at)) return at;
  }
  return bundled ? anchorOf(id, layout, tree, false) : null;
}

function boxOf(anchor: string, { cards, frames }: EdgesOf["layout"]): Box | undefined {
  return anchor.startsWith(FRAME) ? frames.get(anchor.slice(FRAME.length)) : cards.get(anchor);
}

/** From border to border; null where one box contains the other's centre. */
function lineBetween(from: Box | undefined, to: Box | undefined, aside: number): { from: Point; to: Point } | null {
  if (from === undefined || to === undefined) return null;
  const [a, b] = [middle(from), middle(to)];
  const length = Math.hypot(b.x - a.x, b.y - a.y);
  if (length === 0) return null;
  const [x, y] = [(b.x - a.x) / length, (b.y - a.y) / length];
  const start = reach(from, x, y);
  const end = length - reach(to, x, y);
  // For a team within a team the edge ends in the middle.
  const [first, last] = start < end ? [start, end] : [0, length];
  const at = (far: number): Point => ({ x: a.x + x * far - y * aside, y: a.y + y * far + x * aside });
  return { from: at(first), to: at(last) };
}

function middle(box: Box): Point {
  return { x: box.x + box.w / 2, y: box.y + box.h / 2 };
}

/** Distance from the centre of a box to its border in a direction. */
function reach(box: Box, x: number, y: number): number {
  return Math.min(x === 0 ? Infinity : box.w / 2 / Math.abs(x), y === 0 ? Infinity : box.h / 2 / Math.abs(y));
}

/** The three corners of the arrow head. */
export function headOf({ from, to }: Pick<Edge, "from" | "to">, size: number): readonly [Point, Point, Point] {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [x, y] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const back = { x: to.x - x * size, y: to.y - y * size };
  return [to, { x: back.x - (y * size) / 2, y: back.y + (x * size) / 2 }, { x: back.x + (y * size) / 2, y: back.y - (x * size) / 2 }];
}

/** The dash pattern shows the state without colour. */
export const DASHES: Readonly<Record<EdgeState, readonly number[]>> = { waiting: [3, 5], working: [9, 4], done: [], failed: [1, 4], message: [0.1, 6] };
