/** Upload the files of outgoing messages, one after the other, before the message itself. The files live in the page;
 * uploaded ones are stored with the message and not uploaded twice. */

import type { Attachment } from "../state/model";
import type { UnsentMessage } from "./outbox";
import { createStore, type Store } from "../store/store";

/** Bytes sent, by the position of the file in its message. */
export type Progress = ReadonlyMap<number, number>;

type UploadFile = (workspaceId: string, file: File, watch: { onProgress: (sent: number) => void; signal: AbortSignal }) => Promise<Attachment>;

export class Uploads {
  /** By client id, while the files of the message are being uploaded. */
  readonly progress: Store<ReadonlyMap<string, Progress>> = createStore<ReadonlyMap<string, Progress>>(new Map());
  private readonly files = new Map<string, readonly File[]>();
  private readonly stops = new Map<string, AbortController>();
  private readonly upload: UploadFile;

  constructor(bring: UploadFile) {
    this.upload = bring;
  }

  add(clientId: string, files: readonly File[]): void {
    if (files.length > 0) this.files.set(clientId, files);
  }

  /** Names of the files that this page does not have. */
  missing(entry: UnsentMessage): string[] {
    const held = this.files.get(entry.clientId);
    return held ? [] : entry.files.filter((file) => file.uri === null).map((file) => file.name);
  }

  /** Upload the missing files. `onBrought` is called after each. Throws what the upload throws. */
  async send(entry: UnsentMessage, onBrought: (place: number, file: Attachment) => void): Promise<Attachment[]> {
    const stop = new AbortController();
    const held = this.files.get(entry.clientId) ?? [];
    const brought = [...entry.files];
    this.stops.set(entry.clientId, stop);
    try {
      for (const [place, file] of held.entries()) {
        if (brought[place]?.uri !== null) continue;
        const onProgress = (sent: number): void => this.report(entry.clientId, place, sent);
        onProgress(0);
        const got = await this.upload(entry.workspaceId, file, { onProgress, signal: stop.signal });
        brought[place] = got;
        onBrought(place, got);
      }
      return brought;
    } finally {
      this.stops.delete(entry.clientId);
      this.clearProgress(entry.clientId);
    }
  }

  stop(clientId: string): void {
    this.stops.get(clientId)?.abort();
  }

  /** The message was sent or discarded. */
  drop(clientId: string): void {
    this.stop(clientId);
    this.files.delete(clientId);
  }

  private report(clientId: string, place: number, sent: number): void {
    this.progress.update((all) => new Map(all).set(clientId, new Map(all.get(clientId)).set(place, sent)));
  }

  private clearProgress(clientId: string): void {
    this.progress.update((all) => {
      const rest = new Map(all);
      rest.delete(clientId);
      return rest;
    });
  }
}
