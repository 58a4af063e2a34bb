/** The gutters between the boxes of the map as a graph of tracks: horizontal and vertical lines in the middle of gutters,
 * joined where they cross and, through the left, right and lower border of frames, with those of the frame around. Every
 * point of a track has free space around it: half a gutter of its frame, to all sides. Frames are added when first needed. */

import { OUTSIDE, type Layout } from "./layout";
import type { Box } from "./pack";

/** A free stretch of a line: `at` is its fixed coordinate. */
interface Track {
  at: number;
  from: number;
  to: number;
  /** Nodes along it, in order. */
  stops: number[];
}

interface Tracks {
  half: number;
  across: Track[];
  down: Track[];
  edge: { left: number; right: number; top: number; bottom: number };
}

export const RIGHT = 0;
export const DOWN = 1;
export const LEFT = 2;
export const UP = 3;
export type Direction = typeof RIGHT | typeof DOWN | typeof LEFT | typeof UP;
export const NO_NODE = -1;

/** A box that a line leaves or reaches: an item of the arrangement of a frame. */
export interface Spot {
  holder: string;
  box: Box;
}

/** Where a line can leave a box: beside the middle of one side. */
export interface Port {
  node: number;
  /** Away from the box. */
  out: Direction;
}

export class Gutters {
  readonly xs: number[] = [];
  readonly ys: number[] = [];
  readonly halves: number[] = [];
  /** Number of the frame of each node. */
  readonly frames: number[] = [];
  /** The four neighbours of each node, by direction. */
  readonly next: number[] = [];
  private readonly layout: Layout;
  private readonly parent: ReadonlyMap<string, string>;
  private readonly tracks = new Map<string, Tracks>();
  private readonly numbers = new Map<string, number>();
  private readonly gates = new Map<string, number>();
  private undo: (() => void)[] = [];

  constructor(layout: Layout, parent: ReadonlyMap<string, string>) {
    this.layout = layout;
    this.parent = parent;
  }

  /** The frame around another one. */
  around(holder: string): string {
    return this.parent.get(holder) ?? OUTSIDE;
  }

  /** Number of a frame; adds it and those around it. */
  add(holder: string): number {
    const known = this.numbers.get(holder);
    if (known !== undefined) return known;
    if (holder !== OUTSIDE) this.add(this.around(holder));
    const number = this.numbers.size;
    this.numbers.set(holder, number);
    this.join(holder, number);
    return number;
  }

  /** Add the ports of a box until `reset` is called. */
  ports({ holder, box }: Spot): Port[] {
    const { half, across, down } = this.tracksOf(holder);
    const frame = this.numbers.get(holder) ?? 0;
    const [x, y] = [box.x + box.w / 2, box.y + box.h / 2];
    const found: Port[] = [];
    const put = (tracks: Track[], at: number, along: number, out: Direction): void => {
      const track = trackAt(tracks, at, along);
      if (track) found.push({ node: this.insert(track, along, tracks === across, half, frame), out });
    };
    put(down, box.x + box.w + half, y, RIGHT);
    put(across, box.y + box.h + half, x, DOWN);
    put(down, box.x - half, y, LEFT);
    put(across, box.y - half, x, UP);
    return found;
  }

  /** Remove the ports. What was routed before has no influence on what is routed later. */
  reset(): void {
    for (const step of this.undo.reverse()) step();
    this.undo = [];
  }

  private insert(track: Track, along: number, isAcross: boolean, half: number, frame: number): number {
    const values = isAcross ? this.xs : this.ys;
    const index = track.stops.findIndex((node) => (values[node] ?? 0) >= along);
    const after = track.stops[index] ?? NO_NODE;
    if (after !== NO_NODE && values[after] === along) return after;
    const before = (index < 0 ? track.stops.at(-1) : track.stops[index - 1]) ?? NO_NODE;
    const node = this.node(isAcross ? along : track.at, isAcross ? track.at : along, half, frame);
    const forward = isAcross ? RIGHT : DOWN;
    this.link(before, node, forward);
    this.link(node, after, forward);
    const place = index < 0 ? track.stops.length : index;
    track.stops.splice(place, 0, node);
    this.undo.push(() => {
      track.stops.splice(place, 1);
      this.link(before, after, forward);
      if (before === NO_NODE && after !== NO_NODE) this.next[4 * after + opposite(forward)] = NO_NODE;
      if (after === NO_NODE && before !== NO_NODE) this.next[4 * before + forward] = NO_NODE;
      for (const values of [this.xs, this.ys, this.halves, this.frames]) values.pop();
      this.next.length -= 4;
    });
    return node;
  }

  private node(x: number, y: number, half: number, frame: number): number {
    this.next.push(NO_NODE, NO_NODE, NO_NODE, NO_NODE);
    this.halves.push(half);
    this.frames.push(frame);
    this.ys.push(y);
    return this.xs.push(x) - 1;
  }

  private link(from: number, to: number, direction: Direction): void {
    if (from === NO_NODE || to === NO_NODE) return;
    this.next[4 * from + direction] = to;
    this.next[4 * to + opposite(direction)] = from;
  }

  private tracksOf(holder: string): Tracks {
    const known = this.tracks.get(holder);
    if (known) return known;
    const { layout } = this;
    const boxes: Box[] = [];
    for (const key of layout.arrangements.get(holder)?.boxes.keys() ?? []) {
      const box = key === holder ? layout.cards.get(key) : (layout.frames.get(key) ?? layout.cards.get(key));
      if (box) boxes.push(box);
    }
    const made = tracksAmong(boxes, layout, holder);
    this.tracks.set(holder, made);
    return made;
  }

  /** Add the nodes of a frame: where its tracks cross, and where those of the frames in it end at their border. */
  private join(holder: string, frame: number): void {
    const { half, across, down, edge } = this.tracksOf(holder);
    const onAcross = across.map(() => new Map<number, number>());
    const onDown = down.map(() => new Map<number, number>());
    down.forEach((line, column) => {
      for (let row = firstFrom(across, line.from); row < across.length; row += 1) {
        const other = across[row];
        if (other === undefined || other.at > line.to) break;
        if (line.at < other.from || line.at > other.to) continue;
        const node = this.node(line.at, other.at, half, frame);
        onDown[column]?.set(other.at, node);
        onAcross[row]?.set(line.at, node);
      }
    });
    const stop = (tracks: Track[], nodes: Map<number, number>[], at: number, along: number, gate: string): void => {
      const track = trackAt(tracks, at, along);
      const places = track && nodes[tracks.indexOf(track)];
      if (!track || !places) return;
      const [x, y] = tracks === across ? [along, at] : [at, along];
      const node = places.get(along) ?? this.node(x, y, half, frame);
      places.set(along, node);
      this.gates.set(gate, node);
    };
    for (const key of this.layout.arrangements.get(holder)?.boxes.keys() ?? []) {
      const box = key === holder ? undefined : this.layout.frames.get(key);
      if (!box) continue;
      const inner = this.tracksOf(key);
      for (const { at, from, to } of inner.across) {
        if (from === inner.edge.left) stop(down, onDown, box.x - half, at, `${key} left ${at}`);
        if (to === inner.edge.right) stop(down, onDown, box.x + box.w + half, at, `${key} right ${at}`);
      }
      for (const { at, to } of inner.down) if (to === inner.edge.bottom) stop(across, onAcross, box.y + box.h + half, at, `${key} bottom ${at}`);
    }
    this.chain(across, onAcross, RIGHT);
    this.chain(down, onDown, DOWN);
    across.forEach(({ at, from, to }, row) => {
      if (from === edge.left) this.link(onAcross[row]?.get(from) ?? NO_NODE, this.gates.get(`${holder} left ${at}`) ?? NO_NODE, LEFT);
      if (to === edge.right) this.link(onAcross[row]?.get(to) ?? NO_NODE, this.gates.get(`${holder} right ${at}`) ?? NO_NODE, RIGHT);
    });
    down.forEach(({ at, to }, column) => {
      if (to === edge.bottom) this.link(onDown[column]?.get(to) ?? NO_NODE, this.gates.get(`${holder} bottom ${at}`) ?? NO_NODE, DOWN);
    });
  }

  private chain(tracks: readonly Track[], nodes: readonly Map<number, number>[], forward: Direction): void {
    tracks.forEach((track, index) => {
      track.stops = [...(nodes[index] ?? [])].sort(([one], [other]) => one - other).map(([, node]) => node);
      track.stops.forEach((node, place) => this.link(node, track.stops[place + 1] ?? NO_NODE, forward));
    });
  }
}

export function opposite(direction: Direction): Direction {
  return ((direction + 2) % 4) as Direction;
}

/** The tracks of a frame: around each box, and on as far as they are free; and along the border of the frame. */
function tracksAmong(boxes: readonly Box[], layout: Layout, holder: string): Tracks {
  const { gap } = layout.spacings.get(holder) ?? { gap: 0 };
  const half = gap / 2;
  const frame = layout.frames.get(holder);
  const edge = frame
    ? { left: frame.x + half, right: frame.x + frame.w - half, top: frame.y + frame.title + half, bottom: frame.y + frame.h - half }
    : { left: -half, right: layout.w + half, top: -half, bottom: layout.h + half };
  const turned = boxes.map(({ x, y, w, h }) => ({ x: y, y: x, w: h, h: w }));
  return {
    half,
    edge,
    across: freeLines(boxes, half, [edge.left, edge.right], [edge.top, edge.bottom]),
    down: freeLines(turned, half, [edge.top, edge.bottom], [edge.left, edge.right]),
  };
}

/** Horizontal lines above and below each box, as far as no box is closer than half a gutter. */
function freeLines(boxes: readonly Box[], half: number, [first, last]: readonly [number, number], edges: readonly number[]): Track[] {
  const seeds = new Map<number, [number, number][]>();
  const seed = (at: number, from: number, to: number): void => {
    const known = seeds.get(at);
    if (known) known.push([from, to]);
    else seeds.set(at, [[from, to]]);
  };
  for (const at of edges) seed(at, first, last);
  for (const { x, y, w, h } of boxes) for (const at of [y - half, y + h + half]) seed(at, x - half, x + w + half);
  const ordered = [...boxes].sort((one, other) => one.x - other.x);
  const lines: Track[] = [];
  for (const [at, wanted] of [...seeds].sort(([one], [other]) => one - other)) {
    wanted.sort(([one], [other]) => one - other);
    let [start, next] = [first, 0];
    const end = (to: number): void => {
      while (next < wanted.length && (wanted[next]?.[1] ?? 0) <= start) next += 1;
      const isWanted = next < wanted.length && (wanted[next]?.[0] ?? 0) < to;
      if (to > start && isWanted) lines.push({ at, from: start, to, stops: [] });
    };
    for (const { x, y, w, h } of ordered) {
      if (at <= y - half || at >= y + h + half) continue;
      end(x - half);
      start = Math.max(start, x + w + half);
    }
    end(last);
  }
  return lines;
}

function firstFrom(tracks: readonly Track[], at: number): number {
  let [low, high] = [0, tracks.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((tracks[middle]?.at ?? 0) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The track through a point. */
function trackAt(tracks: readonly Track[], at: number, along: number): Track | undefined {
  for (let index = firstFrom(tracks, at); index < tracks.length; index += 1) {
    const track = tracks[index];
    if (track === undefined || track.at !== at) return undefined;
    if (track.from <= along && along <= track.to) return track;
  }
  return undefined;
}
