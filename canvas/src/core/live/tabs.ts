/** Messages between the tabs of one browser. */

import { number, text } from "../state/json";

export type TabMessage =
  | { kind: "read"; owner: string; workspaceId: string; seq: number }
  | { kind: "unread"; owner: string; workspaceId: string; seq: number }
  /** A login of the browser began. A tab of another person in the same organisation checks its session. */
  | { kind: "logged_in"; owner: string }
  | { kind: "logged_out"; owner: string };

const CHANNEL = "molecule";

export class Tabs {
  private channel: BroadcastChannel | null;

  constructor(onMessage: (message: TabMessage) => void) {
    this.channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel(CHANNEL);
    if (this.channel !== null) this.channel.onmessage = (message) => parseMessage(message.data, onMessage);
  }

  post(message: TabMessage): void {
    this.channel?.postMessage(message);
  }

  /** Post a message also after `close`: a logout may end the session before its response arrives. */
  static postOnce(message: TabMessage): void {
    if (typeof BroadcastChannel === "undefined") return;
    const channel = new BroadcastChannel(CHANNEL);
    channel.postMessage(message);
    channel.close();
  }

  close(): void {
    this.channel?.close();
    this.channel = null; // posting to a closed channel throws
  }
}

function parseMessage(value: unknown, onMessage: (message: TabMessage) => void): void {
  const kind = text(value, "kind");
  const [owner, workspaceId, seq] = [text(value, "owner"), text(value, "workspaceId"), number(value, "seq")];
  if ((kind === "logged_in" || kind === "logged_out") && owner !== null) onMessage({ kind, owner });
  if ((kind === "read" || kind === "unread") && owner !== null && workspaceId !== null && seq !== null) onMessage({ kind, owner, workspaceId, seq });
}
