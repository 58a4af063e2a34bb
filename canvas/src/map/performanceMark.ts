/** Notes in the page's own timeline when the map was first on the screen, for whoever measures how long that takes. */

export const FIRST_DRAWN = "molecule:ready";

let marked = false;

/** The map is about to be painted. The task behind the frame runs once that is done. */
export function markFirstDrawn(): void {
  if (marked) return;
  marked = true;
  requestAnimationFrame(() => setTimeout(() => performance.mark(FIRST_DRAWN)));
}
