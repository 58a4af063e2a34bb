/** Positions of all agents and teams. Pure and deterministic; depends on neither names nor states. A team is a frame around
 * its lead's card, its members' cards and the frames of its sub-teams. An existing layout is changed as little as possible:
 * what was there keeps its place, and a frame that grew pushes its neighbours aside.
 *
 * Titles and gutters grow with the organisation, so that the outer ones can be read and used when all of it is in view. */

import { childrenOf, type Tree } from "../core/state/tree";
import { arrange, type Arrangement, type Box, type Item } from "./pack";

const CARD = { w: 200, h: 84 } as const;
/** Least space between two boxes of a frame, and between them and its border. Lines run in it. */
const GAP = 20;
/** Least height of the title of a frame. */
export const TITLE = 30;
/** Height in the window of the title of a frame when the team above it fills the window, and width of gutters there. */
const TITLE_PIXELS = 18;
const GUTTER_PIXELS = 10;
/** Map that an agent takes up, and what it takes up more for each level of frames, with gutters, titles and unused corners; and
 * the window. Measured on organisations of 200 to 10,000. */
const AREA_OF_AGENT = 30_000;
const AREA_OF_LEVEL = 20_000;
const WINDOW_HEIGHT = 760;
const WINDOW_ASPECT = 1.6;
/** The space of a frame is changed only when it has to be this much larger, since all in it moves. */
const MUCH_LARGER = 2;

export interface Spacing {
  /** Between the boxes inside, and between them and the border. */
  gap: number;
  /** Height of the title. */
  title: number;
}

export interface Frame extends Box, Spacing {
  depth: number;
}

export interface Layout {
  cards: ReadonlyMap<string, Box>;
  frames: ReadonlyMap<string, Frame>;
  w: number;
  h: number;
  /** Arrangement and spacing inside each frame, and with the key `OUTSIDE` around all, for the next layout. */
  arrangements: ReadonlyMap<string, Arrangement>;
  spacings: ReadonlyMap<string, Spacing>;
}

export const OUTSIDE = "";

export function layOut(tree: Tree, collapsed: ReadonlySet<string>, before: Layout | null): Layout {
  const isFrame = (id: string): boolean => !collapsed.has(id) && childrenOf(tree, id).length > 0;
  const order = visible(tree, isFrame);
  const spacings = spacingsOf(tree, order, isFrame, before);
  const arrangements = new Map<string, Arrangement>();
  const itemOf = (id: string): Item => {
    const [inside, spacing] = [arrangements.get(id), spacings.get(id)];
    return inside && spacing ? { key: id, ...outer(inside, spacing) } : { key: id, ...CARD };
  };
  const put = (id: string, items: readonly Item[]): Arrangement => {
    const gap = spacings.get(id)?.gap ?? GAP;
    const made = arrange(items, gap, before?.spacings.get(id)?.gap === gap ? before.arrangements.get(id) : undefined);
    arrangements.set(id, made);
    return made;
  };
  for (const id of [...order].reverse()) if (isFrame(id)) put(id, [{ key: id, ...CARD }, ...childrenOf(tree, id).map(itemOf)]);
  const { w, h } = put(OUTSIDE, tree.roots.map(itemOf));
  return { ...placeAll(order, arrangements, spacings), w, h, arrangements, spacings };
}

function spacingsOf(tree: Tree, order: readonly string[], isFrame: (id: string) => boolean, before: Layout | null): Map<string, Spacing> {
  const extents = new Map<string, Extent>();
  for (const id of [...order].reverse()) extents.set(id, isFrame(id) ? extentOf(childrenOf(tree, id), extents) : { agents: 1, levels: 0 });
  const spacings = new Map<string, Spacing>();
  const add = (id: string, { gap, title }: Spacing): void => {
    const kept = before?.spacings.get(id);
    spacings.set(id, { gap: keptOr(gap, kept?.gap), title: keptOr(title, kept?.title) });
  };
  const around = extentOf(tree.roots, extents);
  const all = { agents: around.agents - 1, levels: around.levels - 1 };
  add(OUTSIDE, { gap: 2 * Math.max(GAP, tree.roots.some(isFrame) ? inWindow(GUTTER_PIXELS / 2, all) : 0), title: 0 });
  for (const id of order) {
    if (!isFrame(id)) continue;
    const hasTeams = childrenOf(tree, id).some(isFrame);
    const above = extents.get(tree.parent.get(id) ?? "") ?? all;
    add(id, {
      gap: Math.max(GAP, hasTeams ? inWindow(GUTTER_PIXELS, extents.get(id) ?? all) : 0),
      title: Math.max(TITLE, inWindow(TITLE_PIXELS, above)),
    });
  }
  return spacings;
}

function keptOr(wanted: number, kept: number | undefined): number {
  return kept === undefined || wanted >= MUCH_LARGER * kept ? wanted : kept;
}

interface Extent {
  agents: number;
  /** Levels of frames. */
  levels: number;
}

function extentOf(inside: readonly string[], extents: ReadonlyMap<string, Extent>): Extent {
  const found = { agents: 1, levels: 0 };
  for (const id of inside) {
    const { agents, levels } = extents.get(id) ?? { agents: 1, levels: 0 };
    found.agents += agents;
    found.levels = Math.max(found.levels, levels);
  }
  return { ...found, levels: found.levels + 1 };
}

/** Length on the map of some pixels of a window that is filled. Even, so that the middle of a gutter is whole. */
function inWindow(pixels: number, { agents, levels }: Extent): number {
  const area = agents * (AREA_OF_AGENT + AREA_OF_LEVEL * levels);
  return 2 * Math.round((pixels * Math.max(1, Math.sqrt(area / WINDOW_ASPECT) / WINDOW_HEIGHT)) / 2);
}

function visible(tree: Tree, isFrame: (id: string) => boolean): string[] {
  const order: string[] = [];
  const open = [...tree.roots].reverse();
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    order.push(id);
    if (isFrame(id)) open.push(...[...childrenOf(tree, id)].reverse());
  }
  return order;
}

function outer(inside: Arrangement, { gap, title }: Spacing): { w: number; h: number } {
  return { w: inside.w + 2 * gap, h: inside.h + title + 2 * gap };
}

function placeAll(
  order: readonly string[],
  arrangements: ReadonlyMap<string, Arrangement>,
  spacings: ReadonlyMap<string, Spacing>,
): Pick<Layout, "cards" | "frames"> {
  const cards = new Map<string, Box>();
  const frames = new Map<string, Frame>();
  const place = (holder: string, left: number, top: number, depth: number): void => {
    for (const [key, box] of arrangements.get(holder)?.boxes ?? []) {
      const placed = { ...box, x: left + box.x, y: top + box.y };
      const spacing = key === holder ? undefined : spacings.get(key);
      if (spacing) frames.set(key, { ...placed, ...spacing, depth });
      else cards.set(key, placed);
    }
  };
  place(OUTSIDE, 0, 0, 0);
  for (const id of order) {
    const frame = frames.get(id);
    if (frame) place(id, frame.x + frame.gap, frame.y + frame.title + frame.gap, frame.depth + 1);
  }
  return { cards, frames };
}
