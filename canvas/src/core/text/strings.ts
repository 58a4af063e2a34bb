/** Text helpers that several views use. */

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count.toLocaleString("en-GB")} ${count === 1 ? one : many}`;
}

/** With a capital first letter. */
export function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** One or two letters for an avatar. */
export function initials(name: string): string {
  const words = name.trim().split(/[\s_-]+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  const letters = words.map((word) => /[\p{L}\p{N}]/u.exec(word)?.[0] ?? "");
  const first = letters[0] ?? "?";
  const second = letters.length > 1 ? letters.at(-1) : [...(words[0] ?? "")].filter((each) => /[\p{L}\p{N}]/u.test(each))[1];
  return (first + (second ?? "")).toUpperCase();
}

/** One of `count` tints, the same for a name on every page. */
export function tintOf(name: string, count: number): number {
  let sum = 0;
  for (const letter of name) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 1_000_003;
  return sum % count;
}

export function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}

const SIZES = ["bytes", "kB", "MB", "GB"] as const;

export function sizeText(bytes: number): string {
  let [value, step] = [bytes, 0];
  while (value >= 1000 && step < SIZES.length - 1) [value, step] = [value / 1000, step + 1];
  return `${step === 0 ? value : value.toFixed(1)} ${SIZES[step]}`;
}

/** A count for a badge: the server counts unread messages up to 100 only. */
export function countText(count: number): string {
  return count > 99 ? "99+" : String(count);
}
