/** Texts about schedules. Pure. */

import type { ScheduleRunView, ScheduleView } from "../../core/wire";

const DAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

/** A planned time as clocks show it where the schedule has its time zone, whatever the zone of the browser. */
export function plannedText(at: string): string {
  const found = /^(\d{4}-\d{2}-\d{2})T(\d{2}:\d{2})(?::\d{2}(?:\.\d+)?)?(Z|[+-]\d{2}:\d{2})$/.exec(at);
  if (found === null) return at;
  const [, day = "", time = "", offset = ""] = found;
  return `${DAYS[new Date(`${day}T00:00:00Z`).getUTCDay()]} ${day} ${time} (${offset === "Z" || offset === "+00:00" ? "UTC" : offset})`;
}

export function stateText({ state, pause_reason }: Pick<ScheduleView, "state" | "pause_reason">): string {
  if (state === "ended") return "Ended";
  if (state === "active") return "Active";
  return pause_reason === "" ? "Paused" : `Paused: ${pause_reason}`;
}

const OUTCOMES: Readonly<Record<string, string>> = {
  sent: "Sent",
  delegated: "Delegated",
  queued: "Queued until the run before is done",
  skipped: "Skipped",
  missed: "Missed",
  failed: "Failed",
};

export function runText({ outcome, reason, missed }: Pick<ScheduleRunView, "outcome" | "reason" | "missed">): string {
  const more = [reason, missed > 0 ? `${missed} missed before it` : ""].filter((each) => each !== "");
  return [OUTCOMES[outcome] ?? outcome, ...more].join(": ");
}
