/** Characters that are not seen, or that turn the text beside them around: what is decided about must not look like something
 * else. They are shown by their numbers. */

/** Control and format characters, but for ends of lines and tabs, and for the joiners that scripts and signs need. */
const INVISIBLE = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

export function showInvisible(text: string): string {
  return text.replace(INVISIBLE, (each) => [...each].map((one) => escapeOf(one)).join(""));
}

/** As JSON writes it, so that a text that holds some means the same. */
function escapeOf(letter: string): string {
  return Array.from({ length: letter.length }, (_, at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, "0")}`).join("");
}
