/** Page-wide keyboard shortcuts. A single key is ignored while typing, while a dialog is open, or when disabled in the
 * settings. Escape belongs to the topmost open layer. */

import { useEffect, useRef } from "react";

type Action = () => void;

/** The code of a key that an input method takes. Safari ends a composition before its Enter, and marks it only so. */
const TAKEN_BY_INPUT_METHOD = 229;

/** Return whether a key belongs to an input method: its Enter takes a candidate and sends nothing. */
export function isComposing({ isComposing, keyCode }: Pick<KeyboardEvent, "isComposing" | "keyCode">): boolean {
  return isComposing || keyCode === TAKEN_BY_INPUT_METHOD;
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName);
}

function dialogIsOpen(): boolean {
  return document.querySelector("dialog[open]") !== null;
}

export function useSingleKeys(actions: Readonly<Record<string, Action>>, enabled: boolean): void {
  const latest = useRef(actions);
  latest.current = actions;
  useEffect(() => {
    if (!enabled) return;
    const onKey = (event: KeyboardEvent): void => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat || isComposing(event)) return;
      if (isTyping(event.target) || isInTree(event) || dialogIsOpen()) return;
      const action = latest.current[event.key.length === 1 ? event.key.toLowerCase() : event.key];
      if (!action) return;
      event.preventDefault();
      action();
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [enabled]);
}

/** In a tree, letters search for names. */
function isInTree(event: KeyboardEvent): boolean {
  return event.target instanceof HTMLElement && event.target.closest("[role=tree]") !== null && event.key !== "?";
}

const layers: Action[] = [];

function onEscape(event: KeyboardEvent): void {
  if (event.key !== "Escape" || event.defaultPrevented || isComposing(event) || dialogIsOpen()) return;
  const top = layers.at(-1);
  if (!top) return;
  event.preventDefault();
  top();
}

/** While mounted, Escape closes this layer, unless a later one is open. */
export function useLayer(close: Action): void {
  const latest = useRef(close);
  latest.current = close;
  useEffect(() => {
    const layer = (): void => latest.current();
    if (layers.length === 0) window.addEventListener("keydown", onEscape);
    layers.push(layer);
    return () => {
      layers.splice(layers.indexOf(layer), 1);
      if (layers.length === 0) window.removeEventListener("keydown", onEscape);
    };
  }, []);
}
