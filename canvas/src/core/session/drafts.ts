/** What a person began to write, kept per conversation. */

import type { KeyValueStorage } from "../store/browserStorage";

type Watcher = (of: string, words: string) => void;

/** Words that were taken out are put back within this time, or are not the same ones any more. */
const RESTORE_MS = 60_000;

export class Drafts {
  private readonly storage: KeyValueStorage;
  private readonly prefix: string;
  private readonly watchers = new Set<Watcher>();
  /** What was sent under these keys is known to be with the server: a later answer under one of them is about nothing that
   * is written now. */
  private readonly known = new Set<string>();
  /** When this page took the last words out. */
  private readonly emptied = new Map<string, number>();
  private readonly now: () => number;

  constructor(storage: KeyValueStorage, owner: { org: string; user: string }, now: () => number) {
    this.storage = storage;
    this.now = now;
    this.prefix = `molecule.draft.${owner.org}.${owner.user}.`;
  }

  read(of: string): string {
    return this.storage.get(this.prefix + of) ?? "";
  }

  write(of: string, words: string): void {
    if (words === "") {
      this.storage.remove(this.prefix + of);
      return void this.emptied.set(of, this.now());
    }
    // What is begun after that is said anew, also in words that were sent before: it gets a key of its own.
    const isBegun = this.read(of) === "" && this.now() - (this.emptied.get(of) ?? -Infinity) > RESTORE_MS;
    if (isBegun) this.storage.remove(this.keyPlace(of));
    this.storage.set(this.prefix + of, words);
  }

  /** The key under which a draft is sent: the same whenever the same is sent again, until the server is known to have it or
   * something else was sent, so that an answer that was lost, or came when nobody was there to take it, does not say it twice.
   * Words that were taken out and soon put back are still the same. */
  keyOf(of: string, what: string, fresh: string): string {
    const kept = this.storage.get(this.keyPlace(of)) ?? "";
    const key = kept.slice(0, kept.indexOf(" "));
    if (kept === `${key} ${what}`) return key;
    this.storage.set(this.keyPlace(of), `${fresh} ${what}`);
    return fresh;
  }

  /** The server has what was sent under this key: it is no draft any more, wherever it is shown. Another tab may have sent
   * something else meanwhile, under the key that is kept now. */
  taken(of: string, key: string, words: string): void {
    if (this.known.has(key)) return;
    this.known.add(key);
    if (this.storage.get(this.keyPlace(of))?.startsWith(`${key} `)) this.storage.remove(this.keyPlace(of));
    if (this.read(of) === words) this.write(of, "");
    for (const watcher of [...this.watchers]) watcher(of, words);
  }

  /** Hears of what the server has taken, until the function that comes back is called. */
  watch(watcher: Watcher): () => void {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  }

  private keyPlace(of: string): string {
    return `${this.prefix}${of}.key`;
  }
}
