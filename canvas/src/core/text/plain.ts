/** Markdown as one plain line, for places without room for more. */

import { withoutTerminalCodes } from "./terminal";

/** Each mark and its replacement. What only looks like a mark (`2 * 3`, `snake_case`) stays. */
const MARKS: readonly (readonly [RegExp, string])[] = [
  [/^ *```.*$/gm, " "],
  [/^ *\|?(?: *:?-{2,}:? *\|)+ *(?::?-{2,}:?)? *$/gm, " "],
  [/^ *(?:#{1,6}|>|[-*+]|\d{1,3}[.)]) +/gm, ""],
  [/^ *\| *| *\| *$/gm, ""],
  [/ +\| +/g, ", "],
  [/!?\[([^\]\n]*)\]\([^()\s]*\)/g, "$1"],
  [/(\*\*|__|~~)(?=\S)([^\n]*?\S)\1/g, "$2"],
  [/(?<![\w*])[*_](?=\S)([^*_\n]*?\S)[*_](?![\w*])/g, "$1"],
  [/`([^`\n]+)`/g, "$1"],
];

export function plainLine(text: string): string {
  const plain = MARKS.reduce((rest, [mark, stays]) => rest.replace(mark, stays), withoutTerminalCodes(text));
  return plain.replace(/\s+/g, " ").trim();
}
