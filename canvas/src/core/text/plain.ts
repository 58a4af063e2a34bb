/** Markdown as one plain line, for previews: every place that shows one line of a text uses this. The result is text, never markup. */

import { withoutTerminalCodes } from "./terminal";

/** More than any line shows. A text of any size costs no more than this. */
const MOST = 4_000;
/** The server cuts texts for lists without a mark, the shortest to 80 characters. */
const MAY_BE_CUT = 70;

/** Each mark and its replacement. What only looks like a mark (`2 * 3`, `snake_case`) stays. The server has put some texts on one
 * line already, so that headings, fences and rows of tables are anywhere in it. */
const MARKS: readonly (readonly [RegExp, string])[] = [
  [/^ *```.*$/gm, " "],
  [/(?<=^|\s)`{3,}[\w+-]*(?=\s|$)/g, ""],
  [/^ *\|?(?: *:?-{2,}:? *\|)+ *(?::?-{2,}:?)? *$/gm, " "],
  [/(?<=^|\s)\|?(?: *:?-{2,}:? *\|)+(?: *\|)?(?=\s|$)/g, " "],
  [/^ *(?:#{1,6}|>|[-*+]|\d{1,3}[.)]) +/gm, ""],
  [/(?<=\s)#{1,6} +(?=\S)/g, ""],
  [/(?<=^|\s)(?:[-*+] +)?\[[ xX]\] +/g, ""],
  [/^ *\| *| *\| *$/gm, ""],
  [/ +\|(?: *\|)* +/g, ", "],
  [/!?\[([^\]\n]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\)|$)/g, "$1"],
  [/(\*\*|__|~~)(?=\S)([^\n]*?\S)\1/g, "$2"],
  [/(?<![\w*])[*_](?=\S)([^*_\n]*?\S)[*_](?![\w*])/g, "$1"],
  [/``(?!`)([^\n]+?)``(?!`)/g, "$1"],
  [/(?<!\w)`([^`\n]+)`/g, "$1"],
];

/** A mark whose other half was cut off. */
const HALF = /(?<=^|[\s(])(?:\*\*|~~|`)(?=[^\s*~`])/g;

export function plainLine(text: string): string {
  const shown = withoutTerminalCodes(beginning(text));
  const plain = MARKS.reduce((rest, [mark, stays]) => rest.replace(mark, stays), shown);
  const whole = shown.length < MAY_BE_CUT && !shown.endsWith("…") ? plain : plain.replace(HALF, "");
  return whole.replace(/\s+/g, " ").trim();
}

/** At most `MOST` units, which end between characters. */
function beginning(text: string): string {
  return text.length <= MOST ? text : text.slice(0, MOST).replace(/[\ud800-\udbff]$/, "");
}
