/** The lists of problems, and whether they could be read: unknown is never shown as healthy.
 *
 * They are read when an event says that they changed, and after the time that the server names: no event reports that a
 * message has waited for too long. A hidden page reads when it is shown again. */

import { NO_PROBLEMS, type Problems } from "../state/problems";
import { createStore, type Store } from "../store/store";
import { errorText } from "../api/api";

/** A failed read is retried once after this time: most server interruptions are shorter. */
export const RETRY_MS = 5_000;
/** The pages of an organisation are given the same time for their next read; each adds up to this much. */
export const SPREAD_MS = 5_000;

interface ProblemListsOptions {
  load: () => Promise<Problems>;
  now: () => number;
  /** A number from 0 to 1. */
  chance: () => number;
  isVisible: () => boolean;
}

export class ProblemLists {
  readonly problems: Store<Problems> = createStore<Problems>(NO_PROBLEMS);
  /** `readAt`: time of the last successful read; null: none yet. `problem`: error of the last read. The previous lists
   * stay. */
  readonly status: Store<{ readAt: number | null; problem: string | null }> = createStore<{ readAt: number | null; problem: string | null }>({ readAt: null, problem: null });
  private readonly options: ProblemListsOptions;
  private reading: "no" | "yes" | "again" | "stopped" = "no";
  private retry: ReturnType<typeof setTimeout> | undefined;
  private nextCheck: ReturnType<typeof setTimeout> | undefined;
  /** The time of the next read passed while the page was hidden. */
  private isDue = false;

  constructor(options: ProblemListsOptions) {
    this.options = options;
  }

  stop(): void {
    this.reading = "stopped";
    clearTimeout(this.retry);
    clearTimeout(this.nextCheck);
  }

  /** Read the lists if their time passed while the page was hidden. */
  readIfDue(): void {
    if (this.isDue && this.options.isVisible()) void this.read();
  }

  /** One read at a time; a change during a read causes one more. A failed read is retried once; after that the next change,
   * reconnect or request reads again. */
  async read(mayRetry = true): Promise<void> {
    if (this.reading !== "no") {
      if (this.reading === "yes") this.reading = "again";
      return;
    }
    clearTimeout(this.retry);
    clearTimeout(this.nextCheck);
    this.isDue = false;
    do {
      this.reading = "yes";
      await this.readOnce();
    } while (this.isIn("again"));
    if (this.isIn("stopped")) return;
    this.reading = "no";
    if (mayRetry && this.status.get().problem !== null) this.retry = setTimeout(() => void this.read(false), RETRY_MS);
    this.scheduleCheck();
  }

  private scheduleCheck(): void {
    const ms = this.problems.get().nextCheckSeconds * 1_000;
    const check = (): void => {
      this.isDue = true;
      this.readIfDue();
    };
    this.nextCheck = setTimeout(check, ms + this.options.chance() * Math.min(ms / 10, SPREAD_MS));
  }

  private async readOnce(): Promise<void> {
    try {
      this.problems.set(await this.options.load());
      this.status.set({ readAt: this.options.now(), problem: null });
    } catch (error) {
      this.status.update((before) => ({ ...before, problem: errorText(error) }));
    }
  }

  private isIn(phase: ProblemLists["reading"]): boolean {
    return this.reading === phase;
  }
}
