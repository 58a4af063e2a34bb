/** Text with marks of Markdown as one plain line, for places that have room for no more. */

/** Each mark, and what stays of it. What only looks like one (`2 * 3`, `snake_case`) stays as it is. */
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
  const plain = MARKS.reduce((rest, [mark, stays]) => rest.replace(mark, stays), text);
  return plain.replace(/\s+/g, " ").trim();
}
