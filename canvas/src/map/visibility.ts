/** Which parts of the map are rendered as DOM. */

import { NEAR_ZOOM, view, type Camera, type Size } from "./camera";
import type { Layout } from "./layout";
import { overlap } from "./pack";

/** More cards make moving the map slow. */
export const MAX_CARDS = 150;
/** Pixels around the window that are rendered in advance. */
const MARGIN = 160;

export interface Visible {
  near: boolean;
  /** Ids of cards, and of frames with the prefix `frame:`; null: all. */
  cards: ReadonlySet<string> | null;
}

export function visibleIn(layout: Layout, camera: Camera, window: Size): Visible {
  if (layout.cards.size <= MAX_CARDS) return { near: true, cards: null };
  const cards = camera.zoom >= NEAR_ZOOM ? seenCards(layout, camera, window, MARGIN) : null;
  if (cards === null) return { near: false, cards: new Set() };
  const seen = view(camera, window, MARGIN);
  for (const [id, frame] of layout.frames) if (overlap(frame, seen)) cards.add(`frame:${id}`);
  return { near: true, cards };
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
