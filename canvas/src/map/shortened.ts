/** A text of the canvas that is cut where its room ends. */

const ELLIPSIS = "…";
/** Texts are measured once: a frame paints hundreds. */
const MAX_KEPT = 20_000;
const kept = new Map<string, string>();

/** The text in the current font of the context, or its beginning; empty if not even two characters fit. */
export function shortened(ctx: Pick<CanvasRenderingContext2D, "font" | "measureText">, text: string, room: number): string {
  const pixels = Math.floor(room / 2) * 2; // a zoom in small steps does not measure anew at each
  const key = `${ctx.font} ${pixels} ${text}`;
  const known = kept.get(key);
  if (known !== undefined) return known;
  const found = measured(ctx, text, pixels);
  if (kept.size >= MAX_KEPT) kept.clear();
  kept.set(key, found);
  return found;
}

function measured(ctx: Pick<CanvasRenderingContext2D, "measureText">, text: string, room: number): string {
  if (room <= 0) return "";
  if (ctx.measureText(text).width <= room) return text;
  const characters = [...text];
  let [low, high] = [0, characters.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(characters.slice(0, middle).join("") + ELLIPSIS).width <= room) low = middle;
    else high = middle - 1;
  }
  return low < 2 ? "" : characters.slice(0, low).join("").trimEnd() + ELLIPSIS;
}
