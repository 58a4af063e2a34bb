/** What is at a point of the map where it is painted. Pure. */

import type { Camera } from "./camera";
import { isTitled } from "./detail";
import type { Edge } from "./edges";
import type { Layout } from "./layout";
import { overlap, type Box } from "./pack";
import { distanceTo, type Point } from "./routes";

/** Pixels around a line that belong to it. */
const NEAR_LINE = 6;
/** Least width in the window, and width on the map, of the part of a collapsed team's card that expands it. */
const UNFOLD_PIXELS = 24;
const UNFOLD_WIDTH = 60;

export type Hit =
  | { kind: "card"; id: string }
  /** The part of the card of a collapsed team that expands it. */
  | { kind: "unfold"; id: string }
  | { kind: "title"; id: string }
  | { kind: "edge"; edge: Edge };

interface Painted {
  layout: Layout;
  edges: readonly Edge[];
  folded: ReadonlySet<string>;
}

export function hitAt({ layout, edges, folded }: Painted, camera: Camera, point: Point): Hit | null {
  const at = { x: (point.x - camera.x) / camera.zoom, y: (point.y - camera.y) / camera.zoom };
  const spot = { ...at, w: 0, h: 0 };
  for (const [id, box] of layout.cards) {
    if (!overlap(spot, box)) continue;
    return folded.has(id) && isAtEnd(box, at, camera.zoom) ? { kind: "unfold", id } : { kind: "card", id };
  }
  const edge = edgeAt(edges, at, camera.zoom);
  if (edge !== null) return { kind: "edge", edge };
  for (const [id, frame] of layout.frames) {
    if (isTitled(frame, camera.zoom) && overlap(spot, { ...frame, h: frame.title })) return { kind: "title", id };
  }
  return null;
}

function isAtEnd({ x, w }: Box, at: Point, zoom: number): boolean {
  return at.x > x + w - Math.min(w / 2, Math.max(UNFOLD_WIDTH, UNFOLD_PIXELS / zoom));
}

function edgeAt(edges: readonly Edge[], at: Point, zoom: number): Edge | null {
  let found: Edge | null = null;
  let least = NEAR_LINE / zoom;
  for (const edge of edges) {
    const { x, y, w, h } = edge.extent;
    if (at.x < x - least || at.x > x + w + least || at.y < y - least || at.y > y + h + least) continue;
    const far = distanceTo(edge.points, at);
    if (far < least) [found, least] = [edge, far];
  }
  return found;
}
