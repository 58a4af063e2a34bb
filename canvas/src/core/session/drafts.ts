/** Unsent text per conversation. */

import type { KeyValueStorage } from "../store/browserStorage";

type Watcher = (of: string, words: string) => void;

/** Cleared text that is restored within this time counts as the same draft. */
const RESTORE_MS = 60_000;

export class Drafts {
  private readonly storage: KeyValueStorage;
  private readonly prefix: string;
  private readonly watchers = new Set<Watcher>();
  /** Keys whose text the server has: a late response for one of them must not clear what is written now. */
  private readonly known = new Set<string>();
  /** When this page last cleared the text of a conversation. */
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
    // A draft that begins after that is a new message, even with the same text, and gets a new key.
    const isBegun = this.read(of) === "" && this.now() - (this.emptied.get(of) ?? -Infinity) > RESTORE_MS;
    if (isBegun) this.storage.remove(this.keyPlace(of));
    this.storage.set(this.prefix + of, words);
  }

  /** The idempotency key of a draft. It stays the same while the same text is sent again, so that a lost response cannot
   * send it twice, and changes once the server has the text or another text was sent. Text that is cleared and soon restored
   * keeps its key. */
  keyOf(of: string, what: string, fresh: string): string {
    const kept = this.storage.get(this.keyPlace(of)) ?? "";
    const key = kept.slice(0, kept.indexOf(" "));
    if (kept === `${key} ${what}`) return key;
    this.storage.set(this.keyPlace(of), `${fresh} ${what}`);
    return fresh;
  }

  /** The server has the text that was sent under this key: clear the draft, wherever it is shown. Another tab may have sent
   * another text meanwhile, under the key that is stored now. */
  taken(of: string, key: string, words: string): void {
    if (this.known.has(key)) return;
    this.known.add(key);
    if (this.storage.get(this.keyPlace(of))?.startsWith(`${key} `)) this.storage.remove(this.keyPlace(of));
    if (this.read(of) === words) this.write(of, "");
    for (const watcher of [...this.watchers]) watcher(of, words);
  }

  /** Call `watcher` when the server has taken a draft, until the returned function is called. */
  watch(watcher: Watcher): () => void {
    this.watchers.add(watcher);
    return () => void this.watchers.delete(watcher);
  }

  private keyPlace(of: string): string {
    return `${this.prefix}${of}.key`;
  }
}
