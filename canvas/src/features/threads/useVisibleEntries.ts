/** Which lines of a log are in the document, and where its panel is scrolled to: at the end for whoever is there, and nothing
 * moves for whoever reads. */

import { useLayoutEffect, useMemo, useRef, useState, type RefObject } from "react";
import type { EntryItem } from "../../core/wire";
import { lastOf, type Log } from "./fold";

/** More lines than these are not in the document at once. */
const SHOWN = 300;
/** Whoever is so near to the end follows it. */
const NEAR_PX = 80;

interface VisibleEntries {
  /** For what is first in the panel that scrolls. */
  inside: RefObject<HTMLElement | null>;
  lines: readonly EntryItem[];
  /** As many more before them. */
  more: () => void;
}

export function useVisibleEntries(log: Log | undefined): VisibleEntries {
  const [count, setCount] = useState(SHOWN);
  /** From where on lines are shown to whoever reads back: none goes away at the top because one comes at the end. */
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
    document.addEventListener("scroll", onLook, true); // with little height the page scrolls around the panel
    panel.addEventListener("toggle", onLook, true); // what is unfolded at the end puts its reader before the end; it does not bubble
    return () => {
      document.removeEventListener("scroll", onLook, true);
      panel.removeEventListener("toggle", onLook, true);
    };
  }, []);
  useLayoutEffect(() => {
    const panel = inside.current?.parentElement;
    if (panel && near.current) panel.scrollTop = panel.scrollHeight;
  }, [last, held]);
  // Lines that came before the others put whoever asked for them before the end, without a scroll.
  useLayoutEffect(() => latest.current(), [log?.from, count]);
  const more = (): void => {
    setCount((before) => before + SHOWN);
    setHeld((before) => (before === null ? null : before - SHOWN));
  };
  return { inside, lines, more };
}

/** What scrolls the panel: itself, or what it lies in. */
function scrollerOf(panel: HTMLElement): HTMLElement {
  for (let each: HTMLElement | null = panel; each !== null; each = each.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(each).overflowY)) return each;
  }
  return panel;
}
