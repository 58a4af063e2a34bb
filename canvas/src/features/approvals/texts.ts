/** Texts about approvals. Pure. */

import type { PendingDecision } from "../../core/session/undoableDecisions";
import { isPending, waitsForPerson, type Approval, type PathStep, type Party, type Verdict } from "../../core/state/approvals";
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

export const STATE_TEXTS: Readonly<Record<ApprovalState, string>> = {
  waiting: "Waiting for you",
  held: "Asked",
  asked: "Question asked",
  approved: "Approved",
  denied: "Denied",
  expired: "Expired",
  withdrawn: "Withdrawn",
};

const SOURCES: Readonly<Record<string, string>> = {
  tool: "the agent asked with its tool",
  api: "the agent asked over the API",
  rule: "a rule of its organisation asks for it",
  relay: "its runtime asks before it uses a tool",
  a2a: "its task needs it to go on",
  thread: "one of its threads asks",
};

export function sourceText({ source, tool }: Pick<Approval, "source" | "tool">): string {
  const words = sentence(SOURCES[source] ?? source);
  return tool === null ? words : `${words}: ${tool}`;
}

export function partyText({ kind, name }: Party): string {
  if (name !== "") return name;
  if (kind === "person") return "a person";
  if (kind === "clock") return "the clock";
  if (kind === "rule") return "standing authority";
  if (kind === "server") return "Molecule";
  return kind === "none" ? "nobody" : "an agent";
}

export const STATUS_TEXTS: Readonly<Record<Verdict, string>> = { approve: "Approved", deny: "Denied", escalate: "Passed on", more_info: "Asked back" };

/** Who has to decide now. */
export function holderText(approval: Approval): string {
  const { holder, forPerson, status } = approval;
  if (!isPending(approval)) return "nobody: it has ended";
  if (status === "info_requested") return `${approval.requesterName}, to answer a question`;
  if (holder.kind !== "workspace") return "a person";
  return forPerson ? `${partyText(holder)}, and at the same time a person` : partyText(holder);
}

/** Texts for the steps of the escalation path. */
const STEPS: Readonly<Record<string, string>> = {
  requested: "asked for it",
  asked: "was asked",
  escalated: "passed it on",
  info_requested: "asked back",
  answered: "answered",
  edited: "changed the details",
  approved: "approved it",
  denied: "denied it",
  expired: "let it expire",
  withdrawn: "withdrew it",
  used: "used it",
};

export interface Step {
  who: string;
  did: string;
}

export function stepText({ what, by, holder }: PathStep): Step {
  if (what === "asked") return { who: sentence(partyText(holder ?? by)), did: "was asked" };
  if (what === "expired") return { who: "Nobody", did: "decided in time" };
  if (what === "escalated" && by.kind === "clock") return { who: partyText(holder ?? by), did: "did not decide in time" };
  if (what === "escalated" && by.kind === "server") return { who: partyText(holder ?? by), did: "was passed over" };
  return { who: partyText(by), did: STEPS[what] ?? what };
}

/** One sentence for each outcome. */
export function outcomeTexts(approval: Approval): { when: string; then: string }[] {
  const { requesterName: name, holder, status } = approval;
  const way = status === "info_requested" ? `${name} has to answer first; it may still be decided` : levelText(approval, holder);
  return [
    { when: "Approve", then: `${name} is told, and may do exactly this, once.` },
    { when: "Deny", then: `${name} is told with your reason, and does not do it.` },
    { when: "No answer", then: `${way}. When its time is over it expires, which counts as denied.` },
  ];
}

function levelText({ forPerson, levelDeadline }: Approval, holder: Party): string {
  if (levelDeadline === null || holder.kind !== "workspace") return "It stays with a person";
  return forPerson ? `${partyText(holder)} is asked no more, and it stays with a person` : `It goes on to whoever is above ${partyText(holder)}`;
}

/** Details as lines of text, one for each member, in order; at most `most` lines. */
export function detailLines(details: Members, most = Number.POSITIVE_INFINITY): string[] {
  return Object.entries(details).slice(0, most).map(([name, value]) => showInvisible(`${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`));
}

export function prettyDetails(details: Members): string {
  return showInvisible(JSON.stringify(details, null, 2));
}

/** Whether it contains a number beyond the precision of JavaScript: the shown value would differ from the requested one. */
export function isRounded(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && !Number.isSafeInteger(value);
  return typeof value === "object" && value !== null && Object.values(value).some(isRounded);
}

/** An approval fits a row if its whole action and reason can be read there. */
const ROW_LETTERS = 120;
const ROW_LINES = 3;

export function fitsRow({ action, reason, details }: Pick<Approval, "action" | "reason" | "details">): boolean {
  const lines = detailLines(details, ROW_LINES + 1);
  return lines.length <= ROW_LINES && !isRounded(details) && [action, reason, ...lines].every((each) => each.length <= ROW_LETTERS && !each.includes("\n"));
}

/** Risk and cost in one line; empty if there are none. */
export function riskText({ risk, cost }: Pick<Approval, "risk" | "cost">): string {
  const words = risk.filter((each) => each !== "cost").map(showInvisible);
  return [...words, ...(cost === null ? [] : [`costs ${cost.toLocaleString("en-GB")}`])].join(", ");
}

/** The state of a decision of this page. */
export function pendingText({ phase, answer }: Pick<PendingDecision, "phase" | "answer">): string {
  switch (phase) {
    case "held":
      return `${STATUS_TEXTS[answer.verdict]}, not sent yet`;
    case "sending":
      return "Sending…";
    case "unsent":
      return "Your answer was not sent";
    case "refused":
      return "Your answer was not taken";
  }
}

/** Why it can no longer be decided; null while it can. */
export function closedText(approval: Approval, now: number): string | null {
  const { status, decided } = approval;
  const who = decided === null ? "somebody" : partyText(decided.by);
  switch (status) {
    case "approved":
      return `${who} has approved it.`;
    case "denied":
      return `${who} has denied it.`;
    case "expired":
      return "Its time was over before anybody decided: that counts as denied.";
    case "withdrawn":
      return `${approval.requesterName} does not ask for it any more.`;
    default:
      return Date.parse(approval.expiresAt) <= now ? "Its time is over." : null;
  }
}
