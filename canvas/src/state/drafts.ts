/** What a person began to write, kept per conversation. */

import type { Vault } from "./vault";

type Watcher = (of: string, words: string) => void;

export class Drafts {
  private readonly vault: Vault;
  private readonly prefix: string;
  private readonly watchers = new Set<Watcher>();

  constructor(vault: Vault, owner: { org: string; user: string }) {
    this.vault = vault;
    this.prefix = `molecule.draft.${owner.org}.${owner.user}.`;
  }

  read(of: string): string {
    return this.vault.get(this.prefix + of) ?? "";
  }

  write(of: string, words: string): void {
    if (words !== "") return this.vault.set(this.prefix + of, words);
    this.vault.remove(this.prefix + of);
    this.vault.remove(this.keyPlace(of));
  }

  /** The key under which a draft is sent: the same whenever the same is sent again, until the server has it or the draft is
   * gone, so that an answer that was lost, or came when nobody was there to take it, does not say it twice. */
  keyOf(of: string, what: string, fresh: string): string {
    const kept = this.vault.get(this.keyPlace(of)) ?? "";
    const key = kept.slice(0, kept.indexOf(" "));
    if (kept === `${key} ${what}`) return key;
    this.vault.set(this.keyPlace(of), `${fresh} ${what}`);
    return fresh;
  }

  /** The server has what was sent under this key: it is no draft any more, wherever it is shown. */
  taken(of: string, key: string, words: string): void {
    const kept = this.vault.get(this.keyPlace(of)) ?? "";
    if (!kept.startsWith(`${key} `)) return;
    this.vault.remove(this.keyPlace(of));
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
