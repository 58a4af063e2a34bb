/** What is shown at a zoom. No text is smaller than 12 pixels; what does not fit is left out, not made smaller. Pure. */

import type { Frame } from "./layout";

export const TEXT_PIXELS = 12;
const LARGE_PIXELS = 18;
/** Share of the height of a title that its text has. */
const TITLE_SHARE = 0.5;
const LINE_PIXELS = 15;
/** A narrower frame shows no name. */
const NAME_PIXELS = 56;

/** `full`: all; `short`: name and status; `name`: name and glyph; `glyph`: the glyph. */
export type CardDetail = "full" | "short" | "name" | "glyph";

const FULL_ZOOM = 0.86;
const SHORT_ZOOM = 0.62;
export const NAME_ZOOM = 0.4;

export function cardDetail(zoom: number): CardDetail {
  if (zoom >= FULL_ZOOM) return "full";
  if (zoom >= SHORT_ZOOM) return "short";
  return zoom >= NAME_ZOOM ? "name" : "glyph";
}

/** Whether the name of a team fits into the title of its frame. */
export function isTitled({ w, title }: Pick<Frame, "w" | "title">, zoom: number): boolean {
  return title * zoom >= LINE_PIXELS && w * zoom >= NAME_PIXELS;
}

/** Pixels in the window of the text of a title. */
export function titlePixels(title: number, zoom: number): number {
  return Math.max(TEXT_PIXELS, 13 * zoom, Math.min(LARGE_PIXELS, TITLE_SHARE * title * zoom));
}

/** Zooms that are not told apart: what depends on them is not rendered at each step of a gesture. */
const STEP = 1.08;

export function steppedZoom(zoom: number): number {
  return STEP ** Math.floor(Math.log(zoom) / Math.log(STEP) + 1e-6);
}
