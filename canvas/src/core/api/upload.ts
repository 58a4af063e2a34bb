/** Sends one file and tells how far it is: the one thing for which `fetch` has no word. */

import type { Attachment } from "../state/model";
import { list, number, text } from "../state/json";
import { sentence } from "../text/words";
import { NoAnswer, Refusal } from "./errors";

/** The person stopped it. */
export class Stopped extends Error {}

export interface Watch {
  /** Bytes of the file that have left. */
  onProgress: (sent: number) => void;
  signal: AbortSignal;
}

/** Nothing moved for so long: the connection is counted as lost. */
const PATIENCE_MS = 30_000;

/** The file as the server names it. Throws Refusal, NoAnswer, Stopped. */
export function upload(path: string, file: File, { onProgress, signal }: Watch): Promise<Attachment> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const moved = (): void => {
      clearTimeout(quiet);
      quiet = setTimeout(() => request.abort(), PATIENCE_MS);
    };
    const stop = (): void => request.abort();
    request.upload.onprogress = (event) => {
      moved();
      onProgress(Math.min(event.loaded, file.size));
    };
    request.onload = () => {
      try {
        resolve(answered(request));
      } catch (error) {
        reject(error instanceof Error ? error : new NoAnswer());
      }
    };
    request.onerror = () => reject(new NoAnswer("The server did not answer."));
    request.onabort = () => reject(signal.aborted ? new Stopped("You stopped it.") : new NoAnswer("The server did not answer."));
    request.onloadend = () => {
      clearTimeout(quiet);
      signal.removeEventListener("abort", stop);
    };
    request.open("POST", path);
    request.setRequestHeader("X-Molecule-Client", "canvas");
    const form = new FormData();
    form.append("files", file);
    moved();
    request.send(form);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop);
  });
}

function answered(request: XMLHttpRequest): Attachment {
  const answer = parsed(request.responseText);
  const words = text(answer, "error") ?? `The server answered with status ${request.status}.`;
  if (request.status >= 400) throw new Refusal(request.status, text(answer, "code"), sentence(words));
  const file = list(answer, "files")[0];
  const uri = text(file, "uri");
  if (uri === null) throw new NoAnswer("The server did not answer.");
  return { name: text(file, "name") ?? "file", size: number(file, "size"), uri, type: text(file, "mimeType") };
}

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
