/** Edges between agents: delegations of the last minute, all open ones of the selected agent, and for a moment messages.
 * Pure. */

import { delegationState, isOpen, type Delegation } from "../core/state/delegations";
import type { Tree } from "../core/state/tree";
import { plainLine } from "../core/text/plain";
import { memoized } from "../core/store/memoized";
import type { Spot } from "./gutters";
import { OUTSIDE, type Layout } from "./layout";
import type { Point, Route, Router } from "./routes";

/** An edge is shown this long after its last event. */
export const SHOWN_MS = 60_000;
/** A message is shown this long. */
export const MESSAGE_MS = 6_000;
/** More edges are not readable. */
export const MAX_EDGES = 200;
/** Below this zoom, edges connect teams. */
export const BUNDLE_ZOOM = 0.35;

export type EdgeState = "waiting" | "working" | "done" | "failed" | "message";

/** A message that one agent has just sent to another. `at`: milliseconds since 1970. */
export interface PassedMessage {
  sourceId: string;
  targetId: string;
  at: number;
}

/** What an edge stands for. */
export interface Link {
  key: string;
  state: EdgeState;
  /** Number of delegations that it represents; for messages, of pairs of agents. */
  count: number;
  /** The boxes: the id of a card, or of a frame with its prefix. */
  from: string;
  to: string;
  /** The agents; of several the newest, or the lead of their team. */
  sourceId: string;
  targetId: string;
  /** The newest delegation and its task; null for messages. */
  newest: { id: string; task: string } | null;
}

export type Edge = Link & Route;

export interface Edges {
  shown: readonly Edge[];
  /** Number of edges that are left out. */
  more: number;
}

export interface Links {
  shown: readonly Link[];
  more: number;
}

export interface EdgesOf {
  delegations: ReadonlyMap<string, Delegation>;
  messages: readonly PassedMessage[];
  layout: Pick<Layout, "cards" | "frames">;
  tree: Tree;
  selected: string | null;
  /** From afar, edges between teams are merged: the deepest level of these teams. Otherwise null. */
  level: number | null;
  now: number;
}

export function linksOf({ delegations, messages, layout, tree, selected, level, now }: EdgesOf): Links {
  const bundles = new Map<string, Link & { at: string }>();
  const add = ({ sourceId, targetId }: Pick<Delegation, "sourceId" | "targetId">, state: EdgeState, when: string, newest: Link["newest"]): void => {
    const [from, to] = anchorsOf(sourceId, targetId, layout, tree, level);
    if (from === null || to === null || from === to) return;
    const key = `${from} ${to} ${state}`;
    const known = bundles.get(key);
    const made = { key, state, count: (known?.count ?? 0) + 1, from, to, sourceId, targetId, newest, at: when };
    if (known === undefined) return void bundles.set(key, made);
    const last = known.at > when ? known : made;
    const agent = (one: string, other: string, anchor: string): string => (one === other ? one : agentOf(anchor));
    bundles.set(key, { ...last, count: made.count, sourceId: agent(known.sourceId, sourceId, from), targetId: agent(known.targetId, targetId, to) });
  };
  for (const each of delegations.values()) if (isShown(each, selected, now)) add(each, stateOf(each, now), each.updatedAt, { id: each.id, task: each.task });
  for (const each of messages) if (isPassing(each, now)) add(each, "message", new Date(each.at).toISOString(), null);
  const newest = [...bundles.values()].sort((one, other) => (one.at > other.at ? -1 : one.at < other.at ? 1 : 0));
  return { shown: newest.slice(0, MAX_EDGES).map(({ at: _, ...link }) => link), more: Math.max(0, newest.length - MAX_EDGES) };
}

/** The links that have a route, with it. */
export function routed({ shown, more }: Links, router: Router): Edges {
  const routes = router.route(shown);
  const withRoute = (link: Link): Edge[] => {
    const route = routes.get(link.key);
    return route ? [{ ...link, ...route }] : [];
  };
  return { more, shown: shown.flatMap(withRoute) };
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

/** What represents two agents. A team that contains the other one is represented by its lead. */
function anchorsOf(sourceId: string, targetId: string, layout: EdgesOf["layout"], tree: Tree, level: number | null): [string | null, string | null] {
  const [from, to] = [anchorOf(sourceId, layout, tree, level), anchorOf(targetId, layout, tree, level)];
  if (from === null || to === null || from === to) return [from, to];
  const leadOf = (anchor: string, other: string): string => (anchor.startsWith(FRAME) && isInside(agentOf(other), agentOf(anchor), tree) ? agentOf(anchor) : anchor);
  return [leadOf(from, to), leadOf(to, from)];
}

/** The card of an agent or of its collapsed team, or from afar its team. */
function anchorOf(id: string, layout: EdgesOf["layout"], tree: Tree, level: number | null): string | null {
  const met = new Set<string>();
  for (let at: string | undefined = id; at !== undefined && !met.has(at); at = tree.parent.get(at)) {
    met.add(at);
    const frame = level === null ? undefined : layout.frames.get(at);
    if (frame ? frame.depth <= (level ?? 0) : level === null && layout.cards.has(at)) return frame ? FRAME + at : at;
  }
  return level === null ? null : anchorOf(id, layout, tree, null);
}

function isInside(inner: string, outer: string, tree: Tree): boolean {
  for (let at: string | undefined = inner; at !== undefined; at = tree.parent.get(at)) if (at === outer) return true;
  return false;
}

/** The agent of a card, or the lead of a frame. */
export function agentOf(anchor: string): string {
  return anchor.startsWith(FRAME) ? anchor.slice(FRAME.length) : anchor;
}

/** The box of an anchor, and the frame in whose arrangement it is. */
export function spotOf(anchor: string, layout: Pick<Layout, "cards" | "frames">, tree: Tree): Spot | null {
  const id = agentOf(anchor);
  const isLead = anchor === id && layout.frames.has(id);
  const box = anchor === id ? layout.cards.get(id) : layout.frames.get(id);
  return box ? { holder: isLead ? id : (tree.parent.get(id) ?? OUTSIDE), box } : null;
}

export const EDGE_WORDS: Readonly<Record<EdgeState, string>> = { waiting: "Waiting", working: "Working", done: "Answered", failed: "Failed", message: "Messages" };

/** The first words of a task; of several the state and their number. */
export function labelOf({ state, count, newest }: Link, mostCharacters: number): string {
  const task = newest === null || count > 1 ? "" : newest.task.trim();
  const text = task !== "" ? task : count > 1 ? `${EDGE_WORDS[state]} · ${count}` : EDGE_WORDS[state];
  const characters = [...plainLine(text)];
  return characters.length <= mostCharacters ? characters.join("") : `${characters.slice(0, mostCharacters - 1).join("").trimEnd()}…`;
}

/** The label from afar. */
export function countOf({ count }: Link): string {
  return count > 1 ? String(count) : "";
}

/** Who delegated to whom, and what. */
export function titleOf({ state, count, sourceId, targetId, newest }: Link, nameOf: (id: string) => string): string {
  const task = newest === null || count > 1 ? "" : `\n${plainLine(newest.task)}`;
  return `${nameOf(sourceId)} → ${nameOf(targetId)}: ${EDGE_WORDS[state].toLowerCase()}${count > 1 ? ` · ${count}` : ""}${task}`;
}

/** Teams as small as this in the window are not told apart. */
const SMALLEST_TEAM = 72;

/** The deepest level of teams that lines are merged by; null if they are not merged. */
export function bundleLevel(layout: Pick<Layout, "frames">, zoom: number): number | null {
  if (zoom >= BUNDLE_ZOOM) return null;
  const widths = usualWidths(layout.frames);
  let level = 1;
  while ((widths[level + 1] ?? 0) * zoom >= SMALLEST_TEAM) level += 1;
  return level;
}

/** The median width of the frames of each level. */
const usualWidths = memoized((frames: Layout["frames"]): readonly number[] => {
  const widths: number[][] = [];
  for (const { depth, w } of frames.values()) (widths[depth] ??= []).push(w);
  return widths.map((all) => all.sort((one, other) => one - other)[all.length >> 1] ?? 0);
});

/** The three corners of the arrow head. */
export function headOf(points: readonly Point[], size: number): readonly [Point, Point, Point] {
  const to = points.at(-1) ?? { x: 0, y: 0 };
  const from = points.at(-2) ?? to;
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const [x, y] = [(to.x - from.x) / length, (to.y - from.y) / length];
  const back = { x: to.x - x * size, y: to.y - y * size };
  return [to, { x: back.x - (y * size) / 2, y: back.y + (x * size) / 2 }, { x: back.x + (y * size) / 2, y: back.y - (x * size) / 2 }];
}

/** The dash pattern shows the state without colour. */
export const DASHES: Readonly<Record<EdgeState, readonly number[]>> = { waiting: [3, 5], working: [9, 4], done: [], failed: [1, 4], message: [0.1, 6] };
