/** What was done last and can be taken back. */

export interface Undo {
  text: string;
  run: () => Promise<void>;
  /** Until when (ms since the epoch, by this machine) it can be; absent: until something else is done. */
  until?: number;
}
