/** The last camera and layout of the map on this page, restored when it is opened again. */

import type { Camera } from "./camera";
import type { Layout } from "./layout";

interface MapMemory {
  camera: Camera | null;
  layout: Layout | null;
  /** Number of cards when it was last fitted; null once the person moved it. */
  fittedTo: number | null;
}

const scenes = new Map<string, MapMemory>();

export function mapMemory(orgId: string): MapMemory {
  const known = scenes.get(orgId);
  if (known) return known;
  const made: MapMemory = { camera: null, layout: null, fittedTo: null };
  scenes.set(orgId, made);
  return made;
}
