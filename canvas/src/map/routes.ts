/** Routes of lines between cards and frames: straight stretches in the gutters, from border to border, over no card and no
 * title. Pure and deterministic: the same layout and pairs give the same routes. */

import { DOWN, Gutters, LEFT, NO_NODE, opposite, RIGHT, UP, type Direction, type Port, type Spot } from "./gutters";
import type { Layout } from "./layout";
import { laneOffsets, type Stretch } from "./lanes";

export interface Point {
  x: number;
  y: number;
}

export interface Route {
  points: readonly Point[];
  /** The longest horizontal stretch: its middle, its length, and the middle and height of its gutter. */
  room: Point & { length: number; gutter: number; height: number };
  /** What it covers, and the width of the narrowest gutter. */
  extent: { x: number; y: number; w: number; h: number };
  narrowest: number;
}

/** A pair of boxes; `key` names the line, `from` and `to` the boxes. */
export interface Pair {
  key: string;
  from: string;
  to: string;
}

/** Length that a line may be longer to have one bend less. */
const BEND = 60;
/** More than 1 finds a line sooner, and a little longer than the shortest. */
const HASTE = 1.25;

/** A line in the middle of its gutters. */
interface Course {
  points: readonly Point[];
  /** Half of the gutter of each stretch. */
  halves: readonly number[];
}

export class Router {
  private readonly gutters: Gutters;
  private readonly spotOf: (anchor: string) => Spot | null;
  private readonly courses = new Map<string, Course | null>();

  constructor(layout: Layout, parent: ReadonlyMap<string, string>, spotOf: (anchor: string) => Spot | null) {
    this.gutters = new Gutters(layout, parent);
    this.spotOf = spotOf;
  }

  /** The routes of all lines by their keys, each in a lane of its own. */
  route(pairs: readonly Pair[]): ReadonlyMap<string, Route> {
    const found: { key: string; from: string; to: string; course: Course }[] = [];
    for (const { key, from, to } of pairs) {
      const course = this.courseOf(from, to);
      if (course) found.push({ key, from, to, course });
    }
    const stretches = found.map(({ course, from, to }, line) => stretchesOf(course, line, from, to));
    const offsets = laneOffsets(stretches.flat());
    return new Map(found.map(({ key }, line) => [key, placed(stretches[line] ?? [], offsets)]));
  }

  private courseOf(from: string, to: string): Course | null {
    const key = `${from} ${to}`;
    let course = this.courses.get(key);
    if (course === undefined) {
      const [start, end] = [this.spotOf(from), this.spotOf(to)];
      course = start && end ? findCourse(this.gutters, start, end) : null;
      this.courses.set(key, course);
    }
    return course;
  }
}

const STEP_X = [1, 0, -1, 0] as const;
const STEP_Y = [0, 1, 0, -1] as const;

/** The shortest line with few bends (A*). A state is a node and the direction in which it was reached. */
function findCourse(gutters: Gutters, from: Spot, to: Spot): Course | null {
  const isAllowed = framesBetween(gutters, from.holder, to.holder);
  const goals = new Map<number, Port[]>();
  const starts = gutters.ports(from);
  for (const port of gutters.ports(to)) goals.set(port.node, [...(goals.get(port.node) ?? []), port]);
  const search = new Search(gutters, to.box);
  for (const { node, out } of starts) {
    for (const direction of [0, 1, 2, 3] as const) {
      if (direction !== opposite(out)) search.reach(4 * node + direction, direction === out ? 0 : BEND, -1);
    }
  }
  let course: Course | null = null;
  for (let state = search.nearest(); state !== null; state = search.nearest()) {
    if (state < 0) {
      course = courseOf(gutters, search, -state - 1, starts, goals, from.box, to.box);
      break;
    }
    const node = state >> 2;
    const direction = (state & 3) as Direction;
    for (const { out } of goals.get(node) ?? []) search.arrive(state, direction === opposite(out) ? 0 : BEND);
    const next = gutters.next[state] ?? NO_NODE;
    if (next === NO_NODE || !isAllowed(gutters.frames[next] ?? 0)) continue;
    const far = Math.abs((gutters.xs[next] ?? 0) - (gutters.xs[node] ?? 0)) + Math.abs((gutters.ys[next] ?? 0) - (gutters.ys[node] ?? 0));
    for (const turned of [0, 1, 2, 3] as const) {
      if (turned !== opposite(direction)) search.reach(4 * next + turned, far + (turned === direction ? 0 : BEND), state);
    }
  }
  gutters.reset();
  return course;
}

/** Frames around both boxes up to the first common one; all others are passed by. */
function framesBetween(gutters: Gutters, from: string, to: string): (frame: number) => boolean {
  const [one, other] = [chainOf(gutters, from), chainOf(gutters, to)];
  const common = one.find((frame) => other.includes(frame)) ?? 0;
  const frames = new Set([...one.slice(0, one.indexOf(common) + 1), ...other.slice(0, other.indexOf(common) + 1)]);
  return (frame) => frames.has(frame);
}

function chainOf(gutters: Gutters, holder: string): number[] {
  const chain = [gutters.add(holder)];
  for (let at = holder; at !== ""; ) {
    at = gutters.around(at);
    chain.push(gutters.add(at));
  }
  return chain;
}

class Search {
  private readonly gutters: Gutters;
  private readonly goal: Spot["box"];
  private readonly costs: Float64Array;
  private readonly before: Int32Array;
  /** Of each state: 1 once it was left, 2 once its goal was. */
  private readonly done: Uint8Array;
  private readonly heap: { state: number; cost: number; turn: number }[] = [];
  private turn = 0;

  constructor(gutters: Gutters, goal: Spot["box"]) {
    this.gutters = gutters;
    this.goal = goal;
    const states = 4 * gutters.xs.length;
    this.costs = new Float64Array(states).fill(Infinity);
    this.before = new Int32Array(states).fill(-1);
    this.done = new Uint8Array(states);
  }

  reach(state: number, step: number, before: number): void {
    const cost = (before < 0 ? 0 : (this.costs[before] ?? 0)) + step;
    if (cost >= (this.costs[state] ?? 0)) return;
    this.costs[state] = cost;
    this.before[state] = before;
    this.push(state, cost + HASTE * this.least(state));
  }

  /** Reach the border of the goal from a state: the negative state, less one. */
  arrive(state: number, step: number): void {
    this.push(-state - 1, (this.costs[state] ?? 0) + step);
  }

  nearest(): number | null {
    for (let top = this.pop(); top !== null; top = this.pop()) {
      const [state, bit] = top < 0 ? [-top - 1, 2] : [top, 1];
      if ((this.done[state] ?? 0) & bit) continue;
      this.done[state] = (this.done[state] ?? 0) | bit;
      return top;
    }
    return null;
  }

  pathTo(state: number): number[] {
    const path: number[] = [];
    for (let at: number | undefined = state; at !== undefined && at >= 0; at = this.before[at]) path.push(at >> 2);
    return path.reverse();
  }

  /** Lower bound of what is left: the distance, and the bends. */
  private least(state: number): number {
    const { x, y, w, h } = this.goal;
    const [px, py] = [this.gutters.xs[state >> 2] ?? 0, this.gutters.ys[state >> 2] ?? 0];
    const [dx, dy] = [px < x ? x - px : Math.min(0, x + w - px), py < y ? y - py : Math.min(0, y + h - py)];
    const far = Math.abs(dx) + Math.abs(dy);
    if (far === 0) return 0;
    const along = dx * (STEP_X[state & 3] ?? 0) + dy * (STEP_Y[state & 3] ?? 0);
    if (dx !== 0 && dy !== 0) return far + BEND * (along > 0 ? 1 : 2);
    return far + BEND * (along > 0 ? 0 : along < 0 ? 2 : 1);
  }

  private push(state: number, cost: number): void {
    const { heap } = this;
    this.turn += 1;
    const entry = { state, cost, turn: this.turn };
    let at = heap.push(entry) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      const other = heap[above];
      if (other === undefined || !isBefore(entry, other)) break;
      heap[at] = other;
      at = above;
    }
    heap[at] = entry;
  }

  private pop(): number | null {
    const { heap } = this;
    const top = heap[0];
    const last = heap.pop();
    if (top === undefined || last === undefined) return null;
    if (heap.length === 0) return top.state;
    let at = 0;
    for (;;) {
      let below = 2 * at + 1;
      const [left, right] = [heap[below], heap[below + 1]];
      if (left === undefined) break;
      const least = right !== undefined && isBefore(right, left) ? right : left;
      if (least === right) below += 1;
      if (!isBefore(least, last)) break;
      heap[at] = least;
      at = below;
    }
    heap[at] = last;
    return top.state;
  }
}

/** Of equal ones the newest first: it is nearest to the goal. */
function isBefore(one: { cost: number; turn: number }, other: { cost: number; turn: number }): boolean {
  return one.cost < other.cost || (one.cost === other.cost && one.turn > other.turn);
}

function courseOf(
  gutters: Gutters,
  search: Search,
  state: number,
  starts: readonly Port[],
  goals: ReadonlyMap<number, readonly Port[]>,
  from: Spot["box"],
  to: Spot["box"],
): Course {
  const path = search.pathTo(state);
  const [first, last] = [path[0] ?? 0, path.at(-1) ?? 0];
  const second = path[1];
  const leaving = second === undefined ? undefined : directionTo(gutters, first, second);
  const out = best(starts.filter(({ node }) => node === first), leaving);
  const before = path.at(-2);
  const coming = before === undefined ? undefined : directionTo(gutters, last, before);
  const into = best(goals.get(last) ?? [], coming ?? (out === undefined ? undefined : opposite(out.out)));
  const at = (node: number): Point => ({ x: gutters.xs[node] ?? 0, y: gutters.ys[node] ?? 0 });
  const half = (node: number): number => gutters.halves[node] ?? 0;
  const nodes = [
    { ...onBorder(at(first), from, out?.out), half: half(first) },
    ...path.map((node) => ({ ...at(node), half: half(node) })),
    { ...onBorder(at(last), to, into?.out), half: half(last) },
  ];
  return straightened(nodes);
}

/** The port that needs no bend, if there is one. */
function best(ports: readonly Port[], wanted: Direction | undefined): Port | undefined {
  return ports.find(({ out }) => out === wanted) ?? ports[0];
}

function directionTo(gutters: Gutters, from: number, to: number): Direction {
  const [dx, dy] = [(gutters.xs[to] ?? 0) - (gutters.xs[from] ?? 0), (gutters.ys[to] ?? 0) - (gutters.ys[from] ?? 0)];
  return dx > 0 ? RIGHT : dx < 0 ? LEFT : dy > 0 ? DOWN : UP;
}

function onBorder({ x, y }: Point, box: Spot["box"], out: Direction | undefined): Point {
  if (out === RIGHT) return { x: box.x + box.w, y };
  if (out === LEFT) return { x: box.x, y };
  return out === UP ? { x, y: box.y } : { x, y: box.y + box.h };
}

/** Without the points that are not corners. */
function straightened(nodes: readonly (Point & { half: number })[]): Course {
  const points: Point[] = [];
  const halves: number[] = [];
  let half = Infinity;
  nodes.forEach((node, index) => {
    const [last, next] = [points.at(-1), nodes[index + 1]];
    half = Math.min(half, node.half);
    const isCorner = last === undefined || next === undefined || !isStraight(last, node, next);
    if (!isCorner) return;
    if (last !== undefined) halves.push(half);
    points.push({ x: node.x, y: node.y });
    half = node.half;
  });
  return { points, halves };
}

function isStraight(one: Point, other: Point, third: Point): boolean {
  return (one.x === other.x && other.x === third.x) || (one.y === other.y && other.y === third.y);
}

function stretchesOf({ points, halves }: Course, line: number, from: string, to: string): Stretch[] {
  return halves.map((half, index) => {
    const [start, end] = [points[index] ?? { x: 0, y: 0 }, points[index + 1] ?? { x: 0, y: 0 }];
    const isAcross = start.y === end.y;
    const last = index === halves.length - 1;
    return { line, index, last, isAcross, at: isAcross ? start.y : start.x, from: isAcross ? start.x : start.y, to: isAcross ? end.x : end.y, half, port: index === 0 ? from : last ? to : null };
  });
}

/** The points of a line whose stretches are shifted into their lanes. */
function placed(stretches: readonly Stretch[], offsets: ReadonlyMap<Stretch, number>): Route {
  const places = stretches.map((stretch) => stretch.at + (offsets.get(stretch) ?? 0));
  const points: Point[] = [];
  stretches.forEach((stretch, index) => {
    const along = index === 0 ? stretch.from : (places[index - 1] ?? 0);
    points.push(stretch.isAcross ? { x: along, y: places[index] ?? 0 } : { x: places[index] ?? 0, y: along });
    if (stretch.last) points.push(stretch.isAcross ? { x: stretch.to, y: places[index] ?? 0 } : { x: places[index] ?? 0, y: stretch.to });
  });
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  return {
    points,
    room: roomOf(points, stretches),
    extent: { x, y, w: Math.max(...xs) - x, h: Math.max(...ys) - y },
    narrowest: 2 * stretches.reduce((least, { half }) => Math.min(least, half), Infinity),
  };
}

function roomOf(points: readonly Point[], stretches: readonly Stretch[]): Route["room"] {
  let room = { x: 0, y: 0, length: 0, gutter: 0, height: 0 };
  stretches.forEach(({ isAcross, at, half }, index) => {
    const [start, end] = [points[index], points[index + 1]];
    if (!isAcross || !start || !end) return;
    const length = Math.abs(end.x - start.x);
    if (length > room.length) room = { x: (start.x + end.x) / 2, y: start.y, length, gutter: at, height: 2 * half };
  });
  return room;
}

const CORNER = 8;

/** The line with round corners, as commands: to a point, or around a corner to a point. */
export function rounded(points: readonly Point[], most = CORNER): { around: Point | null; to: Point }[] {
  const steps: { around: Point | null; to: Point }[] = [];
  points.forEach((point, index) => {
    const [before, after] = [points[index - 1], points[index + 1]];
    if (!before || !after) return void steps.push({ around: null, to: point });
    const radius = Math.min(most, distance(before, point) / 2, distance(point, after) / 2);
    steps.push({ around: null, to: towards(point, before, radius) }, { around: point, to: towards(point, after, radius) });
  });
  return steps;
}

function towards(from: Point, to: Point, far: number): Point {
  const length = distance(from, to);
  const share = length === 0 ? 0 : far / length;
  return { x: from.x + (to.x - from.x) * share, y: from.y + (to.y - from.y) * share };
}

function distance(one: Point, other: Point): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

/** Distance of a point from a line. */
export function distanceTo(points: readonly Point[], { x, y }: Point): number {
  let least = Infinity;
  for (let index = 1; index < points.length; index += 1) {
    const [from, to] = [points[index - 1], points[index]];
    if (!from || !to) continue;
    const nearest = { x: clamp(x, from.x, to.x), y: clamp(y, from.y, to.y) };
    least = Math.min(least, Math.hypot(nearest.x - x, nearest.y - y));
  }
  return least;
}

function clamp(value: number, one: number, other: number): number {
  return Math.min(Math.max(one, other), Math.max(Math.min(one, other), value));
}
