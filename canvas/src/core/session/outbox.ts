/** The person's own messages until the server shows them. Stored in the browser from the moment of sending, one entry per
 * key, so that neither a reload nor a second tab loses one. */

import type { Attachment, Choice } from "../state/model";
import { list, members, number, text } from "../state/json";
import { createStore, type Store } from "../store/store";
import type { KeyValueStorage } from "../store/browserStorage";

/** While the agent works on another message: after its turn, or into it. */
export type MessageTiming = "queue" | "steer";

export interface UnsentMessage {
  clientId: string;
  workspaceId: string;
  text: string;
  /** Attached files. One without an address exists only in the page in which it was chosen. */
  files: readonly Attachment[];
  /** The chosen option of an agent's question. */
  choice: Choice | null;
  when: MessageTiming;
  /** The message that it quotes. */
  replyTo: string | null;
  at: string;
  state: "sending" | "stored" | "not_sent";
  /** Why it was not sent, as a sentence for people. */
  reason: string | null;
  /** The connection failed: the page sends it again after the reconnect. */
  again: boolean;
}

export type SendResult = { ok: true } | { ok: false; reason: string; again: boolean };

export type SendMessage = (entry: UnsentMessage) => Promise<SendResult>;

export interface NewMessage {
  workspaceId: string;
  words: string;
  files?: readonly Attachment[];
  choice?: Choice | null;
  when?: MessageTiming;
  replyTo?: string | null;
}

export const LEFT_BEHIND = "The page was closed before the server confirmed this message.";

export class Outbox {
  readonly entries: Store<readonly UnsentMessage[]>;
  private readonly storage: KeyValueStorage;
  private readonly prefix: string;
  private readonly send: SendMessage;
  /** Messages that this tab is sending. Other tabs report their own. */
  private readonly inFlight = new Set<string>();

  constructor(storage: KeyValueStorage, owner: { org: string; user: string }, send: SendMessage) {
    this.storage = storage;
    this.prefix = `molecule.unsent.${owner.org}.${owner.user}.`;
    this.send = send;
    this.entries = createStore<readonly UnsentMessage[]>(this.stored().map(leftBehind));
  }

  /** Show the message, store it and send it. Resolves with the result. */
  add({ workspaceId, words, files = [], choice = null, when = "queue", replyTo = null }: NewMessage, now: string, clientId: string): Promise<SendResult> {
    return this.deliver({ clientId, workspaceId, text: words, files, choice, when, replyTo, at: now, state: "sending", reason: null, again: false });
  }

  /** A file of the message is uploaded; a retry does not upload it again. */
  recordUpload(clientId: string, place: number, file: Attachment): void {
    const entry = this.find(clientId);
    if (entry) this.keep({ ...entry, files: entry.files.with(place, file) });
  }

  async retry(clientId: string): Promise<void> {
    const entry = this.find(clientId);
    if (entry?.state === "not_sent") await this.deliver({ ...entry, state: "sending", reason: null });
  }

  /** After a reconnect, send the messages that only the connection kept back, if this tab has their files. The same client
   * id takes effect once. */
  async retryDisconnected(canSend: (entry: UnsentMessage) => boolean = () => true): Promise<void> {
    for (const entry of this.entries.get()) {
      if (entry.state === "not_sent" && entry.again && canSend(entry)) await this.retry(entry.clientId);
    }
  }

  discard(clientId: string): void {
    this.storage.remove(this.prefix + clientId);
    this.entries.update((all) => all.filter((each) => each.clientId !== clientId));
  }

  /** Remove messages that the server shows now. */
  settle(clientIds: ReadonlySet<string>): void {
    for (const entry of this.entries.get()) if (clientIds.has(entry.clientId)) this.discard(entry.clientId);
  }

  /** Another tab of the same person changed the stored messages. */
  reread(): void {
    const stored = new Map(this.stored().map((each) => [each.clientId, each]));
    this.entries.update((all) => {
      const own = all.filter(
        (each) => each.state === "stored" || (this.inFlight.has(each.clientId) && stored.has(each.clientId)),
      );
      for (const { clientId } of own) stored.delete(clientId);
      return [...own, ...stored.values()].sort(byTime);
    });
  }

  private async deliver(entry: UnsentMessage): Promise<SendResult> {
    this.keep(entry);
    this.inFlight.add(entry.clientId);
    const result = await this.send(entry);
    this.inFlight.delete(entry.clientId);
    const kept = this.find(entry.clientId);
    if (kept === undefined) return result;
    if (result.ok) this.confirm(entry.clientId);
    else this.keep({ ...kept, state: "not_sent", reason: result.reason, again: result.again });
    return result;
  }

  private confirm(clientId: string): void {
    this.storage.remove(this.prefix + clientId);
    this.entries.update((all) =>
      all.map((each) => (each.clientId === clientId ? { ...each, state: "stored" as const, reason: null } : each)),
    );
  }

  private keep(entry: UnsentMessage): void {
    this.storage.set(this.prefix + entry.clientId, JSON.stringify(entry));
    this.entries.update((all) => [...all.filter((each) => each.clientId !== entry.clientId), entry].sort(byTime));
  }

  private find(clientId: string): UnsentMessage | undefined {
    return this.entries.get().find((each) => each.clientId === clientId);
  }

  private stored(): UnsentMessage[] {
    return this.storage
      .keys(this.prefix)
      .map((key) => parse(this.storage.get(key)))
      .filter((entry) => entry !== null)
      .sort(byTime);
  }
}

function byTime(one: UnsentMessage, other: UnsentMessage): number {
  return one.at < other.at ? -1 : one.at > other.at ? 1 : 0;
}

/** An entry of an earlier page. Whether it arrived is unknown, so the person decides; sending it again is safe. */
function leftBehind(entry: UnsentMessage): UnsentMessage {
  return { ...entry, state: "not_sent", reason: LEFT_BEHIND, again: false };
}

function parse(stored: string | null): UnsentMessage | null {
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
    const when = text(value, "when") === "steer" ? "steer" : "queue";
    return { clientId, workspaceId, text: words, files, choice, when, replyTo: text(value, "replyTo"), at, state, reason: text(value, "reason"), again };
  } catch {
    return null;
  }
}

function keptFile(file: unknown): Attachment {
  return { name: text(file, "name") ?? "file", size: number(file, "size"), uri: text(file, "uri"), type: text(file, "type") };
}
