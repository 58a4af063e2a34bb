/** Tells the server how far a person has read in each chat: at once, and while more is read only so often. What could not
 * be told is kept until `retry`. */

/** Longer than the gaps in a burst of messages, shorter than another page takes to open and ask what is unread. */
const REST_MS = 100;

export class ReadMarks {
  private readonly send: (workspaceId: string, seq: number) => Promise<unknown>;
  private readonly untold = new Map<string, number>();
  private readonly resting = new Map<string, { timer: ReturnType<typeof setTimeout>; told: number }>();

  constructor(send: (workspaceId: string, seq: number) => Promise<unknown>) {
    this.send = send;
  }

  tell(workspaceId: string, seq: number): void {
    this.untold.set(workspaceId, seq);
    if (!this.resting.has(workspaceId)) this.deliver(workspaceId, seq);
  }

  /** The connection is back. */
  retry(): void {
    for (const [workspaceId, seq] of this.untold) this.deliver(workspaceId, seq);
  }

  /** Tells at once what waits for the end of a rest: nobody may be here to tell it later. */
  flush(): void {
    for (const [workspaceId, { told }] of [...this.resting]) this.rested(workspaceId, told);
  }

  stop(): void {
    for (const { timer } of this.resting.values()) clearTimeout(timer);
    this.resting.clear();
  }

  private deliver(workspaceId: string, seq: number): void {
    clearTimeout(this.resting.get(workspaceId)?.timer);
    this.resting.set(workspaceId, { timer: setTimeout(() => this.rested(workspaceId, seq), REST_MS), told: seq });
    this.send(workspaceId, seq).then(
      () => this.untold.get(workspaceId) === seq && this.untold.delete(workspaceId),
      () => undefined, // told again when the connection is back
    );
  }

  private rested(workspaceId: string, told: number): void {
    clearTimeout(this.resting.get(workspaceId)?.timer);
    this.resting.delete(workspaceId);
    const seq = this.untold.get(workspaceId);
    // Another number is news, also a smaller one: a server restored from a backup counts on from there.
    if (seq !== undefined && seq !== told) this.deliver(workspaceId, seq);
  }
}
