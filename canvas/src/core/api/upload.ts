/** Upload one file with progress. XMLHttpRequest, because `fetch` reports no upload progress. */

import type { Attachment } from "../state/model";
import { list, number, text } from "../state/json";
import { sentence } from "../text/strings";
import { NoResponseError, ApiError } from "./errors";

/** The person cancelled the upload. */
export class UploadCancelledError extends Error {}

export interface UploadOptions {
  /** Bytes sent so far. */
  onProgress: (sent: number) => void;
  signal: AbortSignal;
}

/** Without progress for this long the connection counts as lost. */
const STALL_MS = 30_000;

/** Returns the file as the server names it. Throws ApiError, NoResponseError, UploadCancelledError. */
export function upload(path: string, file: File, { onProgress, signal }: UploadOptions, headers: Readonly<Record<string, string>> = {}): Promise<Attachment> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    let quiet: ReturnType<typeof setTimeout> | undefined;
    const moved = (): void => {
      clearTimeout(quiet);
      quiet = setTimeout(() => request.abort(), STALL_MS);
    };
    const stop = (): void => request.abort();
    request.upload.onprogress = (event) => {
      moved();
      onProgress(Math.min(event.loaded, file.size));
    };
    request.onload = () => {
      try {
        resolve(parseResponse(request));
      } catch (error) {
        reject(error instanceof Error ? error : new NoResponseError());
      }
    };
    request.onerror = () => reject(new NoResponseError("The server did not respond."));
    request.onabort = () => reject(signal.aborted ? new UploadCancelledError("You cancelled the upload.") : new NoResponseError("The server did not respond."));
    request.onloadend = () => {
      clearTimeout(quiet);
      signal.removeEventListener("abort", stop);
    };
    request.open("POST", path);
    request.setRequestHeader("X-Molecule-Client", "canvas");
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    const form = new FormData();
    form.append("files", file);
    moved();
    request.send(form);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop);
  });
}

function parseResponse(request: XMLHttpRequest): Attachment {
  const answer = parseJson(request.responseText);
  const words = text(answer, "error") ?? `The server responded with status ${request.status}.`;
  if (request.status >= 400) throw new ApiError(request.status, text(answer, "code"), sentence(words));
  const file = list(answer, "files")[0];
  const uri = text(file, "uri");
  if (uri === null) throw new NoResponseError("The server did not respond.");
  return { name: text(file, "name") ?? "file", size: number(file, "size"), uri, type: text(file, "mimeType") };
}

function parseJson(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
