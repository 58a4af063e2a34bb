/** What the scene of an organisation looked like last on this page: it is found again as it was left. */

import type { Camera } from "./camera";
import type { Layout } from "./layout";

interface MapMemory {
  camera: Camera | null;
  layout: Layout | null;
  /** How many cards there were when it was fitted last; none once somebody moved it. */
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
