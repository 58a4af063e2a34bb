import { expect, test, vi } from "vitest";
import { dragCards, dropTarget } from "./dragging";
import { layOut } from "./layout";
import type { Tree } from "../core/state/tree";

const TREE: Tree = {
  roots: ["lead"],
  children: new Map([["lead", ["a", "team"]], ["team", ["b"]]]),
  parent: new Map([["a", "lead"], ["team", "lead"], ["b", "team"]]),
};
const LAYOUT = layOut(TREE, new Set(), null);
const CAMERA = { x: 30, y: 20, zoom: 0.5 };

function pointOf(box: { x: number; y: number } | undefined, dx = 4, dy = 4): { x: number; y: number } {
  return { x: ((box?.x ?? 0) + dx) * CAMERA.zoom + CAMERA.x, y: ((box?.y ?? 0) + dy) * CAMERA.zoom + CAMERA.y };
}

test("a drop on a card means that agent, on a frame the lead of the innermost team, beside all nobody", () => {
  const at = (point: { x: number; y: number }, id = "a"): string | null => dropTarget(LAYOUT, CAMERA, point, { id, parentId: TREE.parent.get(id) ?? null });
  expect(at(pointOf(LAYOUT.cards.get("b")))).toBe("b");
  expect(at(pointOf(LAYOUT.frames.get("team")))).toBe("team");
  expect(at(pointOf(LAYOUT.frames.get("lead")), "b")).toBe("lead");
  expect(at({ x: -500, y: -500 })).toBeNull();
});

test("a drop on the own parent, in its team, or on the own team means nothing", () => {
  const at = (point: { x: number; y: number }, id: string): string | null => dropTarget(LAYOUT, CAMERA, point, { id, parentId: TREE.parent.get(id) ?? null });
  expect(at(pointOf(LAYOUT.frames.get("lead")), "a")).toBeNull();
  expect(at(pointOf(LAYOUT.cards.get("lead")), "a")).toBeNull();
  expect(at(pointOf(LAYOUT.cards.get("b")), "b")).toBeNull();
  expect(at(pointOf(LAYOUT.frames.get("team")), "team")).toBeNull();
});

function scene(): { element: HTMLElement; card: HTMLElement; shown: unknown[]; dropped: string[][]; stop: () => void } {
  const element = document.createElement("div");
  const card = document.createElement("button");
  card.dataset["id"] = "a";
  element.append(card);
  document.body.replaceChildren(element);
  element.setPointerCapture = vi.fn();
  const shown: unknown[] = [];
  const dropped: string[][] = [];
  const stop = dragCards({
    element,
    targetAt: (point) => (point.x > 100 ? "team" : null),
    show: (carry) => shown.push(carry === null ? null : carry.target),
    drop: (id, target) => dropped.push([id, target]),
  });
  return { element, card, shown, dropped, stop };
}

function pointer(type: string, x: number, target: HTMLElement, part: PointerEventInit = {}): void {
  target.dispatchEvent(new PointerEvent(type, { bubbles: true, clientX: x, clientY: 0, pointerId: 1, pointerType: "mouse", ...part }));
}

test("a card that is carried to a team is dropped there, and the click that follows opens nothing", () => {
  const { element, card, shown, dropped, stop } = scene();
  const clicked = vi.fn();
  element.addEventListener("click", clicked);
  pointer("pointerdown", 10, card);
  pointer("pointermove", 12, card);
  expect(shown).toEqual([]);
  pointer("pointermove", 50, card);
  pointer("pointermove", 150, card);
  pointer("pointerup", 150, card);
  card.click();
  expect([shown, dropped]).toEqual([[null, "team", null], [["a", "team"]]]);
  expect(clicked).not.toHaveBeenCalled();
  stop();
});

test("a press that hardly moves is a click, Escape gives a carried card up, and fingers carry nothing", () => {
  const { card, dropped, shown, stop } = scene();
  pointer("pointerdown", 10, card);
  pointer("pointerup", 12, card);
  pointer("pointerdown", 10, card);
  pointer("pointermove", 150, card);
  window.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape" }));
  pointer("pointerup", 150, card);
  expect(shown).toEqual(["team", null]);
  pointer("pointerdown", 10, card, { pointerType: "touch" });
  pointer("pointermove", 150, card, { pointerType: "touch" });
  pointer("pointerup", 150, card, { pointerType: "touch" });
  expect(dropped).toEqual([]);
  expect(shown).toHaveLength(2);
  stop();
});
