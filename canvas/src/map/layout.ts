/** Positions of all agents and teams. Pure and deterministic; depends on neither names nor states. A team is a frame around
 * its lead's card, its members' cards and the frames of its sub-teams. An existing layout is changed as little as possible:
 * what was there keeps its place, and a frame that grew pushes its neighbours aside. */

import { childrenOf, type Tree } from "../core/state/tree";
import { arrange, type Arrangement, type Box, type Item } from "./pack";

const CARD = { w: 200, h: 84 } as const;
const GAP = 16;
const PAD = 14;
export const HEAD = 34;

export interface Frame extends Box {
  depth: number;
}

export interface Layout {
  cards: ReadonlyMap<string, Box>;
  frames: ReadonlyMap<string, Frame>;
  w: number;
  h: number;
  /** Arrangement inside each frame, for the next layout. */
  arrangements: ReadonlyMap<string, Arrangement>;
}

const OUTSIDE = "";

export function layOut(tree: Tree, collapsed: ReadonlySet<string>, before: Layout | null): Layout {
  const isFrame = (id: string): boolean => !collapsed.has(id) && childrenOf(tree, id).length > 0;
  const order = visible(tree, isFrame);
  const arrangements = new Map<string, Arrangement>();
  const itemOf = (id: string): Item => {
    const inside = arrangements.get(id);
    return inside ? { key: id, ...outer(inside) } : { key: id, ...CARD };
  };
  for (const id of [...order].reverse()) {
    if (!isFrame(id)) continue;
    const items = [{ key: id, ...CARD }, ...childrenOf(tree, id).map(itemOf)];
    arrangements.set(id, arrange(items, GAP, before?.arrangements.get(id)));
  }
  const outside = arrange(tree.roots.map(itemOf), GAP * 2, before?.arrangements.get(OUTSIDE));
  arrangements.set(OUTSIDE, outside);
  return { ...placeAll(order, arrangements), w: outside.w, h: outside.h, arrangements };
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

function outer(inside: Arrangement): { w: number; h: number } {
  return { w: inside.w + 2 * PAD, h: inside.h + HEAD + PAD };
}

function placeAll(order: readonly string[], arrangements: ReadonlyMap<string, Arrangement>): Pick<Layout, "cards" | "frames"> {
  const cards = new Map<string, Box>();
  const frames = new Map<string, Frame>();
  const place = (holder: string, left: number, top: number, depth: number): void => {
    for (const [key, box] of arrangements.get(holder)?.boxes ?? []) {
      const placed = { ...box, x: left + box.x, y: top + box.y };
      if (key !== holder && arrangements.has(key)) frames.set(key, { ...placed, depth });
      else cards.set(key, placed);
    }
  };
  place(OUTSIDE, 0, 0, 0);
  for (const id of order) {
    const frame = frames.get(id);
    if (frame) place(id, frame.x + PAD, frame.y + HEAD, frame.depth + 1);
  }
  return { cards, frames };
}
