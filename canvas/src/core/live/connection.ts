/** The live connection of this tab. Performs with a WebSocket and timers what `connectionState` decides. */

import type { EventFrame, Snapshot } from "../wire";
import { createStore, type Store } from "../store/store";
import { Probe } from "./probe";
import { INITIAL, step, type LinkEffect, type LinkEvent, type Link } from "./connectionState";

const CLOCK_MS = 5_000;
/** A shorter interruption shows no banner. */
const QUIET_MS = 700;
/** A hidden page gets no animation frames, so its events are applied by a timer. */
const HIDDEN_BATCH_MS = 200;
/** Missed events are applied together once all have come, since each batch costs a layout of the page; those of this time
 * at once, if more are on their way. */
const MISSED_BATCH_MS = 1_000;

interface LinkView {
  /** `starting` until the page was live for the first time. */
  mode: "starting" | "live" | "lost" | "outdated";
  /** Time of the last frame from the server. */
  lastFrameAt: number;
}

export interface ConnectionOptions {
  url: string;
  loadSnapshot: () => Promise<Snapshot>;
  checkSession: () => void;
  /** Whether the server answers at all. */
  isReachable: () => Promise<boolean>;
  onSnapshot: (snapshot: Snapshot) => void;
  onEvents: (frames: readonly EventFrame[]) => void;
  onLive: () => void;
  onSnapshotProblem: (error: unknown) => void;
  onLogOut: () => void;
}

export class Connection {
  readonly view: Store<LinkView> = createStore<LinkView>({ mode: "starting", lastFrameAt: Date.now() });
  private readonly options: ConnectionOptions;
  private link: Link = INITIAL;
  private socket: WebSocket | null = null;
  private queue: EventFrame[] = [];
  private flushAsked = false;
  /** Missed events that have not come yet, and until when they are waited for. */
  private missing = { count: 0, until: 0 };
  private waitTimer: ReturnType<typeof setTimeout> | undefined;
  private quietTimer: ReturnType<typeof setTimeout> | undefined;
  private clockTimer: ReturnType<typeof setInterval> | undefined;
  private snapshotTimer: ReturnType<typeof setTimeout> | undefined;
  private stopped = false;
  private readonly probe: Probe;

  constructor(parts: ConnectionOptions) {
    this.options = parts;
    this.probe = new Probe(parts.isReachable, () => this.retry());
  }

  start(): void {
    this.clockTimer = setInterval(() => this.dispatch({ kind: "clock" }), CLOCK_MS);
    window.addEventListener("online", this.retry);
    window.addEventListener("offline", this.goOffline);
    document.addEventListener("visibilitychange", this.onVisibility);
    this.dispatch({ kind: "start" });
  }

  stop(): void {
    this.stopped = true;
    this.probe.stop();
    clearInterval(this.clockTimer);
    clearTimeout(this.waitTimer);
    clearTimeout(this.quietTimer);
    clearTimeout(this.snapshotTimer);
    window.removeEventListener("online", this.retry);
    window.removeEventListener("offline", this.goOffline);
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.closeSocket();
  }

  /** Reconnect now instead of after the backoff. */
  readonly retry = (): void => this.dispatch({ kind: "retry" });

  private readonly goOffline = (): void => this.dispatch({ kind: "offline" });

  private readonly onVisibility = (): void => {
    if (document.visibilityState === "visible") this.retry();
    else this.flush(); // no animation frame runs while the page is hidden
  };

  private dispatch(what: LinkEvent): void {
    if (this.stopped) return;
    const wasLive = this.link.phase === "live";
    const [next, effects] = step(this.link, what, { now: Date.now(), chance: Math.random() });
    this.link = next;
    for (const action of effects) this.perform(action);
    this.show(wasLive);
  }

  private perform(effect: LinkEffect): void {
    switch (effect.do) {
      case "open":
        return this.open();
      case "close":
        return this.closeSocket();
      case "send":
        return this.socket?.send(JSON.stringify(effect.frame));
      case "apply":
        return this.enqueue(effect.frame);
      case "expect":
        this.missing = { count: effect.count, until: Date.now() + MISSED_BATCH_MS };
        return;
      case "load_snapshot":
        return this.loadSnapshot(effect.delayMs);
      case "wait":
        clearTimeout(this.waitTimer);
        this.waitTimer = setTimeout(this.retry, effect.ms);
        return;
      case "check_session":
        return navigator.onLine ? this.options.checkSession() : undefined;
      case "log_out":
        return this.options.onLogOut();
      case "ask_reload":
        return this.view.set({ ...this.view.get(), mode: "outdated" });
    }
  }

  private open(): void {
    this.closeSocket();
    this.missing.count = 0;
    clearTimeout(this.waitTimer);
    const socket = new WebSocket(this.options.url);
    this.socket = socket;
    socket.onmessage = (message) => this.dispatch({ kind: "frame", frame: parse(message.data) });
    socket.onclose = (end) => this.dispatch({ kind: "closed", code: end.code });
  }

  private closeSocket(): void {
    if (this.socket === null) return;
    this.socket.onmessage = null;
    this.socket.onclose = null;
    this.socket.close();
    this.socket = null;
  }

  private loadSnapshot(delayMs: number): void {
    clearTimeout(this.snapshotTimer);
    this.snapshotTimer = setTimeout(() => void this.fetchSnapshot(), delayMs);
  }

  private async fetchSnapshot(): Promise<void> {
    try {
      const snapshot = await this.options.loadSnapshot();
      if (this.stopped) return;
      this.queue = [];
      this.missing.count = 0;
      this.options.onSnapshot(snapshot);
      this.dispatch({ kind: "snapshot", baseline: { after: snapshot.as_of, epoch: snapshot.epoch } });
    } catch (error) {
      if (this.stopped) return;
      this.options.onSnapshotProblem(error);
      this.dispatch({ kind: "snapshot_failed" });
    }
  }

  private enqueue(frame: EventFrame): void {
    this.queue.push(frame);
    if (frame.seq !== undefined) this.missing.count -= 1;
    this.askFlush();
  }

  private askFlush(): void {
    if (this.flushAsked) return;
    this.flushAsked = true;
    if (document.visibilityState === "hidden") setTimeout(this.flush, HIDDEN_BATCH_MS);
    else requestAnimationFrame(this.flush);
  }

  private readonly flush = (): void => {
    this.flushAsked = false;
    if (this.missing.count > 0 && Date.now() < this.missing.until) return this.askFlush();
    const frames = this.queue;
    this.queue = [];
    if (frames.length > 0 && !this.stopped) this.options.onEvents(frames);
  };

  private show(wasLive: boolean): void {
    const { phase, lastFrameAt } = this.link;
    if (phase === "live") {
      clearTimeout(this.quietTimer);
      this.quietTimer = undefined;
      this.probe.stop();
      const seen = this.view.get();
      if (seen.mode !== "live" || !wasLive) this.view.set({ mode: "live", lastFrameAt });
      if (!wasLive) this.options.onLive();
    } else if (phase === "ended") {
      this.probe.stop();
    } else if (phase === "closed" || phase === "opening") {
      this.quietTimer ??= setTimeout(() => this.showLost(lastFrameAt || this.view.get().lastFrameAt), QUIET_MS);
    }
  }

  private showLost(heardAt: number): void {
    const { mode } = this.view.get();
    if (mode === "outdated" || this.link.phase === "live") return;
    this.view.set({ mode: "lost", lastFrameAt: heardAt });
    if (!this.stopped) this.probe.start();
  }
}

function parse(data: unknown): unknown {
  try {
    return JSON.parse(String(data));
  } catch {
    return null;
  }
}
