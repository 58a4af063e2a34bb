/** The visible part of the map. A point of the map is at `point * zoom + offset` in the window. */

import type { Box } from "./pack";

export interface Camera {
  x: number;
  y: number;
  zoom: number;
}

export interface Size {
  w: number;
  h: number;
}

export const MIN_ZOOM = 0.02;
export const MAX_ZOOM = 2;
/** From this zoom on cards are rendered as cards. */
export const NEAR_ZOOM = 0.5;
/** A revealed card has at least the first zoom; if it had less, it gets the second. */
const SMALLEST_SHOWN = 0.4;
const SHOWN_ZOOM = 0.75;
const MARGIN = 24;
/** Space of the buttons above and below. */
const ABOVE = 28;
const BELOW = 40;

export function zoomAt(camera: Camera, at: { x: number; y: number }, factor: number): Camera {
  const zoom = Math.min(MAX_ZOOM, Math.max(MIN_ZOOM, camera.zoom * factor));
  const ratio = zoom / camera.zoom;
  return { x: at.x - (at.x - camera.x) * ratio, y: at.y - (at.y - camera.y) * ratio, zoom };
}

export function pan(camera: Camera, dx: number, dy: number): Camera {
  return { ...camera, x: camera.x + dx, y: camera.y + dy };
}

export function isSameCamera(one: Camera, other: Camera): boolean {
  return one.x === other.x && one.y === other.y && one.zoom === other.zoom;
}

/** Show the whole map, scaled to at most `most` and at least `least`; centred, and never above or left of the margin and the buttons. */
export function fit(picture: Size, window: Size, most = 1, least = MIN_ZOOM): Camera {
  if (picture.w === 0 || picture.h === 0 || window.w === 0 || window.h === 0) return { x: MARGIN, y: MARGIN, zoom: 1 };
  const room = Math.min((window.w - 2 * MARGIN) / picture.w, (window.h - 2 * MARGIN - ABOVE - BELOW) / picture.h);
  const zoom = Math.min(most, Math.max(least, room));
  return {
    x: Math.max(MARGIN, (window.w - picture.w * zoom) / 2),
    y: Math.max(MARGIN + ABOVE, (window.h + ABOVE - BELOW - picture.h * zoom) / 2),
    zoom,
  };
}

/** Move just far enough to show the box with some margin, and zoom in until it is readable, unless the zoom is kept. */
export function show(camera: Camera, box: Box, window: Size, keepZoom = false): Camera {
  const near = keepZoom || camera.zoom >= SMALLEST_SHOWN ? camera : middle(box, window, SHOWN_ZOOM);
  const [left, top] = [box.x * near.zoom + near.x, box.y * near.zoom + near.y];
  return pan(
    near,
    shift(left, left + box.w * near.zoom, window.w),
    shift(top, top + box.h * near.zoom, window.h - BELOW),
  );
}

function middle(box: Box, window: Size, zoom: number): Camera {
  return { x: window.w / 2 - (box.x + box.w / 2) * zoom, y: window.h / 2 - (box.y + box.h / 2) * zoom, zoom };
}

function shift(from: number, to: number, room: number): number {
  if (from < MARGIN) return MARGIN - from;
  return to > room - MARGIN ? Math.max(room - MARGIN - to, MARGIN - from) : 0;
}

/** The visible part of the map, with a margin in window pixels. */
export function view(camera: Camera, window: Size, margin: number): Box {
  return {
    x: (-camera.x - margin) / camera.zoom,
    y: (-camera.y - margin) / camera.zoom,
    w: (window.w + 2 * margin) / camera.zoom,
    h: (window.h + 2 * margin) / camera.zoom,
  };
}
