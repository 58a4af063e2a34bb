// @vitest-environment node
import { expect, test } from "vitest";
import type { Attachment } from "../state/model";
import type { UnsentMessage } from "./outbox";
import { Uploads } from "./uploads";

const got = (name: string): Attachment => ({ name, size: 1, uri: `/workspaces/w/files/${name}`, type: null });

function entry(...files: Attachment[]): UnsentMessage {
  return { clientId: "c1", workspaceId: "w", text: "", files, choice: null, when: "queue", replyTo: null, at: "", state: "sending", reason: null, again: false };
}

const waiting = (name: string): Attachment => ({ name, size: 1, uri: null, type: null });
const files = (...names: string[]): File[] => names.map((name) => new File(["x"], name));

test("files go one after the other, and what the server has is not sent again", async () => {
  const sent: string[] = [];
  const uploads = new Uploads((_workspace, file) => {
    sent.push(file.name);
    return sent.length === 2 ? Promise.reject(new Error("cut")) : Promise.resolve(got(file.name));
  });
  uploads.add("c1", files("a", "b"));
  const brought: [number, string | null][] = [];
  const first = uploads.send(entry(waiting("a"), waiting("b")), (place, file) => brought.push([place, file.uri]));
  await expect(first).rejects.toThrow("cut");
  expect(brought).toEqual([[0, "/workspaces/w/files/a"]]);
  expect(await uploads.send(entry(got("a"), waiting("b")), () => undefined)).toEqual([got("a"), got("b")]);
  expect(sent).toEqual(["a", "b", "b"]);
  expect(uploads.progress.get().size).toBe(0);
});

test("how far a file is can be watched, and stopping reaches the one that is on its way", async () => {
  let signal: AbortSignal | undefined;
  const uploads = new Uploads((_workspace, _file, watch) => {
    signal = watch.signal;
    watch.onProgress(7);
    return new Promise((_resolve, reject) => watch.signal.addEventListener("abort", () => reject(new Error("stopped"))));
  });
  uploads.add("c1", files("a"));
  const sending = uploads.send(entry(waiting("a")), () => undefined);
  expect(uploads.progress.get().get("c1")?.get(0)).toBe(7);
  uploads.stop("c1");
  await expect(sending).rejects.toThrow("stopped");
  expect(signal?.aborted).toBe(true);
});

test("which files are not in this page is known", () => {
  const uploads = new Uploads(() => Promise.reject(new Error("never")));
  expect(uploads.missing(entry(got("a"), waiting("b")))).toEqual(["b"]);
  expect(uploads.missing(entry(got("a")))).toEqual([]);
  uploads.add("c1", files("a", "b"));
  expect(uploads.missing(entry(got("a"), waiting("b")))).toEqual([]);
  uploads.drop("c1");
  expect(uploads.missing(entry(waiting("b")))).toEqual(["b"]);
});
