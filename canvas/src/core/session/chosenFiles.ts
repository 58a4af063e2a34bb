/** Files chosen for an unsent message, by conversation. They live as long as the page: a browser keeps only their names. */

import { createStore, type Store } from "../store/store";

export interface ChosenFile {
  key: string;
  file: File;
}

const NONE: readonly ChosenFile[] = [];

export class ChosenFiles {
  readonly all: Store<ReadonlyMap<string, readonly ChosenFile[]>> = createStore<ReadonlyMap<string, readonly ChosenFile[]>>(new Map());
  private next = 0;

  of(workspaceId: string): readonly ChosenFile[] {
    return this.all.get().get(workspaceId) ?? NONE;
  }

  add(workspaceId: string, files: readonly File[]): void {
    const more = files.map((file) => ({ key: `${(this.next += 1)}`, file }));
    this.put(workspaceId, [...this.of(workspaceId), ...more]);
  }

  remove(workspaceId: string, key: string): void {
    this.put(workspaceId, this.of(workspaceId).filter((each) => each.key !== key));
  }

  /** Remove and return all files of a conversation. */
  take(workspaceId: string): File[] {
    const files = this.of(workspaceId).map((each) => each.file);
    this.put(workspaceId, NONE);
    return files;
  }

  private put(workspaceId: string, chosen: readonly ChosenFile[]): void {
    this.all.update((all) => new Map(all).set(workspaceId, chosen));
  }
}
