/** Replace invisible and bidi characters by their code points: what a person decides on must not look like something else. */

/** Control and format characters except line ends, tabs and the joiners that scripts and emoji need. */
const INVISIBLE = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

export function showInvisible(text: string): string {
  return text.replace(INVISIBLE, (each) => [...each].map((one) => escapeOf(one)).join(""));
}

/** As in JSON, so that a text with escapes means the same. */
function escapeOf(letter: string): string {
  return Array.from({ length: letter.length }, (_, at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
}
