/** Tells the server how far a person has read in each chat: at once, and while more is read only so often. What could not
 * be told is kept until `retry`. */

/** Longer than the gaps in a burst of messages, shorter than a person takes to look at another device. */
const REST_MS = 500;

export class ReadMarks {
  private readonly send: (workspaceId: string, seq: number) => Promise<unknown>;
  private readonly untold = new Map<string, number>();
  private readonly resting = new Map<string, ReturnType<typeof setTimeout>>();

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

  stop(): void {
    for (const timer of this.resting.values()) clearTimeout(timer);
    this.resting.clear();
  }

  private deliver(workspaceId: string, seq: number): void {
    clearTimeout(this.resting.get(workspaceId));
    this.resting.set(workspaceId, setTimeout(() => this.rested(workspaceId, seq), REST_MS));
    this.send(workspaceId, seq).then(
      () => this.untold.get(workspaceId) === seq && this.untold.delete(workspaceId),
      () => undefined, // told again when the connection is back
    );
  }

  private rested(workspaceId: string, told: number): void {
    this.resting.delete(workspaceId);
    const seq = this.untold.get(workspaceId);
    if (seq !== undefined && seq > told) this.deliver(workspaceId, seq);
  }
}
