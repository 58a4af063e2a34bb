/** The person's own messages until the server shows them. Kept in the browser from Enter on, one entry a key, so that no
 * reload and no second tab loses one. */

import type { Attachment, Choice } from "../state/model";
import { list, members, number, text } from "../state/json";
import { createStore, type Store } from "../store/store";
import type { Vault } from "../store/browserStorage";

export interface Unsent {
  clientId: string;
  workspaceId: string;
  text: string;
  /** Its files; those without an address are in the page that they were chosen in, and nowhere else. */
  files: readonly Attachment[];
  /** The option of an agent's question that it chooses. */
  choice: Choice | null;
  at: string;
  state: "sending" | "stored" | "not_sent";
  /** Why it was not sent, in words for people. */
  reason: string | null;
  /** The connection failed: the page itself tries again once it is back. */
  again: boolean;
}

export type SendResult = { ok: true } | { ok: false; reason: string; again: boolean };

export type Send = (entry: Unsent) => Promise<SendResult>;

export interface Written {
  workspaceId: string;
  words: string;
  files?: readonly Attachment[];
  choice?: Choice | null;
}

export const LEFT_BEHIND = "The page was closed before the server had confirmed it.";

export class Outbox {
  readonly entries: Store<readonly Unsent[]>;
  private readonly vault: Vault;
  private readonly prefix: string;
  private readonly send: Send;
  /** What this tab is sending right now; what another tab is sending is that tab's to tell. */
  private readonly underWay = new Set<string>();

  constructor(vault: Vault, owner: { org: string; user: string }, send: Send) {
    this.vault = vault;
    this.prefix = `molecule.unsent.${owner.org}.${owner.user}.`;
    this.send = send;
    this.entries = createStore<readonly Unsent[]>(this.stored().map(leftBehind));
  }

  /** Shows the message at once, keeps it, and sends it; what came of that. */
  write({ workspaceId, words, files = [], choice = null }: Written, now: string, clientId: string): Promise<SendResult> {
    return this.deliver({ clientId, workspaceId, text: words, files, choice, at: now, state: "sending", reason: null, again: false });
  }

  /** The server has got one of the files of a message: it is not sent again with the next try. */
  brought(clientId: string, place: number, file: Attachment): void {
    const entry = this.find(clientId);
    if (entry) this.keep({ ...entry, files: entry.files.with(place, file) });
  }

  async retry(clientId: string): Promise<void> {
    const entry = this.find(clientId);
    if (entry?.state === "not_sent") await this.deliver({ ...entry, state: "sending", reason: null });
  }

  /** After the connection came back: sends what only the connection held up, if this tab can. The same client id has one effect. */
  async retryHeldUp(canSend: (entry: Unsent) => boolean = () => true): Promise<void> {
    for (const entry of this.entries.get()) {
      if (entry.state === "not_sent" && entry.again && canSend(entry)) await this.retry(entry.clientId);
    }
  }

  discard(clientId: string): void {
    this.vault.remove(this.prefix + clientId);
    this.entries.update((all) => all.filter((each) => each.clientId !== clientId));
  }

  /** The server shows these messages itself now. */
  settle(clientIds: ReadonlySet<string>): void {
    for (const entry of this.entries.get()) if (clientIds.has(entry.clientId)) this.discard(entry.clientId);
  }

  /** Another tab of the same person changed what is kept. */
  reread(): void {
    const stored = new Map(this.stored().map((each) => [each.clientId, each]));
    this.entries.update((all) => {
      const own = all.filter(
        (each) => each.state === "stored" || (this.underWay.has(each.clientId) && stored.has(each.clientId)),
      );
      for (const { clientId } of own) stored.delete(clientId);
      return [...own, ...stored.values()].sort(byTime);
    });
  }

  private async deliver(entry: Unsent): Promise<SendResult> {
    this.keep(entry);
    this.underWay.add(entry.clientId);
    const result = await this.send(entry);
    this.underWay.delete(entry.clientId);
    const kept = this.find(entry.clientId);
    if (kept === undefined) return result;
    if (result.ok) this.confirm(entry.clientId);
    else this.keep({ ...kept, state: "not_sent", reason: result.reason, again: result.again });
    return result;
  }

  private confirm(clientId: string): void {
    this.vault.remove(this.prefix + clientId);
    this.entries.update((all) =>
      all.map((each) => (each.clientId === clientId ? { ...each, state: "stored" as const, reason: null } : each)),
    );
  }

  private keep(entry: Unsent): void {
    this.vault.set(this.prefix + entry.clientId, JSON.stringify(entry));
    this.entries.update((all) => [...all.filter((each) => each.clientId !== entry.clientId), entry].sort(byTime));
  }

  private find(clientId: string): Unsent | undefined {
    return this.entries.get().find((each) => each.clientId === clientId);
  }

  private stored(): Unsent[] {
    return this.vault
      .keys(this.prefix)
      .map((key) => parse(this.vault.get(key)))
      .filter((entry) => entry !== null)
      .sort(byTime);
  }
}

function byTime(one: Unsent, other: Unsent): number {
  return one.at < other.at ? -1 : one.at > other.at ? 1 : 0;
}

/** An entry of an earlier page. Whether it arrived is not known, so the person decides; sending it again is safe. */
function leftBehind(entry: Unsent): Unsent {
  return { ...entry, state: "not_sent", reason: LEFT_BEHIND, again: false };
}

function parse(stored: string | null): Unsent | null {
  if (stored === null) return null;
  try {
    const value: unknown = JSON.parse(stored);
    const [clientId, workspaceId] = [text(value, "clientId"), text(value, "workspaceId")];
    const [words, at] = [text(value, "text"), text(value, "at")];
    if (clientId === null || workspaceId === null || words === null || at === null) return null;
    const state = text(value, "state") === "sending" ? "sending" : "not_sent";
    const files = list(value, "files").map(keptFile);
    const [of, option] = [text(value, "choice", "of"), number(value, "choice", "option")];
    const choice = of === null || option === null ? null : { of, option };
    const again = members(value)?.["again"] === true;
    return { clientId, workspaceId, text: words, files, choice, at, state, reason: text(value, "reason"), again };
  } catch {
    return null;
  }
}

function keptFile(file: unknown): Attachment {
  return { name: text(file, "name") ?? "file", size: number(file, "size"), uri: text(file, "uri"), type: text(file, "type") };
}
