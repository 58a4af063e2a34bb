/** Messages between the tabs of one browser. */

import { number, text } from "../state/json";

export type TabMessage =
  | { kind: "read"; owner: string; workspaceId: string; seq: number }
  | { kind: "unread"; owner: string; workspaceId: string; seq: number }
  /** The owner of the browser's session. A tab with another owner checks its session. */
  | { kind: "logged_in"; owner: string }
  | { kind: "logged_out" };

export class Tabs {
  private channel: BroadcastChannel | null;

  constructor(onMessage: (message: TabMessage) => void) {
    this.channel = typeof BroadcastChannel === "undefined" ? null : new BroadcastChannel("molecule");
    if (this.channel !== null) this.channel.onmessage = (message) => parseMessage(message.data, onMessage);
  }

  post(message: TabMessage): void {
    this.channel?.postMessage(message);
  }

  close(): void {
    this.channel?.close();
    this.channel = null; // posting to a closed channel throws
  }
}

function parseMessage(value: unknown, onMessage: (message: TabMessage) => void): void {
  const kind = text(value, "kind");
  if (kind === "logged_out") return onMessage({ kind });
  const [owner, workspaceId, seq] = [text(value, "owner"), text(value, "workspaceId"), number(value, "seq")];
  if (kind === "logged_in" && owner !== null) onMessage({ kind, owner });
  if ((kind === "read" || kind === "unread") && owner !== null && workspaceId !== null && seq !== null) onMessage({ kind, owner, workspaceId, seq });
}
