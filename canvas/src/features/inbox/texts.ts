/** Texts about the kinds of the inbox. Pure. */

import type { InboxKind } from "../../core/state/inboxKinds";

export const KIND_TEXTS: Readonly<Record<InboxKind, { label: string; none: string }>> = {
  approval: { label: "Approvals", none: "No requests waiting for you" },
  question: { label: "Questions", none: "No open questions" },
  draft: { label: "Unsent answers", none: "No unsent answers" },
  overdue: { label: "Overdue answers", none: "No overdue answers" },
  task: { label: "Tasks", none: "No failed or stuck tasks" },
  undelivered: { label: "Undelivered", none: "No undelivered messages" },
  chain: { label: "Stopped chains", none: "No stopped chains" },
  agent: { label: "Agents", none: "No agents with problems" },
};
