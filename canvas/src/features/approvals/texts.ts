/** Texts about approvals. Pure. */

import { outlivePage, type PendingDecision } from "../../core/session/undoableDecisions";
import { isPending, waitsForPerson, type Approval, type DecisionInput, type PathStep, type Party, type Verdict } from "../../core/state/approvals";
import type { Members } from "../../core/state/json";
import { showInvisible } from "../../core/text/invisible";
import { sentence } from "../../core/text/strings";

export type ApprovalState = "waiting" | "held" | "asked" | "approved" | "denied" | "expired" | "withdrawn";

/** The state as one glyph; the holder is shown beside it. */
export function stateOf(approval: Approval): ApprovalState {
  if (!isPending(approval)) return approval.status as ApprovalState;
  if (approval.status === "info_requested") return "asked";
  return waitsForPerson(approval) ? "waiting" : "held";
}

/** What happens to a held decision if the page is closed. */
export function closingText(approvals: readonly Approval[], input: DecisionInput): string {
  const those = approvals.length === 1 ? "it" : "them";
  return outlivePage(approvals, input) ? `Closing this page sends ${those} at once.` : "Keep this page open until then: this is too much to send while it closes.";
}

export const STATE_TEXTS: Readonly<Record<ApprovalState, string>> = {
  waiting: "Waiting for you",
  held: "Pending",
  asked: "Question asked",
  approved: "Approved",
  denied: "Denied",
  expired: "Expired",
  withdrawn: "Withdrawn",
};

const SOURCES: Readonly<Record<string, string>> = {
  tool: "requested by the agent with a tool",
  api: "requested by the agent over the API",
  rule: "required by a rule of the agent’s workspace",
  relay: "requested by the agent’s runtime before a tool call",
  host: "requested by the agent’s runtime before a tool call",
  a2a: "required to continue a task",
  thread: "requested by one of the agent’s threads",
  review: "required by the workspace that gave the task",
};

export function sourceText({ source, tool }: Pick<Approval, "source" | "tool">): string {
  const words = sentence(SOURCES[source] ?? source);
  return tool === null ? words : `${words}: ${tool}`;
}

export function partyText({ kind, name }: Party): string {
  if (name !== "") return name;
  if (kind === "person") return "a person";
  if (kind === "clock") return "the deadline";
  if (kind === "rule") return "standing authority";
  if (kind === "server") return "Molecule";
  return kind === "none" ? "no one" : "an agent";
}

export const STATUS_TEXTS: Readonly<Record<Verdict, string>> = { approve: "Approved", deny: "Denied", escalate: "Escalated", more_info: "Question asked" };

/** Whether it is a review of an answer. Its details cannot be edited, and a rejection needs a reason. */
export function isReview({ source }: Pick<Approval, "source">): boolean {
  return source === "review";
}

/** Whether the server asks to raise a budget. Its reason says all that its details say. */
function isRaise({ source }: Pick<Approval, "source">): boolean {
  return source === "budget";
}

/** What is asked for. */
export function actionText(approval: Pick<Approval, "action" | "source">): string {
  return isRaise(approval) ? "Raise the budget" : showInvisible(approval.action);
}

/** Who has to decide now. */
export function holderText(approval: Approval): string {
  const { holder, forPerson, status } = approval;
  if (!isPending(approval)) return "Closed";
  if (status === "info_requested") return `Waiting for ${approval.requesterName} to answer a question`;
  if (holder.kind !== "workspace") return "Assigned to a person";
  return forPerson ? `Assigned to ${partyText(holder)} and a person` : `Assigned to ${partyText(holder)}`;
}

/** Texts for the steps of the escalation path. */
const STEPS: Readonly<Record<string, string>> = {
  requested: "requested approval",
  asked: "was asked",
  escalated: "escalated",
  info_requested: "asked a question",
  answered: "answered",
  edited: "edited the details",
  approved: "approved",
  denied: "denied",
  expired: "did not decide in time",
  withdrawn: "withdrew the request",
  used: "used the approval",
};

export interface Step {
  who: string;
  did: string;
}

export function stepText({ what, by, holder }: PathStep): Step {
  if (what === "asked") return { who: sentence(partyText(holder ?? by)), did: "was asked" };
  if (what === "expired") return { who: "Expired", did: "without a decision" };
  if (what === "escalated" && by.kind === "clock") return { who: partyText(holder ?? by), did: "did not decide in time" };
  if (what === "escalated" && by.kind === "server") return { who: partyText(holder ?? by), did: "was skipped" };
  return { who: partyText(by), did: STEPS[what] ?? what };
}

/** One sentence for each outcome. */
export function outcomeTexts(approval: Approval): { when: string; then: string }[] {
  const { requesterName: name, holder, status } = approval;
  if (isReview(approval)) {
    return [
      { when: "Approve", then: "The answer passes this check." },
      { when: "Deny", then: `The answer goes back to ${name} with your reason, or the task fails if it was the last one.` },
      { when: "No decision", then: "The task fails at its deadline." },
    ];
  }
  if (isRaise(approval)) {
    return [
      { when: "Approve", then: "The budget is raised and what waits for it goes on. Edit raise_by for another amount, and set permanent to raise it for good." },
      { when: "Deny", then: "What waits goes on in the next period, or once the budget is changed." },
      { when: "No decision", then: "The request expires, and the next turn that waits asks again." },
    ];
  }
  const way = status === "info_requested" ? `${name} must answer the question first; a decision is still possible` : levelText(approval, holder);
  return [
    { when: "Approve", then: `${name} is notified and may do exactly this, once.` },
    { when: "Deny", then: `${name} is notified with your reason and does not proceed.` },
    { when: "No decision", then: `${way}. At the deadline the request expires, which counts as denied.` },
  ];
}

function levelText({ forPerson, levelDeadline }: Approval, holder: Party): string {
  if (levelDeadline === null || holder.kind !== "workspace") return "The request stays assigned to a person";
  return forPerson ? `The request is no longer assigned to ${partyText(holder)} and stays assigned to a person` : `The request escalates to the level above ${partyText(holder)}`;
}

/** Details as lines of text, one for each member, in order; at most `most` lines. */
export function detailLines(details: Members, most = Number.POSITIVE_INFINITY): string[] {
  return Object.entries(details).slice(0, most).map(([name, value]) => showInvisible(`${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`));
}

/** The details that a list or a chat shows. */
export function rowLines(approval: Pick<Approval, "details" | "source">, most?: number): string[] {
  return isRaise(approval) ? [] : detailLines(approval.details, most);
}

export function prettyDetails(details: Members): string {
  return showInvisible(JSON.stringify(details, null, 2));
}

/** The agents whose ids are values of the details, each once: ids say nothing to a person. */
export function namedAgents(details: unknown, nameOf: (id: string) => string | undefined): { id: string; name: string }[] {
  const found = new Map<string, string>();
  const visit = (value: unknown): void => {
    if (typeof value === "string") {
      const name = nameOf(value);
      if (name !== undefined) found.set(value, name);
    } else if (typeof value === "object" && value !== null) Object.values(value).forEach(visit);
  };
  visit(details);
  return [...found].map(([id, name]) => ({ id, name }));
}

/** Whether it contains a number beyond the precision of JavaScript: the shown value would differ from the requested one. */
export function isRounded(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(isRounded);
}

/** An approval fits a row if its whole action and reason can be read there. */
const ROW_LETTERS = 160;
const ROW_LINES = 3;

export function fitsRow(approval: Pick<Approval, "action" | "reason" | "details" | "source">): boolean {
  const { action, reason, details } = approval;
  const lines = rowLines(approval, ROW_LINES + 1);
  return lines.length <= ROW_LINES && !isRounded(details) && [action, reason, ...lines].every((each) => each.length <= ROW_LETTERS && !each.includes("\n"));
}

/** The beginning of a text on one line, with an ellipsis where there is more. */
export function beginning(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line === text && line.length <= ROW_LETTERS ? line : `${line.slice(0, ROW_LETTERS)}…`;
}

/** Risk and cost in one line; empty if there are none. */
export function riskText({ risk, cost }: Pick<Approval, "risk" | "cost">): string {
  const words = risk.filter((each) => each !== "cost").map(showInvisible);
  return [...words, ...(cost === null ? [] : [`cost ${cost.toLocaleString("en-GB")}`])].join(", ");
}

/** The state of a decision of this page. */
export function pendingText({ phase, answer }: Pick<PendingDecision, "phase" | "answer">): string {
  switch (phase) {
    case "held":
      return `${STATUS_TEXTS[answer.verdict]}, not sent yet`;
    case "sending":
      return "Sending…";
    case "unsent":
      return "Your decision was not sent";
    case "refused":
      return "Your decision was rejected";
  }
}

/** Why it can no longer be decided; null while it can. */
export function closedText(approval: Approval, now: number): string | null {
  const { status, decided } = approval;
  const by = decided === null ? "" : ` by ${partyText(decided.by)}`;
  switch (status) {
    case "approved":
      return `Approved${by}.`;
    case "denied":
      return `Denied${by}.`;
    case "expired":
      return "Expired without a decision, which counts as denied.";
    case "withdrawn":
      return `Withdrawn by ${approval.requesterName}.`;
    default:
      return Date.parse(approval.expiresAt) <= now ? "This request has expired." : null;
  }
}
