import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { pan, zoomAt, type Camera } from "./camera";
import { dragCards } from "./dragging";
import { isSpaceHeld, listen, onWheelTurned } from "./gestures";

const CAMERA: Camera = { x: 10, y: 20, zoom: 0.5 };
const AT = { x: 300, y: 200 };
const WINDOW = { w: 1_000, h: 700 };
const wheel = (part: Partial<WheelEvent>) => onWheelTurned({ deltaX: 0, deltaY: 0, deltaMode: 0, ctrlKey: false, metaKey: false, shiftKey: false, ...part }, AT, WINDOW)(CAMERA);

test("a wheel or trackpad pans in both directions, and Shift turns a wheel sideways", () => {
  expect(wheel({ deltaX: 30, deltaY: 50 })).toEqual(pan(CAMERA, -30, -50));
  expect(wheel({ deltaY: 3, deltaMode: 1 })).toEqual(pan(CAMERA, 0, -48));
  expect(wheel({ deltaY: 1, deltaMode: 2 })).toEqual(pan(CAMERA, 0, -700));
  expect(wheel({ deltaY: 50, shiftKey: true })).toEqual(pan(CAMERA, -50, 0));
  expect(wheel({ deltaX: 50, shiftKey: true })).toEqual(pan(CAMERA, -50, -0));
});

test("with Ctrl or Cmd, and in a pinch, the point under the pointer stays while it zooms", () => {
  fc.assert(
    fc.property(fc.integer({ min: -300, max: 300 }), fc.boolean(), (deltaY, isMac) => {
      const moved = wheel(isMac ? { deltaY, metaKey: true } : { deltaY, ctrlKey: true });
      expect(moved).toEqual(zoomAt(CAMERA, AT, moved.zoom / CAMERA.zoom));
      expect(Math.sign(moved.zoom - CAMERA.zoom)).toBe(-Math.sign(deltaY) + 0);
    }),
  );
  expect(wheel({ deltaY: 10_000, ctrlKey: true }).zoom).toBeGreaterThan(CAMERA.zoom / 2);
});

afterEach(() => document.body.replaceChildren());

function stage() {
  const element = document.createElement("div");
  const card = document.createElement("button");
  card.dataset["id"] = "a";
  element.append(card);
  const field = document.createElement("input");
  document.body.append(element, field);
  element.setPointerCapture = vi.fn();
  let camera = CAMERA;
  const stop = listen({ element, change: (move) => (camera = move(camera)), fit: vi.fn(), middle: () => AT, size: () => WINDOW });
  return { element, card, field, stop, camera: () => camera };
}

const press = (target: Element, type: string, key = " "): boolean => target.dispatchEvent(new KeyboardEvent(type, { key, bubbles: true, cancelable: true }));
const pointer = (target: Element, type: string, clientX: number): boolean => target.dispatchEvent(new MouseEvent(type, { bubbles: true, clientX, clientY: 0 }));

test("with the space bar held, a drag that begins on a card pans also while cards can be moved", () => {
  const { element, card, stop, camera } = stage();
  const shown = vi.fn();
  const end = dragCards({ element, targetAt: () => "b", show: shown, drop: vi.fn() });
  const drag = (): void => {
    pointer(card, "pointerdown", 0);
    pointer(element, "pointermove", 50);
    pointer(element, "pointerup", 50);
  };
  expect(press(element, "keydown")).toBe(false);
  drag();
  expect(camera().x).toBe(CAMERA.x + 50);
  expect(shown).not.toHaveBeenCalled();
  press(element, "keyup");
  drag();
  expect(camera().x).toBe(CAMERA.x + 50);
  expect(shown).toHaveBeenCalled();
  end();
  stop();
});

test("the space bar keeps its meaning in fields", () => {
  const { element, field, stop } = stage();
  expect(press(field, "keydown")).toBe(true);
  expect(isSpaceHeld(element)).toBe(false);
  press(document.body, "keydown");
  expect(isSpaceHeld(element)).toBe(true);
  stop();
  window.dispatchEvent(new Event("blur"));
});
