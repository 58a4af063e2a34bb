/** Texts about delegations. Pure. */

import { waitReason } from "../../core/state/delivery";
import { lastActivity, type DelegationState, type Delegation, type DelegationStatus, type Progress } from "../../core/state/delegations";
import type { Workspace } from "../../core/state/model";
import type { DelegationScope, DelegationTimelineEntry } from "../../core/wire";
import { withoutTerminalCodes } from "../../core/text/terminal";
import { inactivity } from "../../core/text/time";
import { plural } from "../../core/text/strings";

interface About {
  delegation: Pick<Delegation, "phase" | "lifeAt" | "error" | "attempt" | "verified">;
  target: Workspace | undefined;
  /** Position in the queue; null if it does not wait. */
  ahead: number | null;
  now: number;
}

/** Text beside the state label; null if there is none. */
export function stateDetail(state: DelegationState, { delegation, target, ahead, now }: About): string | null {
  const { phase, error, attempt } = delegation;
  if (phase === "retrying") return `retrying${error === null ? "" : `: ${error}`}`;
  if (phase === "asking") return "waits for the answer to its question";
  if (phase === "checking") return "the answer is being checked";
  if (phase === "needs_work") return "needs work: an answer failed a check";
  switch (state) {
    case "queued": {
      const before = ahead !== null && ahead > 0 ? `${plural(ahead, "task")} ahead` : null;
      const waits = target === undefined ? null : waitReason(target, now);
      return [before, waits].filter((each) => each !== null).join(", ") || null;
    }
    case "completed":
      return delegation.verified === null ? null : delegation.verified ? "verified: it passed all checks" : "not verified";
    case "stuck":
      return inactivity(lastActivity(delegation, target), now);
    case "unknown":
      return "it may or may not be done";
    case "working":
      if (target?.limited_until != null) return waitReason(target, now);
      return attempt > 1 ? `attempt ${attempt}` : null;
    default:
      return null;
  }
}

/** The last progress report in one line; empty if there is none. */
export function progressText({ step, tools, eta, percent }: Progress): string {
  const parts = [step, tools.length > 0 ? `with ${tools.join(", ")}` : "", percent === null ? "" : `${Math.round(percent)} %`, eta];
  return withoutTerminalCodes(parts.filter((each) => each !== "").join(" · "));
}

/** Why it failed, where the server gave no text. */
export function failedText({ error, reason }: Pick<Delegation, "error" | "reason">): string {
  return withoutTerminalCodes(error ?? "") || reason || "Failed without a reported reason.";
}

/** What a task may do at most, a line for each limit. `peers`: the names of the agents that it may message. */
export function scopeLines(may: DelegationScope, peers: string): string[] {
  const lines: string[] = [];
  if (may.tools != null) lines.push(may.tools.length > 0 ? `Use only these tools: ${may.tools.join(", ")}` : "Use no tools but those to answer");
  if (may.peers != null) lines.push(peers !== "" ? `Message only these agents: ${peers}` : "Message only the agent that delegated it");
  if (may.depth != null) lines.push(may.depth > 0 ? `Delegate ${plural(may.depth, "level")} deep` : "Not delegate");
  if (may.approvals === false) lines.push("Not request approvals");
  return lines;
}

/** Result of an attempt to cancel it. */
export function cancelText(status: DelegationStatus): string {
  switch (status) {
    case "cancelled":
      return "Cancelled";
    case "completed":
      return "Not cancelled: already answered";
    case "failed":
      return "Not cancelled: already failed";
    default:
      return "Not cancelled yet";
  }
}

/** The timeline without intermediate states of the same moment. */
export function shownTimeline(facts: readonly DelegationTimelineEntry[]): readonly DelegationTimelineEntry[] {
  return facts.filter((each, at) => {
    const before = facts[at - 1];
    return before === undefined || each.fact !== before.fact || each.at !== before.at || each.detail !== before.detail;
  });
}

/** Whom an agent asked with several delegations, and how far they are: "asked 4 agents", "3 done, 1 failed". */
export function groupText(delegations: readonly Pick<Delegation, "status" | "targetId">[]): { asked: string; progress: string } {
  const agents = new Set(delegations.map(({ targetId }) => targetId)).size;
  const asked = agents === delegations.length ? `asked ${plural(agents, "agent")}` : `delegated ${plural(delegations.length, "task")} to ${plural(agents, "agent")}`;
  const count = (status: DelegationStatus): number => delegations.filter((each) => each.status === status).length;
  const done = count("completed");
  if (done === delegations.length) return { asked, progress: "all done" };
  const parts = [`${done} done`, ...(["failed", "cancelled"] as const).filter((each) => count(each) > 0).map((each) => `${count(each)} ${each}`)];
  return { asked, progress: parts.join(", ") };
}
