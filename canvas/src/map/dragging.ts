/** Drag a card to another team with the mouse or a pen, while the organisation is edited: otherwise a drag pans the map, on
 * a card too. Touch always pans; touch and keyboard use the menu instead. */

import type { Camera } from "./camera";
import { isSpaceHeld } from "./gestures";
import type { Layout } from "./layout";
import { overlap } from "./pack";

const SLACK = 6;

export interface Point {
  x: number;
  y: number;
}

/** The agent that would become the parent of a card dropped at a point: the agent whose card is there, otherwise the lead of
 * the innermost team. Null: none, or nothing would change. */
export function dropTarget(layout: Layout, camera: Camera, point: Point, carried: { id: string; parentId: string | null }): string | null {
  const found = agentAt(layout, camera, point, carried.id);
  return found === carried.id || found === carried.parentId ? null : found;
}

function agentAt(layout: Layout, camera: Camera, point: Point, carried: string): string | null {
  const spot = { x: (point.x - camera.x) / camera.zoom, y: (point.y - camera.y) / camera.zoom, w: 0, h: 0 };
  for (const [id, box] of layout.cards) if (id !== carried && overlap(spot, box)) return id;
  let found: string | null = null;
  let depth = -1;
  for (const [id, frame] of layout.frames) {
    if (frame.depth > depth && overlap(spot, frame)) [found, depth] = [id, frame.depth];
  }
  return found;
}

interface DragOptions {
  element: HTMLElement;
  targetAt: (point: Point, carried: string) => string | null;
  /** Position of the dragged card and its target; null: the drag has ended. */
  show: (carry: { id: string; at: Point; target: string | null } | null) => void;
  drop: (id: string, target: string) => void;
}

export function dragCards({ element, targetAt, show, drop }: DragOptions): () => void {
  let start: { id: string; at: Point; pointer: number } | null = null;
  let carrying = false;
  const local = (event: PointerEvent): Point => {
    const box = element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const end = (): void => {
    start = null;
    if (!carrying) return;
    carrying = false;
    element.removeAttribute("data-carrying");
    show(null);
  };
  const down = (event: PointerEvent): void => {
    const card = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-id]") : null;
    const id = card?.dataset["id"];
    if (id === undefined || event.button !== 0 || event.pointerType === "touch" || isSpaceHeld(element)) return;
    event.stopPropagation(); // otherwise it would pan the map
    start = { id, at: local(event), pointer: event.pointerId };
  };
  const move = (event: PointerEvent): void => {
    if (start === null || event.pointerId !== start.pointer) return;
    const at = local(event);
    if (!carrying && Math.hypot(at.x - start.at.x, at.y - start.at.y) < SLACK) return;
    if (!carrying) {
      carrying = true;
      element.setPointerCapture(event.pointerId);
      element.setAttribute("data-carrying", "");
    }
    show({ id: start.id, at, target: targetAt(at, start.id) });
  };
  const up = (event: PointerEvent): void => {
    if (start === null || event.pointerId !== start.pointer) return;
    const { id } = start;
    const target = carrying ? targetAt(local(event), id) : null;
    const carried = carrying;
    end();
    if (!carried) return;
    element.addEventListener("click", suppressClick, { capture: true, once: true });
    setTimeout(() => element.removeEventListener("click", suppressClick, { capture: true }), 0);
    if (target !== null) drop(id, target);
  };
  const key = (event: KeyboardEvent): void => {
    if (event.key !== "Escape" || !carrying) return;
    event.stopPropagation();
    end();
  };
  element.addEventListener("pointerdown", down, { capture: true });
  element.addEventListener("pointermove", move);
  element.addEventListener("pointerup", up);
  element.addEventListener("pointercancel", end);
  window.addEventListener("keydown", key, { capture: true });
  return () => {
    end();
    element.removeEventListener("pointerdown", down, { capture: true });
    element.removeEventListener("pointermove", move);
    element.removeEventListener("pointerup", up);
    element.removeEventListener("pointercancel", end);
    window.removeEventListener("keydown", key, { capture: true });
  };
}

/** Suppress the click that follows a drop. */
function suppressClick(event: Event): void {
  event.stopPropagation();
  event.preventDefault();
}
