/** The lines between agents that gave each other work: those of the last minute, and all open ones of the agent that was chosen.
 * Pure; the data are the delegations that the page has. */

import { delegationState, isOpen, type Delegation } from "../core/state/delegations";
import type { Tree } from "../core/state/tree";
import type { Layout } from "./layout";
import type { Box } from "./pack";

/** So long after something happened its line is seen. */
export const SHOWN_MS = 60_000;
/** More lines than these tell nothing. */
export const MAX_EDGES = 200;
/** Smaller than this, a line is one between teams. */
export const BUNDLE_ZOOM = 0.28;
/** Lines between the same cards, in each direction and of each state, lie so far beside each other. */
const OFFSET = 7;

export type EdgeState = "waiting" | "working" | "done" | "failed";

export interface Edge {
  key: string;
  state: EdgeState;
  /** How many delegations it stands for. */
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
  /** So many more lines there are. */
  more: number;
}

export interface EdgesOf {
  delegations: ReadonlyMap<string, Delegation>;
  layout: Pick<Layout, "cards" | "frames">;
  tree: Tree;
  selected: string | null;
  /** Seen from afar, what goes on between teams is one line. */
  bundled: boolean;
  now: number;
}

export function edgesOf({ delegations, layout, tree, selected, bundled, now }: EdgesOf): Edges {
  const bundles = new Map<string, { from: string; to: string; state: EdgeState; count: number; at: string }>();
  const place = (id: string): string | null => anchorOf(id, layout, tree, bundled);
  for (const each of delegations.values()) {
    if (!isShown(each, selected, now)) continue;
    const [from, to] = [place(each.sourceId), place(each.targetId)];
    if (from === null || to === null || from === to) continue;
    const state = stateOf(each, now);
    const key = `${from} ${to} ${state}`;
    const known = bundles.get(key);
    const at = known !== undefined && known.at > each.updatedAt ? known.at : each.updatedAt;
    bundles.set(key, { from, to, state, count: (known?.count ?? 0) + 1, at });
  }
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

/** Whether there is anything that will have to go when its minute is over. */
export function anyRecent(delegations: ReadonlyMap<string, Delegation>, now: number): boolean {
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

/** What stands for an agent in the picture: its card, that of the folded team that it is in, or from afar its team. */
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

/** From edge to edge; null where one box lies in the other's middle. */
function lineBetween(from: Box | undefined, to: Box | undefined, aside: number): { from: Point; to: Point } | null {
  if (from === undefined || to === undefined) return null;
  const [a, b] = [middle(from), middle(to)];
  const length = Math.hypot(b.x - a.x, b.y - a.y);
  if (length === 0) return null;
  const [x, y] = [(b.x - a.x) / length, (b.y - a.y) / length];
  const start = reach(from, x, y);
  const end = length - reach(to, x, y);
  // A team within a team: the line ends in the middle.
  const [first, last] = start < end ? [start, end] : [0, length];
  const at = (far: number): Point => ({ x: a.x + x * far - y * aside, y: a.y + y * far + x * aside });
  return { from: at(first), to: at(last) };
}

function middle(box: Box): Point {
  return { x: box.x + box.w / 2, y: box.y + box.h / 2 };
}

/** How far it is from the middle of a box to its edge in a direction. */
function reach(box: Box, x: number, y: number): number {
  return Math.min(x === 0 ? Infinity : box.w / 2 / Math.abs(x), y === 0 ? Infinity : box.h / 2 / Math.abs(y));
}

/** The three corners of an arrow's head at the end of a line. */
export function headOf({ from, to }: Pick<Edge, "from" | "to">, size: number): readonly [Point, Point, Point] {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [x, y] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const back = { x: to.x - x * size, y: to.y - y * size };
  return [to, { x: back.x - (y * size) / 2, y: back.y + (x * size) / 2 }, { x: back.x + (y * size) / 2, y: back.y - (x * size) / 2 }];
}

/** The pattern of a line says its state without a colour. */
export const DASHES: Readonly<Record<EdgeState, readonly number[]>> = { waiting: [3, 5], working: [9, 4], done: [], failed: [1, 4] };
