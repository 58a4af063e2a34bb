/** Forgets ended turns a moment after their end: until then their text stays where the answer appears. */

import type { Store } from "../store/store";
import { isEnded, type LiveTurns } from "../state/liveTurns";

/** An answer that has not come within this time does not come in place of the text. */
const KEEP_MS = 5_000;

export class EndedTurns {
  private readonly turns: Store<LiveTurns>;
  private readonly timers = new Map<string, ReturnType<typeof setTimeout>>();

  constructor(turns: Store<LiveTurns>) {
    this.turns = turns;
  }

  /** Schedule the end of turns that have ended since the last call. */
  forgetLater(): void {
    for (const [key, turn] of this.turns.get()) {
      if (!isEnded(turn) || this.timers.has(key)) continue;
      this.timers.set(key, setTimeout(() => this.forget(key), KEEP_MS));
    }
  }

  private forget(key: string): void {
    this.timers.delete(key);
    const turn = this.turns.get().get(key);
    // It may have begun again, for a reminder.
    if (turn !== undefined && isEnded(turn)) this.turns.update((all) => new Map([...all].filter(([each]) => each !== key)));
  }

  stop(): void {
    for (const timer of this.timers.values()) clearTimeout(timer);
    this.timers.clear();
  }
}
