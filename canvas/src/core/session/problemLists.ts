/** The lists of what is stuck, and whether they could be read: what is not known is never called well. */

import { NO_PROBLEMS, type Problems } from "../state/problems";
import { createStore, type Store } from "../store/store";
import { errorText } from "../api/api";

/** After so long a failed reading is tried once more: most troubles of a server are over by then. */
export const RETRY_MS = 5_000;

export class ProblemLists {
  readonly problems: Store<Problems> = createStore<Problems>(NO_PROBLEMS);
  /** When the lists were read; null: not yet. `problem`: why not, the last time; what was there before stays. */
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

  /** One reading at a time; what changes meanwhile is read once more after it. A failed one is tried once more; then it is
   * made up for by the next change or the next connection, or by somebody who asks. */
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
