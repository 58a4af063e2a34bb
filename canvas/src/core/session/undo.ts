/** The last undoable action. */

export interface Undo {
  text: string;
  run: () => Promise<void>;
  /** Deadline in ms since the epoch by this machine's clock; absent: until the next action. */
  until?: number;
}

/** A move of an agent on this page. */
export interface Move {
  id: string;
  /** The move before it was undone, or was rejected. */
  isBack: boolean;
}
