/** The kinds of items of the inbox, as they are in its address. */

export const INBOX_KINDS = ["approval", "question", "draft", "overdue", "task", "undelivered", "chain", "agent"] as const;

export type InboxKind = (typeof INBOX_KINDS)[number];
