import { expect, test, vi } from "vitest";
import { NoResponseError, ApiError } from "./errors";
import { UploadCancelledError, upload } from "./upload";

/** A fake XMLHttpRequest, answered by the test. */
class Wire {
  static last: Wire;
  readonly upload: { onprogress?: (event: { loaded: number }) => void } = {};
  readonly headers: Record<string, string> = {};
  onload?: () => void;
  onerror?: () => void;
  onabort?: () => void;
  onloadend?: () => void;
  status = 0;
  responseText = "";
  target = "";
  body: FormData | null = null;

  constructor() {
    Wire.last = this;
  }
  open(method: string, path: string): void {
    this.target = `${method} ${path}`;
  }
  setRequestHeader(name: string, value: string): void {
    this.headers[name] = value;
  }
  send(body: FormData): void {
    this.body = body;
  }
  abort(): void {
    this.onabort?.();
    this.onloadend?.();
  }
  answer(status: number, body: string): void {
    this.status = status;
    this.responseText = body;
    this.onload?.();
    this.onloadend?.();
  }
}

function started(signal = new AbortController().signal): { wire: Wire; done: Promise<unknown>; sent: number[] } {
  vi.stubGlobal("XMLHttpRequest", Wire);
  const sent: number[] = [];
  const done = upload("/workspaces/w/chat/uploads", new File(["hello"], "a.txt"), { onProgress: (each) => sent.push(each), signal });
  done.catch(() => undefined);
  return { wire: Wire.last, done, sent };
}

test("a file goes out as a form, says who sends it, and comes back with its name in messages", async () => {
  const { wire, done, sent } = started();
  expect(wire.target).toBe("POST /workspaces/w/chat/uploads");
  expect(wire.headers).toEqual({ "X-Molecule-Client": "canvas" });
  expect((wire.body?.get("files") as File).name).toBe("a.txt");
  wire.upload.onprogress?.({ loaded: 3 });
  wire.upload.onprogress?.({ loaded: 999 });
  expect(sent).toEqual([3, 5]);
  wire.answer(200, JSON.stringify({ files: [{ uri: "/x", name: "a.txt", mimeType: "text/plain", size: 5 }] }));
  expect(await done).toEqual({ uri: "/x", name: "a.txt", type: "text/plain", size: 5 });
});

test.each([
  [413, '{"error":"this file is larger than 5 bytes.","code":"file_too_large"}', "This file is larger than 5 bytes."],
  [502, "<html>", "The server responded with status 502."],
])("a refusal with status %i is told in the server's words", async (status, body, words) => {
  const { wire, done } = started();
  wire.answer(status, body);
  await expect(done).rejects.toThrow(words);
  await expect(done).rejects.toBeInstanceOf(ApiError);
});

test("an answer that is none, a lost connection and silence are no answer", async () => {
  const odd = started();
  odd.wire.answer(200, "{}");
  await expect(odd.done).rejects.toBeInstanceOf(NoResponseError);
  const lost = started();
  lost.wire.onerror?.();
  await expect(lost.done).rejects.toBeInstanceOf(NoResponseError);
  vi.useFakeTimers();
  const silent = started();
  vi.advanceTimersByTime(31_000);
  vi.useRealTimers();
  await expect(silent.done).rejects.toBeInstanceOf(NoResponseError);
});

test("who stops it is told that it was stopped", async () => {
  const stop = new AbortController();
  const { done } = started(stop.signal);
  stop.abort();
  await expect(done).rejects.toBeInstanceOf(UploadCancelledError);
  await expect(started(stop.signal).done).rejects.toBeInstanceOf(UploadCancelledError);
});
