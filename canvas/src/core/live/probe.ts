/** Notices, while the page is not connected, when the server answers again, so that a restart is over for the page within a
 * second. A cheap request, not the WebSocket: a browser delays the sockets of a page after several failures, and the waits of
 * the connection grow to five seconds. */

/** A visible page asks about each 0.6 s (0.4 to 0.8 s: the pages of 200 people spread by chance). */
const INTERVAL_MS = 800;
/** A restart takes less than two minutes; what lasts longer is asked about as seldom as the connection tries. */
const LONG_OUTAGE_MS = 120_000;
const LONG_INTERVAL_MS = 5_000;

export class Probe {
  private readonly isReachable: () => Promise<boolean>;
  private readonly onReachable: () => void;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private since: number | null = null;
  /** Whether the last request failed. Only a server that was away has come back: where it answers and the WebSocket
   * nevertheless fails, the waits of the connection hold. */
  private wasAway = false;

  constructor(isReachable: () => Promise<boolean>, onReachable: () => void) {
    this.isReachable = isReachable;
    this.onReachable = onReachable;
  }

  /** Does nothing while it runs. `wasAway`: the first answer counts as a return. */
  start({ wasAway = false } = {}): void {
    if (this.since !== null) return;
    this.since = Date.now();
    this.wasAway = wasAway;
    this.schedule();
  }

  stop(): void {
    this.since = null;
    clearTimeout(this.timer);
  }

  private schedule(): void {
    const { since } = this;
    if (since === null) return;
    const longest = Date.now() - since > LONG_OUTAGE_MS ? LONG_INTERVAL_MS : INTERVAL_MS;
    this.timer = setTimeout(() => void this.look(since), longest * (0.5 + Math.random() / 2));
  }

  private async look(since: number): Promise<void> {
    // A hidden page reconnects when it is shown again.
    if (document.visibilityState === "visible") {
      const reachable = await this.isReachable();
      if (this.since !== since) return;
      const isBack = reachable && this.wasAway;
      this.wasAway = !reachable;
      if (isBack) this.onReachable();
    }
    this.schedule();
  }
}
