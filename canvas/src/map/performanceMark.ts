/** Set a performance mark when the map is first drawn; the benchmark of page load reads it. */

export const FIRST_DRAWN = "molecule:ready";

let marked = false;

/** Call before the map is painted: the task after the animation frame runs once it is. */
export function markFirstDrawn(): void {
  if (marked) return;
  marked = true;
  requestAnimationFrame(() => setTimeout(() => performance.mark(FIRST_DRAWN)));
}
