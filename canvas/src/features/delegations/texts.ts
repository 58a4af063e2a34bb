/** Texts about delegations. Pure. */

import { waitReason } from "../../core/state/delivery";
import { lastActivity, type DelegationState, type Delegation, type DelegationStatus, type Progress } from "../../core/state/delegations";
import type { Workspace } from "../../core/state/model";
import type { DelegationTimelineEntry } from "../../core/wire";
import { duration } from "../../core/text/time";
import { plural } from "../../core/text/strings";

interface About {
  delegation: Pick<Delegation, "phase" | "lifeAt" | "error" | "attempt">;
  target: Workspace | undefined;
  /** Position in the queue; null if it does not wait. */
  ahead: number | null;
  now: number;
}

/** Text beside the state label; null if there is none. */
export function stateDetail(state: DelegationState, { delegation, target, ahead, now }: About): string | null {
  const { phase, error, attempt } = delegation;
  if (phase === "retrying") return `it is tried once more${error === null ? "" : `: ${error}`}`;
  switch (state) {
    case "queued": {
      const before = ahead !== null && ahead > 0 ? `${plural(ahead, "other", "others")} before it` : null;
      const waits = target === undefined ? null : waitReason(target, now);
      return [before, waits].filter((each) => each !== null).join(", ") || null;
    }
    case "stuck":
      return `no sign of life for ${duration(lastActivity(delegation, target), now)}`;
    case "unknown":
      return "it may be done or not";
    case "working":
      return attempt > 1 ? `in attempt ${attempt}` : null;
    default:
      return null;
  }
}

/** The last progress report in one line; empty if there is none. */
export function progressText({ step, tools, eta, percent }: Progress): string {
  const parts = [step, tools.length > 0 ? `with ${tools.join(", ")}` : "", percent === null ? "" : `${Math.round(percent)} %`, eta];
  return parts.filter((each) => each !== "").join(" · ");
}

/** Why it failed, where the server gave no text. */
export function failedText({ error, reason }: Pick<Delegation, "error" | "reason">): string {
  return error || reason || "It failed, and nothing says why.";
}

/** Result of an attempt to cancel it. */
export function cancelText(status: DelegationStatus): string {
  switch (status) {
    case "cancelled":
      return "Cancelled";
    case "completed":
      return "Not cancelled: it was answered before";
    case "failed":
      return "Not cancelled: it failed before";
    default:
      return "It is not cancelled yet";
  }
}

/** The timeline without intermediate states of the same moment. */
export function shownTimeline(facts: readonly DelegationTimelineEntry[]): readonly DelegationTimelineEntry[] {
  return facts.filter((each, at) => {
    const before = facts[at - 1];
    return before === undefined || each.fact !== before.fact || each.at !== before.at || each.detail !== before.detail;
  });
}
