/** Which parts of the map are rendered as DOM. */

import { NEAR_ZOOM, view, type Camera, type Size } from "./camera";
import type { Frame, Layout } from "./layout";
import { overlap, type Box } from "./pack";

/** More cards make moving the map slow. */
export const MAX_CARDS = 150;
/** Pixels around the window that are rendered in advance. */
const MARGIN = 160;

export interface Visible {
  near: boolean;
  /** Ids of cards, and of frames with the prefix `frame:`; null: all. */
  cards: ReadonlySet<string> | null;
  /** The part of the map whose lines are rendered; null: all. */
  lines: Box | null;
}

/** Lines are rendered so far around the window: what is near it changes with each card, lines only with this. */
const LINE_MARGIN = 600;

export function visibleIn(layout: Layout, camera: Camera, window: Size): Visible {
  if (layout.cards.size <= MAX_CARDS) return { near: true, cards: null, lines: null };
  const cards = camera.zoom >= NEAR_ZOOM ? seenCards(layout, camera, window, MARGIN) : null;
  if (cards === null) return { near: false, cards: new Set(), lines: null };
  const seen = view(camera, window, MARGIN);
  for (const [id, frame] of layout.frames) if (overlap(frame, seen)) cards.add(FRAME + id);
  return { near: true, cards, lines: view(camera, window, LINE_MARGIN) };
}

const FRAME = "frame:";

/** The cards that are rendered. */
export function cardsIn({ cards }: Layout, visible: Visible): [string, Box][] {
  return visible.cards === null ? [...cards] : chosen([...visible.cards], cards);
}

export function framesIn({ frames }: Layout, visible: Visible): [string, Frame][] {
  if (visible.cards === null) return [...frames];
  return chosen([...visible.cards].filter((id) => id.startsWith(FRAME)).map((id) => id.slice(FRAME.length)), frames);
}

function chosen<T>(ids: readonly string[], from: ReadonlyMap<string, T>): [string, T][] {
  return ids.flatMap((id): [string, T][] => {
    const found = from.get(id);
    return found === undefined ? [] : [[id, found]];
  });
}

export function isNear(layout: Layout, camera: Camera, window: Size): boolean {
  if (layout.cards.size <= MAX_CARDS) return true;
  return camera.zoom >= NEAR_ZOOM && seenCards(layout, camera, window, MARGIN) !== null;
}

/** Null if there are too many for the DOM. */
function seenCards(layout: Layout, camera: Camera, window: Size, margin: number): Set<string> | null {
  const seen = view(camera, window, margin);
  const found = new Set<string>();
  for (const [id, box] of layout.cards) {
    if (!overlap(box, seen)) continue;
    found.add(id);
    if (found.size > MAX_CARDS) return null;
  }
  return found;
}

/** The browser's text size relative to the default; cards start scaled by it. */
export function textScale(): number {
  return (Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16) / 16;
}
