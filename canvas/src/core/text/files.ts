/** File names for display, and upload limits. Pure. */

import { sizeText } from "./strings";

/** Upload limits of the server. */
export interface UploadLimits {
  fileBytes: number;
  files: number;
}

const BEGINNING = 24;
const ENDING = 12;
/** Control, bidi, tag and other characters that only change the look of their neighbours. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/** A file name on one line, without invisible characters. The server cleans names too, but a file may come from elsewhere. */
export function cleanFileName(name: string): string {
  return name.replace(/\s+/gu, " ").replace(INVISIBLE, "").trim() || "file";
}

/** Shorten a long name in the middle: its beginning, and the end with the file type. */
export function shortFileName(name: string): string {
  const letters = [...new Intl.Segmenter().segment(name)].map((each) => each.segment);
  if (letters.length <= BEGINNING + ENDING + 1) return name;
  return `${letters.slice(0, BEGINNING).join("")}…${letters.slice(-ENDING).join("")}`;
}

/** Why a file cannot be sent, if that is known beforehand. `place`: position in its message, from 0. */
export function fileProblem(file: { size: number }, place: number, limits: UploadLimits | null): string | null {
  if (limits === null) return null;
  if (file.size > limits.fileBytes) return `too large (${sizeText(file.size)}, limit ${sizeText(limits.fileBytes)})`;
  if (place >= limits.files) return `too many files (limit ${limits.files})`;
  return null;
}
