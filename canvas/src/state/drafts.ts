/** What a person began to write, kept per conversation. */

import type { Vault } from "./vault";

export class Drafts {
  private readonly vault: Vault;
  private readonly prefix: string;

  constructor(vault: Vault, owner: { org: string; user: string }) {
    this.vault = vault;
    this.prefix = `molecule.draft.${owner.org}.${owner.user}.`;
  }

  read(workspaceId: string): string {
    return this.vault.get(this.prefix + workspaceId) ?? "";
  }

  write(workspaceId: string, words: string): void {
    if (words === "") this.vault.remove(this.prefix + workspaceId);
    else this.vault.set(this.prefix + workspaceId, words);
  }
}
