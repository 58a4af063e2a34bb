/** Arrange boxes in one frame: anew in rows, or with as few changes to the previous arrangement as possible. */

export interface Item {
  key: string;
  w: number;
  h: number;
}

export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Arrangement {
  boxes: ReadonlyMap<string, Box>;
  w: number;
  h: number;
}

/** Target ratio of width to height: windows are wide, and so are rows of cards. */
const ASPECT = 1.7;
const ASPECT_OF_SMALL = 2.4;
/** With fewer of its boxes left, the arrangement is made anew. */
const MIN_KEPT = 0.5;

export function arrange(items: readonly Item[], gap: number, before: Arrangement | undefined): Arrangement {
  if (before === undefined) return fresh(items, gap);
  const kept = items.filter((item) => before.boxes.has(item.key)).length;
  if (kept < MIN_KEPT * Math.max(items.length, before.boxes.size)) return fresh(items, gap);
  return adjust(items, gap, before);
}

/** Small boxes in rows, in order; below them the rest, highest first, each as high up as it fits. */
function fresh(items: readonly Item[], gap: number): Arrangement {
  const least = items.reduce((found, item) => Math.min(found, item.h), Infinity);
  const small = items.filter((item) => item.h === least);
  const large = items.filter((item) => item.h !== least).sort((one, other) => other.h - one.h || (one.key < other.key ? -1 : 1));
  const width = Math.max(targetWidth(small, gap, ASPECT_OF_SMALL), targetWidth(large, gap, ASPECT));
  const boxes = new Map<string, Box>();
  const rows = new Skyline(width, gap, 0);
  for (const item of small) boxes.set(item.key, rows.place(item));
  const floor = measured(boxes).h;
  const below = new Skyline(width, gap, floor === 0 ? 0 : floor + gap);
  for (const item of large) boxes.set(item.key, below.place(item));
  return measured(boxes);
}

function targetWidth(items: readonly Item[], gap: number, aspect: number): number {
  let area = 0;
  let widest = 0;
  for (const item of items) {
    area += (item.w + gap) * (item.h + gap);
    widest = Math.max(widest, item.w);
  }
  // Half a box more, so that the number of columns is rounded instead of truncated.
  return Math.max(widest, Math.sqrt(area * aspect) + (items[0]?.w ?? 0) / 2 - gap);
}

interface Segment {
  x: number;
  y: number;
  w: number;
}

/** The occupied height, from left to right. */
class Skyline {
  private segments: Segment[];
  private readonly width: number;
  private readonly gap: number;

  constructor(width: number, gap: number, y: number) {
    this.width = width + gap;
    this.gap = gap;
    this.segments = [{ x: 0, y, w: this.width }];
  }

  /** The highest, then leftmost position that is wide enough. */
  place(item: Item): Box {
    const w = item.w + this.gap;
    let best = { x: 0, y: Infinity };
    for (const [at, { x }] of this.segments.entries()) {
      if (x > 0 && x + w > this.width) break;
      const y = this.restingOn(at, x + w);
      if (y < best.y) best = { x, y };
    }
    this.raise(best.x, w, best.y + item.h + this.gap);
    return { ...best, w: item.w, h: item.h };
  }

  private restingOn(at: number, right: number): number {
    let y = 0;
    for (let next = at; next < this.segments.length; next += 1) {
      const segment = this.segments[next];
      if (!segment || segment.x >= right) break;
      y = Math.max(y, segment.y);
    }
    return y;
  }

  private raise(x: number, w: number, y: number): void {
    const right = x + w;
    const left = this.segments.filter((ledge) => ledge.x < x).map((ledge) => ({ ...ledge, w: Math.min(ledge.w, x - ledge.x) }));
    const rest = this.segments
      .filter((ledge) => ledge.x + ledge.w > right)
      .map((ledge) => (ledge.x >= right ? ledge : { x: right, y: ledge.y, w: ledge.x + ledge.w - right }));
    this.segments = joined([...left, { x, y, w }, ...rest]);
  }
}

/** Join neighbours of equal height, so that a full row is one segment again. */
function joined(segments: readonly Segment[]): Segment[] {
  const found: Segment[] = [];
  for (const segment of segments) {
    const last = found.at(-1);
    if (last?.y === segment.y) found[found.length - 1] = { ...last, w: last.w + segment.w };
    else found.push(segment);
  }
  return found;
}

function measured(boxes: ReadonlyMap<string, Box>): Arrangement {
  let [w, h] = [0, 0];
  for (const box of boxes.values()) {
    w = Math.max(w, box.x + box.w);
    h = Math.max(h, box.y + box.h);
  }
  return { boxes, w, h };
}

/** A known box keeps its corner. One that grew pushes its neighbours to the right and down, no further than it has to. A new
 * box takes the first free position: a freed one, the end of the last row, or a new row. */
function adjust(items: readonly Item[], gap: number, before: Arrangement): Arrangement {
  const boxes = new Map(pushed(items, gap, before.boxes));
  const holes = [...before.boxes].filter(([key]) => !boxes.has(key)).map(([, box]) => box);
  const width = Math.max(before.w, targetWidth(items, gap, ASPECT));
  for (const item of items) if (!boxes.has(item.key)) boxes.set(item.key, settle(item, boxes, holes, width, gap));
  return measured(boxes);
}

interface Kept {
  key: string;
  old: Box;
  now: Box;
}

/** The known boxes with their new sizes. Two boxes stay on the side of each other on which they were, so that none ever
 * overlaps. */
function pushed(items: readonly Item[], gap: number, before: ReadonlyMap<string, Box>): [string, Box][] {
  const kept: Kept[] = [];
  for (const { key, w, h } of items) {
    const old = before.get(key);
    if (old !== undefined) kept.push({ key, old, now: { ...old, w, h } });
  }
  if (kept.some(({ old, now }) => now.w > old.w || now.h > old.h)) {
    push(kept, gap, "x", "w", (one, other) => spaceBeside(one, other, gap) >= spaceBelow(one, other, gap));
    push(kept, gap, "y", "h", (one, other) => spaceBelow(one, other, gap) > spaceBeside(one, other, gap));
  }
  return kept.map(({ key, now }) => [key, now]);
}

/** Push along one axis all boxes that are kept apart along it. */
function push(kept: readonly Kept[], gap: number, at: "x" | "y", size: "w" | "h", isApart: (one: Kept, other: Kept) => boolean): void {
  const movers: Kept[] = [];
  for (const each of [...kept].sort((one, other) => one.old[at] - other.old[at])) {
    for (const mover of movers) {
      const end = mover.now[at] + mover.now[size] + gap;
      if (end > each.now[at] && mover.old[at] < each.old[at] && isApart(mover, each)) each.now[at] = end;
    }
    if (each.now[at] > each.old[at] || each.now[size] > each.old[size]) movers.push(each);
  }
}

/** The space between two boxes that were beside each other, once the first of them has its new size. Which axis keeps two
 * boxes apart depends on their old places alone: it is the one with more space. */
function spaceBeside(one: Kept, other: Kept, gap: number): number {
  const [first, second] = one.old.x <= other.old.x ? [one, other] : [other, one];
  return first.old.x + first.old.w + gap <= second.old.x ? second.old.x - first.old.x - first.now.w : -Infinity;
}

function spaceBelow(one: Kept, other: Kept, gap: number): number {
  const [first, second] = one.old.y <= other.old.y ? [one, other] : [other, one];
  return first.old.y + first.old.h + gap <= second.old.y ? second.old.y - first.old.y - first.now.h : -Infinity;
}

function settle(item: Item, boxes: ReadonlyMap<string, Box>, holes: readonly Box[], width: number, gap: number): Box {
  const at = (x: number, y: number): Box => ({ x, y, w: item.w, h: item.h });
  for (const hole of holes) {
    if (hole.x + item.w <= width && isFree(at(hole.x, hole.y), boxes, gap)) return at(hole.x, hole.y);
  }
  const all = [...boxes.values()];
  const bottom = most(all, (box) => box.y + box.h + gap);
  const lastRow = most(all, (box) => box.y);
  const right = most(all, (box) => (box.y === lastRow ? box.x + box.w + gap : 0));
  const beside = at(right, lastRow);
  return right + item.w <= width && isFree(beside, boxes, gap) ? beside : at(0, bottom);
}

function most(boxes: readonly Box[], read: (box: Box) => number): number {
  return boxes.reduce((found, box) => Math.max(found, read(box)), 0);
}

function isFree(wanted: Box, boxes: ReadonlyMap<string, Box>, gap: number): boolean {
  for (const box of boxes.values()) if (overlap(wanted, box, gap)) return false;
  return true;
}

/** Whether two boxes are closer than the gap. */
export function overlap(one: Box, other: Box, gap = 0): boolean {
  return (
    one.x < other.x + other.w + gap &&
    other.x < one.x + one.w + gap &&
    one.y < other.y + other.h + gap &&
    other.y < one.y + one.h + gap
  );
}
