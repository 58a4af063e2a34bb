// @vitest-environment node
/// <reference types="node" />
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const CSS = readFileSync("src/ui/style/tokens.css", "utf8");

function tokensOf(selector: string): Map<string, string> {
  const block = CSS.split(`${selector} {`)[1]?.split("}")[0] ?? "";
  return new Map([...block.matchAll(/--([a-z-]+):\s*(#[0-9a-f]{6});/g)].map((match) => [match[1] ?? "", match[2] ?? ""]));
}

const SCHEMES = { light: tokensOf(":root"), dark: tokensOf(':root[data-theme="dark"]') };

function luminance(colour: string): number {
  const channel = (from: number): number => {
    const value = Number.parseInt(colour.slice(from, from + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

function contrast(one: string, other: string): number {
  const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a) as [number, number];
  return (light + 0.05) / (dark + 0.05);
}

/** `color-mix(in srgb, a part, b)`. */
function mixed(a: string, part: number, b: string): string {
  const channel = (from: number): string => {
    const value = (colour: string): number => Number.parseInt(colour.slice(from, from + 2), 16);
    return Math.round(value(a) * part + value(b) * (1 - part)).toString(16).padStart(2, "0");
  };
  return `#${channel(1)}${channel(3)}${channel(5)}`;
}

const TEXTS = ["text", "muted", "accent", "working", "ok", "waiting", "bad", "offline", "paused"];
const GROUNDS = ["card", "page"];

for (const [scheme, tokens] of Object.entries(SCHEMES)) {
  const colour = (name: string): string => {
    const found = tokens.get(name);
    if (found === undefined) throw new Error(`${scheme} has no --${name}`);
    return found;
  };
  test.each(TEXTS.flatMap((text) => GROUNDS.map((ground) => [text, ground] as const)))(`${scheme}: %s can be read on %s`, (text, ground) => {
    expect(contrast(colour(text), colour(ground))).toBeGreaterThanOrEqual(4.5);
  });
  test.each(["keyword", "string", "number", "title", "attribute"])(`${scheme}: a %s of code can be read`, (token) => {
    expect(contrast(colour(`code-${token}`), colour("sunk"))).toBeGreaterThanOrEqual(4.5);
  });
  test.each(GROUNDS)(`${scheme}: the edge of a control can be seen on %s`, (ground) => {
    expect(contrast(colour("control"), colour(ground))).toBeGreaterThanOrEqual(3);
  });
  test(`${scheme}: the text of a destructive button can be read, also under the pointer`, () => {
    for (const ground of [colour("bad"), mixed(colour("bad"), 0.88, colour("text"))]) expect(contrast(colour("on-bad"), ground)).toBeGreaterThanOrEqual(4.5);
  });
  test(`${scheme}: what stands on the accent, on a person's own words, on sunk ground and on a selection can be read`, () => {
    expect(contrast(colour("on-accent"), colour("accent"))).toBeGreaterThanOrEqual(4.5);
    for (const text of ["text", "muted", "accent"]) expect(contrast(colour(text), colour("own"))).toBeGreaterThanOrEqual(4.5);
    for (const text of ["text", "muted", "accent"]) expect(contrast(colour(text), colour("sunk"))).toBeGreaterThanOrEqual(4.5);
    const selection = mixed(colour("accent"), 0.13, colour("card"));
    for (const text of ["text", "muted", "accent"]) expect(contrast(colour(text), selection)).toBeGreaterThanOrEqual(4.5);
  });
  test(`${scheme}: glyphs can be told from a selection, and words from the banner and from a warning`, () => {
    const selection = mixed(colour("accent"), 0.13, colour("card"));
    for (const glyph of ["ok", "working", "waiting", "bad", "offline", "paused"]) {
      expect(contrast(colour(glyph), selection)).toBeGreaterThanOrEqual(3);
    }
    const banner = mixed(colour("waiting"), 0.12, colour("card"));
    for (const text of ["text", "accent"]) expect(contrast(colour(text), banner)).toBeGreaterThanOrEqual(4.5);
    expect(contrast(colour("bad"), mixed(colour("bad"), 0.09, colour("card")))).toBeGreaterThanOrEqual(4.5);
  });
}

test("both schemes have the same tokens", () => {
  expect([...SCHEMES.dark.keys()].sort()).toEqual([...SCHEMES.light.keys()].sort());
});
