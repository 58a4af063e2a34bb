/** Lanes: lines that run in one gutter side by side. */

/** A straight part of a line, in the middle of its gutter. */
export interface Stretch {
  /** Number of the line, and of the stretch in it. */
  line: number;
  index: number;
  last: boolean;
  isAcross: boolean;
  /** The fixed coordinate. */
  at: number;
  from: number;
  to: number;
  /** Half of the gutter. */
  half: number;
  /** The box that the line leaves or reaches here. */
  port: string | null;
}

/** Distance of lanes in a gutter of width 1, and what stays free beside the outermost ones. */
const LANE = 0.25;
const FREE = 0.1;
/** Distance of lines that turn at once beside a card, and the part of its side that lines may use. */
const PORT_LANE = 12;
const PORT_ROOM = 24;

/** How far each stretch is shifted from the middle of its gutter. */
export function laneOffsets(stretches: readonly Stretch[]): ReadonlyMap<Stretch, number> {
  const offsets = new Map<Stretch, number>();
  const byLine = new Map<string, Stretch>();
  for (const stretch of stretches) byLine.set(`${stretch.line} ${stretch.index}`, stretch);
  const beside = (stretch: Stretch, step: number): Stretch | undefined => byLine.get(`${stretch.line} ${stretch.index + step}`);
  const ports = new Map<string, Stretch[]>();
  const gutters = new Map<string, Stretch[]>();
  const put = (groups: Map<string, Stretch[]>, key: string, stretch: Stretch): void => {
    const known = groups.get(key);
    if (known) known.push(stretch);
    else groups.set(key, [stretch]);
  };
  for (const stretch of stretches) {
    const axis = stretch.isAcross ? "across" : "down";
    if (isStub(stretch)) put(ports, sideOf(stretch), stretch);
    else put(gutters, `${axis} ${stretch.at}`, stretch);
  }
  const straight = new Set(stretches.filter((each) => each.port !== null && !isStub(each)).flatMap(sidesOf));
  const side = (stretch: Stretch): number => {
    const [before, after] = [beside(stretch, -1), beside(stretch, 1)];
    // Where the line comes from and goes to: below or to the right is 1, above or to the left is -1.
    return (before ? Math.sign(before.from - before.to) : 0) + (after ? Math.sign(after.to - after.from) : 0);
  };
  for (const group of gutters.values()) for (const cluster of clustersOf(group)) assign(cluster, side, offsets);
  for (const [key, group] of ports) assignPorts(group, straight.has(key), beside, offsets);
  return offsets;
}

/** Whether a line turns as soon as it has left a box. */
function isStub({ port, from, to, half, index, last }: Stretch): boolean {
  return port !== null && Math.abs(to - from) <= half && !(index === 0 && last);
}

/** The side of a box at which a stretch begins or ends: the port, as the coordinates of the point. */
function sideOf({ isAcross, at, from, to, index }: Stretch): string {
  return `${isAcross ? "across" : "down"} ${at} ${index === 0 ? from : to}`;
}

function sidesOf(stretch: Stretch): string[] {
  return stretch.index === 0 && stretch.last ? [sideOf(stretch), sideOf({ ...stretch, index: 1 })] : [sideOf(stretch)];
}

/** Stretches of one line of the map that overlap, or nearly so. */
function clustersOf(group: Stretch[]): Stretch[][] {
  const clusters: Stretch[][] = [];
  let end = -Infinity;
  for (const stretch of [...group].sort((one, other) => low(one) - low(other) || one.line - other.line)) {
    if (low(stretch) > end) clusters.push([]);
    clusters.at(-1)?.push(stretch);
    end = Math.max(end, high(stretch));
  }
  return clusters;
}

/** With room for the shifted stretches at both ends. */
function low({ from, to, half }: Stretch): number {
  return Math.min(from, to) - half;
}

function high({ from, to, half }: Stretch): number {
  return Math.max(from, to) + half;
}

/** Each stretch takes the first lane that is free along it; those that turn to one side have the lanes of that side. */
function assign(cluster: readonly Stretch[], side: (stretch: Stretch) => number, offsets: Map<Stretch, number>): void {
  const lanes: Stretch[][] = [];
  const laneOf = new Map<Stretch, number>();
  const ordered = [...cluster].sort((one, other) => side(one) - side(other) || one.line - other.line || one.index - other.index);
  for (const stretch of ordered) {
    let lane = lanes.findIndex((taken) => taken.every((other) => high(other) < low(stretch) || high(stretch) < low(other)));
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane]?.push(stretch);
    laneOf.set(stretch, lane);
  }
  const half = cluster.reduce((least, stretch) => Math.min(least, stretch.half, stretch.port === null ? Infinity : PORT_ROOM), Infinity);
  const distance = Math.min(2 * half * LANE, (2 * half * (1 - 2 * FREE)) / Math.max(1, lanes.length - 1));
  for (const [stretch, lane] of laneOf) offsets.set(stretch, (lane - (lanes.length - 1) / 2) * distance);
}

/** Lines that turn as soon as they have left the side of a box: side by side, in an order in which they do not cross. Lines
 * that go straight on have the middle. */
function assignPorts(
  group: readonly Stretch[],
  hasStraight: boolean,
  beside: (stretch: Stretch, step: number) => Stretch | undefined,
  offsets: Map<Stretch, number>,
): void {
  const placed = group.map((stretch) => {
    const isFirst = stretch.index === 0;
    const next = beside(stretch, isFirst ? 1 : -1);
    const turn = next ? Math.sign(isFirst ? next.to - next.from : next.from - next.to) : 0;
    const lane = next ? (offsets.get(next) ?? 0) : 0;
    const away = Math.sign(isFirst ? stretch.to - stretch.from : stretch.from - stretch.to);
    return { stretch, turn, far: lane * away };
  });
  placed.sort((one, other) => one.turn - other.turn || (one.far - other.far) * -one.turn || one.stretch.line - other.stretch.line);
  const before = placed.filter(({ turn }) => turn < 0).length;
  const places = placed.map((_, place) => (hasStraight ? place - before + (place < before ? 0 : 1) : place - (placed.length - 1) / 2));
  const most = places.reduce((found, place) => Math.max(found, Math.abs(place)), 1);
  placed.forEach(({ stretch }, index) => offsets.set(stretch, (places[index] ?? 0) * Math.min(PORT_LANE, PORT_ROOM / most)));
}
