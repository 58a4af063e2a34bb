/** Approvals in words for people. Pure. */

import { isAsked, waitsForPerson, type Approval, type Hop, type Party } from "../state/approvals";
import type { Members } from "../state/reading";
import { plainly } from "../text/unseen";

export type ApprovalState = "waiting" | "held" | "asked" | "approved" | "denied" | "expired" | "withdrawn";

/** How it stands, as one glyph; who has it is told beside it. */
export function stateOf(approval: Approval): ApprovalState {
  if (!isAsked(approval)) return approval.status as ApprovalState;
  if (approval.status === "info_requested") return "asked";
  return waitsForPerson(approval) ? "waiting" : "held";
}

export const STATE_WORDS: Readonly<Record<ApprovalState, string>> = {
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

export function sourceWords({ source, tool }: Pick<Approval, "source" | "tool">): string {
  const words = SOURCES[source] ?? source;
  return tool === null ? words : `${words}: ${tool}`;
}

export function partyWords({ kind, name }: Party): string {
  if (name !== "") return name;
  if (kind === "person") return "a person";
  if (kind === "clock") return "the clock";
  if (kind === "rule") return "standing authority";
  if (kind === "server") return "Molecule";
  return kind === "none" ? "nobody" : "an agent";
}

/** Who has to act now. */
export function holderWords(approval: Approval): string {
  const { holder, forPerson, status } = approval;
  if (!isAsked(approval)) return "nobody: it has ended";
  if (status === "info_requested") return `${approval.requesterName}, to answer a question`;
  if (holder.kind !== "workspace") return "a person";
  return forPerson ? `${partyWords(holder)}, and at the same time a person` : partyWords(holder);
}

/** What of a step stands between who did it and to whom it went. */
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
  /** To whom it went with that. */
  to: string | null;
}

export function stepWords({ what, by, holder }: Hop): Step {
  if (what === "asked") return { who: holder === null ? partyWords(by) : partyWords(holder), did: "was asked", to: null };
  if (what === "expired") return { who: "Nobody", did: "decided in time", to: null };
  const to = holder === null || holder.kind === "none" || what === "used" ? null : holder.kind === "requester" ? null : partyWords(holder);
  return { who: partyWords(by), did: STEPS[what] ?? what, to };
}

/** What becomes of it, one sentence for each way. */
export function outcomes(approval: Approval): { when: string; then: string }[] {
  const { requesterName: name, holder, status } = approval;
  const way = status === "info_requested" ? `${name} has to answer first; it may still be decided` : levelWords(approval, holder);
  return [
    { when: "Approve", then: `${name} is told, and may do exactly this, once.` },
    { when: "Deny", then: `${name} is told with your reason, and does not do it.` },
    { when: "No answer", then: `${way}. When its time is over it expires, which counts as denied.` },
  ];
}

function levelWords({ forPerson, levelDeadline }: Approval, holder: Party): string {
  if (levelDeadline === null || holder.kind !== "workspace") return "It stays with a person";
  return forPerson ? `${partyWords(holder)} is asked no more, and it stays with a person` : `It goes on to whoever is above ${partyWords(holder)}`;
}

/** Details as people read them: a line for each member, in their order. */
export function detailLines(details: Members): string[] {
  return Object.entries(details).map(([name, value]) => plainly(`${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`));
}

export function prettyDetails(details: Members): string {
  return plainly(JSON.stringify(details, null, 2));
}

/** What fits a row: all of the details and the reason are to be read in the list, and nothing warns. */
const ROW_LETTERS = 120;

export function fitsRow({ action, reason, details, risk }: Pick<Approval, "action" | "reason" | "details" | "risk">): boolean {
  const all = [action, reason, ...detailLines(details)];
  return risk.length === 0 && detailLines(details).length <= 3 && all.every((each) => each.length <= ROW_LETTERS && !each.includes("\n"));
}

/** Why nothing can be answered any more; null as long as it can. */
export function closedWords(approval: Approval, now: number): string | null {
  const { status, decided } = approval;
  const who = decided === null ? "somebody" : partyWords(decided.by);
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
