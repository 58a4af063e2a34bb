/** Line diff of two texts. Pure. */

export interface DiffLine {
  kind: "same" | "added" | "removed";
  text: string;
}

/** The smallest set of removed and added lines; removals come first. */
export function diffLines(before: string, after: string): DiffLine[] {
  const [one, other] = [linesOf(before), linesOf(after)];
  let begin = 0;
  while (begin < one.length && begin < other.length && one[begin] === other[begin]) begin += 1;
  let end = 0;
  while (end < one.length - begin && end < other.length - begin && one.at(-1 - end) === other.at(-1 - end)) end += 1;
  const as = (kind: DiffLine["kind"]) => (text: string): DiffLine => ({ kind, text });
  return [
    ...one.slice(0, begin).map(as("same")),
    ...between(one.slice(begin, one.length - end), other.slice(begin, other.length - end)),
    ...one.slice(one.length - end).map(as("same")),
  ];
}

function linesOf(text: string): string[] {
  return text === "" ? [] : text.split("\n");
}

/** By the longest common subsequence: `longest[i][j]` is its length from line i of one text and line j of the other. */
function between(one: readonly string[], other: readonly string[]): DiffLine[] {
  const width = other.length + 1;
  const longest = new Uint32Array((one.length + 1) * width);
  const at = (i: number, j: number): number => longest[i * width + j] ?? 0;
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = one[i] === other[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
    }
  }
  const found: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    const [left, right] = [one[i], other[j]];
    if (left !== undefined && left === right) {
      found.push({ kind: "same", text: left });
      [i, j] = [i + 1, j + 1];
    } else if (left !== undefined && (right === undefined || at(i + 1, j) >= at(i, j + 1))) {
      found.push({ kind: "removed", text: left });
      i += 1;
    } else if (right !== undefined) {
      found.push({ kind: "added", text: right });
      j += 1;
    }
  }
  return found;
}
