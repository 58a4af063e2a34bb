/** The lists of problems, and whether they could be read: unknown is never shown as healthy. */

import { NO_PROBLEMS, type Problems } from "../state/problems";
import { createStore, type Store } from "../store/store";
import { errorText } from "../api/api";

/** A failed read is retried once after this time: most server interruptions are shorter. */
export const RETRY_MS = 5_000;

export class ProblemLists {
  readonly problems: Store<Problems> = createStore<Problems>(NO_PROBLEMS);
  /** `readAt`: time of the last successful read; null: none yet. `problem`: error of the last read. The previous lists
   * stay. */
  readonly status: Store<{ readAt: number | null; problem: string | null }> = createStore<{ readAt: number | null; problem: string | null }>({ readAt: null, problem: null });
  private readonly load: () => Promise<Problems>;
  private readonly now: () => number;
  private reading: "no" | "yes" | "again" | "stopped" = "no";
  private retry: ReturnType<typeof setTimeout> | undefined;

  constructor(load: () => Promise<Problems>, now: () => number) {
    this.load = load;
    this.now = now;
  }

  stop(): void {
    this.reading = "stopped";
    clearTimeout(this.retry);
  }

  /** One read at a time; a change during a read causes one more. A failed read is retried once; after that the next change,
   * reconnect or request reads again. */
  async read(mayRetry = true): Promise<void> {
    if (this.reading !== "no") {
      if (this.reading === "yes") this.reading = "again";
      return;
    }
    clearTimeout(this.retry);
    do {
      this.reading = "yes";
      await this.readOnce();
    } while (this.isIn("again"));
    if (this.isIn("stopped")) return;
    this.reading = "no";
    if (mayRetry && this.status.get().problem !== null) this.retry = setTimeout(() => void this.read(false), RETRY_MS);
  }

  private async readOnce(): Promise<void> {
    try {
      this.problems.set(await this.load());
      this.status.set({ readAt: this.now(), problem: null });
    } catch (error) {
      this.status.update((before) => ({ ...before, problem: errorText(error) }));
    }
  }

  private isIn(phase: ProblemLists["reading"]): boolean {
    return this.reading === phase;
  }
}
