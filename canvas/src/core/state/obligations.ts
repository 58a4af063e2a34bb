/** The obligation of a message: whether it was answered. */

export type ObligationState = "open" | "answered_outside" | "overdue" | "declined" | "answered";

export interface Obligation {
  state: ObligationState;
  dueAt: string | null;
  /** An answer that the agent wrote and did not send. */
  draft: string | null;
  /** Why the agent declined, or why its work on an open message failed. */
  reason: string | null;
  /** Instructions sent with the message, as id@version. */
  template: string | null;
  form: string | null;
  tokens: number | null;
}

/** Sequence numbers of one workspace's messages that are overdue, or were answered outside of Molecule. */
export interface Unanswered {
  overdue: ReadonlySet<number>;
  outside: ReadonlySet<number>;
}
