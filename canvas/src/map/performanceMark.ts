/** Notes in the page's own timeline when the map was first on the screen, for whoever measures how long that takes. */

export const READY = "molecule:ready";

let noted = false;

/** The map is about to be painted. The task behind the frame runs once that is done. */
export function noteReady(): void {
  if (noted) return;
  noted = true;
  requestAnimationFrame(() => setTimeout(() => performance.mark(READY)));
}
