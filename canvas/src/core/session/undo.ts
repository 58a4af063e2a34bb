/** The last undoable action. */

export interface Undo {
  text: string;
  run: () => Promise<void>;
  /** Deadline in ms since the epoch by this machine's clock; absent: until the next action. */
  until?: number;
}
