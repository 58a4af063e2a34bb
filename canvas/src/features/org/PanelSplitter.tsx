/** The border between the map and the panel, which sets the width of the panel by a drag or by keys. Remembered in this browser. */

import { useEffect, useLayoutEffect, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { useApp, useSettings } from "../../core/app";
import css from "./Inspector.module.css";

/** All in rem, so that the panel grows with the browser's text size. */
export const DEFAULT_WIDTH = 26;
export const WIDE_WIDTH = 44;
const MIN_WIDTH = 20;
const MAX_WIDTH = 60;
/** Least width of all that is beside the panel: rail, outline and some of the map. */
const BESIDE = 38;
const STEP = 1;
const LARGE_STEP = 5;

/** `width`: as chosen; null: the default. `room`: of the window. */
export function limitedWidth(width: number | null, room: number): number {
  return Math.max(MIN_WIDTH, Math.min(width ?? DEFAULT_WIDTH, largestWidth(room)));
}

export function largestWidth(room: number): number {
  return Math.max(MIN_WIDTH, Math.min(MAX_WIDTH, Math.floor(room - BESIDE)));
}

export function PanelSplitter() {
  const { settings } = useApp();
  const { panelWidth } = useSettings();
  const room = useWindowWidth();
  const [dragged, setDragged] = useState<number | null>(null);
  const splitter = useRef<HTMLDivElement>(null);
  /** A press without a movement changes nothing. */
  const moved = useRef(false);
  const width = limitedWidth(dragged ?? panelWidth, room);
  useLayoutEffect(() => splitter.current?.parentElement?.style.setProperty("--panel", `${width}rem`), [width]);

  const save = (next: number | null): void => settings.change({ panelWidth: next === null ? null : limitedWidth(next, room) });
  const widthAt = (event: PointerEvent): number => {
    const right = event.currentTarget.parentElement?.getBoundingClientRect().right ?? 0;
    return Math.round(((right - event.clientX) / rootFontSize()) * 10) / 10;
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = event.shiftKey ? LARGE_STEP : STEP;
    const actions: Record<string, number | null> = {
      ArrowLeft: width + step,
      ArrowRight: width - step,
      Home: MIN_WIDTH,
      End: MAX_WIDTH,
      Enter: null,
    };
    const next = actions[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    save(next);
  };
  return (
    <div
      ref={splitter}
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the panel"
      aria-valuenow={Math.round(width)}
      aria-valuemin={MIN_WIDTH}
      aria-valuemax={largestWidth(room)}
      aria-valuetext={`${Math.round((100 * width) / room)} % of the window`}
      title="Drag to resize, double-click to reset"
      tabIndex={0}
      className={css.splitter}
      data-dragged={dragged !== null || undefined}
      onKeyDown={onKey}
      onDoubleClick={() => save(null)}
      onPointerDown={(event) => {
        if (event.button !== 0) return;
        event.currentTarget.setPointerCapture(event.pointerId);
        moved.current = false;
        setDragged(width);
      }}
      onPointerMove={(event) => {
        if (dragged === null) return;
        moved.current = true;
        setDragged(widthAt(event));
      }}
      onPointerUp={() => {
        if (moved.current) save(width);
        setDragged(null);
      }}
      onPointerCancel={() => setDragged(null)}
      onLostPointerCapture={() => setDragged(null)}
    />
  );
}

/** The width of the window in rem. */
function useWindowWidth(): number {
  const read = (): number => window.innerWidth / rootFontSize();
  const [room, setRoom] = useState(read);
  useEffect(() => {
    const update = (): void => setRoom(read());
    window.addEventListener("resize", update);
    return () => window.removeEventListener("resize", update);
  }, []);
  return room;
}

function rootFontSize(): number {
  return Number.parseFloat(getComputedStyle(document.documentElement).fontSize) || 16;
}
