/** What is owed for a message: its answer, and what became of it. */

export type ObligationState = "open" | "answered_outside" | "overdue" | "declined" | "answered";

export interface Obligation {
  state: ObligationState;
  dueAt: string | null;
  /** What the agent said and did not send. */
  draft: string | null;
  /** Why it declined. */
  reason: string | null;
  /** What it was told with, as id@version. */
  template: string | null;
  form: string | null;
  tokens: number | null;
}

/** The numbers of messages to one workspace that wait although an answer was due, or was said elsewhere. */
export interface Unanswered {
  overdue: ReadonlySet<number>;
  outside: ReadonlySet<number>;
}
