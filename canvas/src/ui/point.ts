/** Points of the window, for what opens at them. */

export interface Point {
  x: number;
  y: number;
}

/** The point below a button, for its menu. */
export function pointBelow(element: Element): Point {
  const { left, bottom } = element.getBoundingClientRect();
  return { x: left, y: bottom + 4 };
}
