/** The last camera and layout of the map on this page, restored when it is opened again. */

import type { Camera } from "./camera";
import type { Move } from "../core/session/undo";
import type { Layout } from "./layout";

export interface MapMemory {
  camera: Camera | null;
  layout: Layout | null;
  /** The last move of an agent on this page that the layout has, and the layout before it. */
  move: Move | null;
  beforeMove: Layout | null;
  /** The agent to bring into view: it was moved. */
  reveal: string | null;
  /** Number of cards when it was last fitted; null once the person moved it. */
  fittedTo: number | null;
}

const scenes = new Map<string, MapMemory>();

export function mapMemory(orgId: string): MapMemory {
  const known = scenes.get(orgId);
  if (known) return known;
  const made: MapMemory = { camera: null, layout: null, move: null, beforeMove: null, reveal: null, fittedTo: null };
  scenes.set(orgId, made);
  return made;
}
