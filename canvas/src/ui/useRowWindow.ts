/** Which rows of a list are rendered: all of a short list, of a long one those in view and the active one. */

import { useCallback, useEffect, useMemo, useState, type RefObject } from "react";

const MAX_ROWS = 200;
const SPARE_ROWS = 8;

interface RowWindow {
  shown: readonly number[];
  virtual: boolean;
  rowHeight: number;
  /** Scroll just far enough to show the row. */
  reveal: (at: number) => void;
}

/** `units`: height of a row in rem. */
export function useRowWindow(scroller: RefObject<HTMLElement | null>, count: number, active: number, units: number): RowWindow {
  const virtual = count > MAX_ROWS;
  const [view, setView] = useState({ top: 0, height: 800 });
  const rowHeight = pixels(units);
  useEffect(() => {
    const element = scroller.current;
    if (!virtual || element === null) return;
    const read = (): void => setView({ top: element.scrollTop, height: element.clientHeight });
    const sizes = new ResizeObserver(read);
    sizes.observe(element);
    element.addEventListener("scroll", read, { passive: true });
    return () => {
      sizes.disconnect();
      element.removeEventListener("scroll", read);
    };
  }, [scroller, virtual]);

  const reveal = useCallback(
    (at: number) => {
      const element = scroller.current;
      if (element === null) return;
      const height = virtual ? pixels(units) : (element.scrollHeight - 8) / Math.max(1, count);
      const top = at * height;
      if (top < element.scrollTop) element.scrollTop = top;
      else if (top + height > element.scrollTop + element.clientHeight) element.scrollTop = top + height - element.clientHeight;
    },
    [scroller, virtual, count, units],
  );

  const shown = useMemo(() => {
    const all = Array.from({ length: count }, (_, at) => at);
    if (!virtual) return all;
    const first = Math.floor(view.top / rowHeight) - SPARE_ROWS;
    const last = Math.ceil((view.top + view.height) / rowHeight) + SPARE_ROWS;
    const inView = all.slice(Math.max(0, first), last);
    return active < 0 || inView.includes(active) ? inView : [...inView, active].sort((one, other) => one - other);
  }, [count, virtual, view, rowHeight, active]);
  return { shown, virtual, rowHeight, reveal };
}

function pixels(units: number): number {
  return units * (Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16);
}
