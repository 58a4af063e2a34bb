/** Send read positions of chats to the server: the first at once, further ones throttled. Unsent ones are kept until
 * `retry`. */

/** Longer than the gaps in a burst of messages, shorter than another page takes to open and ask for unread counts. */
const THROTTLE_MS = 100;

export class ReadMarks {
  private readonly send: (workspaceId: string, seq: number) => Promise<unknown>;
  private readonly pending = new Map<string, number>();
  private readonly throttled = new Map<string, { timer: ReturnType<typeof setTimeout>; sent: number }>();

  constructor(send: (workspaceId: string, seq: number) => Promise<unknown>) {
    this.send = send;
  }

  mark(workspaceId: string, seq: number): void {
    this.pending.set(workspaceId, seq);
    if (!this.throttled.has(workspaceId)) this.deliver(workspaceId, seq);
  }

  /** The chat is unread again: what waits to be sent of it no longer counts. */
  drop(workspaceId: string): void {
    this.pending.delete(workspaceId);
    clearTimeout(this.throttled.get(workspaceId)?.timer);
    this.throttled.delete(workspaceId);
  }

  /** Call after a reconnect. */
  retry(): void {
    for (const [workspaceId, seq] of this.pending) this.deliver(workspaceId, seq);
  }

  /** Send what the throttle holds back: the page may be closing. */
  flush(): void {
    for (const [workspaceId, { sent }] of [...this.throttled]) this.endThrottle(workspaceId, sent);
  }

  stop(): void {
    for (const { timer } of this.throttled.values()) clearTimeout(timer);
    this.throttled.clear();
  }

  private deliver(workspaceId: string, seq: number): void {
    clearTimeout(this.throttled.get(workspaceId)?.timer);
    this.throttled.set(workspaceId, { timer: setTimeout(() => this.endThrottle(workspaceId, seq), THROTTLE_MS), sent: seq });
    this.send(workspaceId, seq).then(
      () => this.pending.get(workspaceId) === seq && this.pending.delete(workspaceId),
      () => undefined, // sent again after the reconnect
    );
  }

  private endThrottle(workspaceId: string, sent: number): void {
    clearTimeout(this.throttled.get(workspaceId)?.timer);
    this.throttled.delete(workspaceId);
    const seq = this.pending.get(workspaceId);
    // A smaller number is news too: a server restored from a backup counts on from there.
    if (seq !== undefined && seq !== sent) this.deliver(workspaceId, seq);
  }
}
