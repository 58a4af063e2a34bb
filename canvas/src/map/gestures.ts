/** Turn pointer, wheel and key events into camera movements. A press that moves is a drag and never a click. */

import { pan, zoomAt, type Camera, type Size } from "./camera";

const CLICK_SLACK = 4;
export const KEY_STEP = 64;
export const ZOOM_STEP = 1.25;
/** A pinch on a trackpad is a wheel of small steps with Ctrl; a mouse wheel with Ctrl has steps of about 100 pixels. */
const ZOOM_SPEED = 0.008;
const MAX_WHEEL_STEP = 40;
const LINE_PIXELS = 16;

interface Stage {
  element: HTMLElement;
  change: (move: (camera: Camera) => Camera) => void;
  fit: () => void;
  middle: () => { x: number; y: number };
  size: () => Size;
}

export function listen(stage: Stage): () => void {
  const tracker = new PointerTracker(stage);
  const { element } = stage;
  const onWheel = (event: WheelEvent): void => {
    event.preventDefault();
    stage.change(onWheelTurned(event, tracker.local(event), stage.size()));
  };
  const space = holdSpace(element);
  const onKey = (event: KeyboardEvent): void => {
    if (event.target !== element || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!onKeyDown(stage, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  };
  element.addEventListener("wheel", onWheel, { passive: false });
  element.addEventListener("keydown", onKey);
  element.addEventListener("pointerdown", tracker.down);
  element.addEventListener("pointermove", tracker.move);
  element.addEventListener("pointerup", tracker.up);
  element.addEventListener("pointercancel", tracker.up);
  element.addEventListener("click", tracker.click, { capture: true });
  return () => {
    space();
    element.removeEventListener("wheel", onWheel);
    element.removeEventListener("keydown", onKey);
    element.removeEventListener("pointerdown", tracker.down);
    element.removeEventListener("pointermove", tracker.move);
    element.removeEventListener("pointerup", tracker.up);
    element.removeEventListener("pointercancel", tracker.up);
    element.removeEventListener("click", tracker.click, { capture: true });
  };
}

type Wheel = Pick<WheelEvent, "deltaX" | "deltaY" | "deltaMode" | "ctrlKey" | "metaKey" | "shiftKey">;

/** A wheel or two fingers on a trackpad pan; with Ctrl or Cmd, and in a pinch, they zoom. Shift turns a wheel sideways. */
export function onWheelTurned(event: Wheel, at: { x: number; y: number }, window: Size): (camera: Camera) => Camera {
  const unit = event.deltaMode === 1 ? { w: LINE_PIXELS, h: LINE_PIXELS } : event.deltaMode === 2 ? window : { w: 1, h: 1 };
  const [dx, dy] = [event.deltaX * unit.w, event.deltaY * unit.h];
  if (event.ctrlKey || event.metaKey) {
    const step = Math.max(-MAX_WHEEL_STEP, Math.min(MAX_WHEEL_STEP, dy));
    return (camera) => zoomAt(camera, at, Math.exp(-step * ZOOM_SPEED));
  }
  // Some browsers turn it themselves.
  const isTurned = event.shiftKey && dx === 0;
  return (camera) => (isTurned ? pan(camera, -dy, 0) : pan(camera, -dx, -dy));
}

/** While the space bar is held, a drag pans wherever it begins. In fields and on buttons it keeps its meaning. */
function holdSpace(element: HTMLElement): () => void {
  const hold = (event: KeyboardEvent): void => {
    const target = event.target instanceof Element ? event.target : null;
    if (event.key !== " " || !(target === document.body || (target !== null && element.contains(target)))) return;
    event.preventDefault(); // neither scrolls nor clicks the card that has the focus
    element.setAttribute(HELD, "");
  };
  const release = (event: Event): void => {
    if (event instanceof KeyboardEvent && event.key !== " ") return;
    if (element.hasAttribute(HELD)) event.preventDefault();
    element.removeAttribute(HELD);
  };
  window.addEventListener("keydown", hold);
  window.addEventListener("keyup", release);
  window.addEventListener("blur", release);
  return () => {
    window.removeEventListener("keydown", hold);
    window.removeEventListener("keyup", release);
    window.removeEventListener("blur", release);
  };
}

/** Whether a drag pans whatever is under the pointer. */
export function isSpaceHeld(element: HTMLElement): boolean {
  return element.hasAttribute(HELD);
}

const HELD = "data-space";

function onKeyDown({ change, fit, middle }: Stage, key: string): boolean {
  switch (key) {
    case "+":
    case "=":
      change((camera) => zoomAt(camera, middle(), ZOOM_STEP));
      return true;
    case "-":
      change((camera) => zoomAt(camera, middle(), 1 / ZOOM_STEP));
      return true;
    case "0":
      fit();
      return true;
    case "ArrowLeft":
      change((camera) => pan(camera, KEY_STEP, 0));
      return true;
    case "ArrowRight":
      change((camera) => pan(camera, -KEY_STEP, 0));
      return true;
    case "ArrowUp":
      change((camera) => pan(camera, 0, KEY_STEP));
      return true;
    case "ArrowDown":
      change((camera) => pan(camera, 0, -KEY_STEP));
      return true;
    default:
      return false;
  }
}

interface Point {
  x: number;
  y: number;
}

/** One pointer pans, two pinch. */
class PointerTracker {
  private readonly stage: Stage;
  private readonly fingers = new Map<number, Point>();
  private start: Point = { x: 0, y: 0 };
  private dragged = false;

  constructor(stage: Stage) {
    this.stage = stage;
  }

  local(event: MouseEvent): Point {
    const box = this.stage.element.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  readonly down = (event: PointerEvent): void => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    this.fingers.set(event.pointerId, this.local(event));
    if (this.fingers.size > 1) return;
    this.start = this.local(event);
    this.dragged = false;
  };

  readonly move = (event: PointerEvent): void => {
    const before = this.fingers.get(event.pointerId);
    if (!before) return;
    const now = this.local(event);
    if (!this.dragged && this.fingers.size === 1 && distance(now, this.start) < CLICK_SLACK) return;
    if (!this.dragged) this.grab(event);
    this.dragged = true;
    const other = [...this.fingers].find(([id]) => id !== event.pointerId)?.[1];
    this.fingers.set(event.pointerId, now);
    if (other === undefined) return this.stage.change((camera) => pan(camera, now.x - before.x, now.y - before.y));
    const [was, is] = [middleOf(before, other), middleOf(now, other)];
    const factor = distance(now, other) / Math.max(1, distance(before, other));
    this.stage.change((camera) => zoomAt(pan(camera, is.x - was.x, is.y - was.y), is, factor));
  };

  readonly up = (event: PointerEvent): void => {
    this.fingers.delete(event.pointerId);
    if (this.fingers.size === 0) this.stage.element.removeAttribute("data-dragging");
  };

  readonly click = (event: MouseEvent): void => {
    if (!this.dragged) return;
    this.dragged = false;
    event.stopPropagation();
    event.preventDefault();
  };

  private grab(event: PointerEvent): void {
    this.stage.element.setPointerCapture(event.pointerId);
    this.stage.element.setAttribute("data-dragging", "");
  }
}

function distance(one: Point, other: Point): number {
  return Math.hypot(one.x - other.x, one.y - other.y);
}

function middleOf(one: Point, other: Point): Point {
  return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 };
}
