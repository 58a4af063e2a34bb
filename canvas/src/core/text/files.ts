/** Files in words: their names as they may be shown, and why one cannot be sent. Pure. */

import { plural, sizeText } from "./strings";

/** What may be sent, as the server tells it. */
export interface UploadLimits {
  fileBytes: number;
  files: number;
}

const BEGINNING = 24;
const ENDING = 12;
/** Control, bidi, tag and other characters that only change how their neighbours look. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** The name of a file on one line, without what is not seen. The server cleans names too; this one may be of elsewhere. */
export function cleanFileName(name: string): string {
  return name.replace(/\s+/gu, " ").replace(INVISIBLE, "").trim() || "file";
}

/** A long name without its middle: its beginning, and the end that says what kind of file it is. */
export function shortFileName(name: string): string {
  const letters = [...new Intl.Segmenter().segment(name)].map((each) => each.segment);
  if (letters.length <= BEGINNING + ENDING + 1) return name;
  return `${letters.slice(0, BEGINNING).join("")}…${letters.slice(-ENDING).join("")}`;
}

/** Why a file cannot be sent, if that is known before it is sent. `place` counts from 0 in its message. */
export function fileProblem(file: { size: number }, place: number, limits: UploadLimits | null): string | null {
  if (limits === null) return null;
  if (file.size > limits.fileBytes) return `too large: ${sizeText(file.size)} of at most ${sizeText(limits.fileBytes)}`;
  if (place >= limits.files) return `one too many: a message takes ${plural(limits.files, "file")}`;
  return null;
}
