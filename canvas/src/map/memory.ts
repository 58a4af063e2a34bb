/** What the scene of an organisation looked like last on this page: it is found again as it was left. */

import type { Camera } from "./camera";
import type { Layout } from "./layout";

interface Remembered {
  camera: Camera | null;
  layout: Layout | null;
  /** How many cards there were when it was fitted last; none once somebody moved it. */
  fittedTo: number | null;
}

const scenes = new Map<string, Remembered>();

export function sceneMemory(orgId: string): Remembered {
  const known = scenes.get(orgId);
  if (known) return known;
  const made: Remembered = { camera: null, layout: null, fittedTo: null };
  scenes.set(orgId, made);
  return made;
}
