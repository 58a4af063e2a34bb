/** Which lines of a log are rendered, and the scroll position of its panel: at the end it follows, elsewhere nothing
 * moves. */

import { useLayoutEffect, useMemo, useRef, useState, type RefObject } from "react";
import type { EntryItem } from "../../core/wire";
import { lastOf, type Log } from "./fold";

/** At most this many lines are rendered at once. */
const SHOWN = 300;
/** Closer to the end than this, the panel follows it. */
const NEAR_PX = 80;

interface VisibleEntries {
  /** For the first element in the scrolling panel. */
  inside: RefObject<HTMLElement | null>;
  lines: readonly EntryItem[];
  /** Render as many earlier lines again. */
  more: () => void;
}

/** `below`: what is shown below the lines; when it changes, the panel may have grown. */
export function useVisibleEntries(log: Log | undefined, below: unknown): VisibleEntries {
  const [count, setCount] = useState(SHOWN);
  /** First rendered line while the person reads back: a new line at the end removes none at the top. */
  const [held, setHeld] = useState<number | null>(null);
  const last = log === undefined ? 0 : lastOf(log);
  const first = held ?? last - count + 1;
  const lines = useMemo(() => (log?.lines ?? []).filter(({ ordinal }) => ordinal >= first), [log, first]);
  const inside = useRef<HTMLElement>(null);
  const near = useRef(true);
  const look = (): void => {
    const panel = inside.current?.parentElement;
    if (!panel) return;
    const { scrollHeight, scrollTop, clientHeight } = scrollerOf(panel);
    near.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
    setHeld(near.current ? null : first);
  };
  const latest = useRef(look);
  latest.current = look;
  useLayoutEffect(() => {
    const panel = inside.current?.parentElement;
    if (!panel) return;
    const onLook = (): void => latest.current();
    document.addEventListener("scroll", onLook, true); // on a low window the page scrolls instead of the panel
    // Expanding an entry at the end moves the position away from the end; `toggle` does not bubble.
    panel.addEventListener("toggle", onLook, true);
    return () => {
      document.removeEventListener("scroll", onLook, true);
      panel.removeEventListener("toggle", onLook, true);
    };
  }, []);
  useLayoutEffect(() => {
    const panel = inside.current?.parentElement;
    if (panel && near.current) panel.scrollTop = panel.scrollHeight;
  }, [last, held, below]);
  // Inserted earlier lines move the position away from the end without a scroll event.
  useLayoutEffect(() => latest.current(), [log?.from, count]);
  const more = (): void => {
    setCount((before) => before + SHOWN);
    setHeld((before) => (before === null ? null : before - SHOWN));
  };
  return { inside, lines, more };
}

/** The element that scrolls: the panel, or an ancestor. */
function scrollerOf(panel: HTMLElement): HTMLElement {
  for (let each: HTMLElement | null = panel; each !== null; each = each.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(each).overflowY)) return each;
  }
  return panel;
}
