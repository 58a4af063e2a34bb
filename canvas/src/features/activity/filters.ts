/** The filters of the activity, as they are in the address and in requests. Pure. */

import type { ActivityFilters } from "../../core/router";
import { fieldOf, timeOfField } from "../../core/text/time";

export const KINDS: readonly (readonly [kind: string, label: string])[] = [
  ["messages", "Messages"],
  ["delivery", "Delivery"],
  ["delegations", "Delegations"],
  ["approvals", "Approvals"],
  ["agents", "Agent status"],
  ["organisation", "Organisation"],
  ["people", "People"],
  ["threads", "Threads"],
  ["memory", "Memory"],
  ["prompts", "Prompts"],
  ["instructions", "Instructions"],
];
/** All kinds but the many steps in which messages are delivered. */
export const MAIN_KINDS = KINDS.map(([kind]) => kind).filter((kind) => kind !== "delivery").join(",");

export const STATES: readonly (readonly [state: string, label: string])[] = [
  ["waiting", "Waiting"],
  ["working", "Working"],
  ["done", "Done"],
  ["failed", "Failed"],
];

export const DIRECTIONS: readonly (readonly [direction: string, label: string])[] = [
  ["in", "Received"],
  ["out", "Sent"],
];

const HOUR = 3_600_000;
/** Values of `since` that move with the time. */
export const SPANS: readonly (readonly [since: string, label: string, length: number])[] = [
  ["1h", "Last hour", HOUR],
  ["24h", "Last 24 hours", 24 * HOUR],
  ["7d", "Last 7 days", 7 * 24 * HOUR],
];

/** Names of filters in the address, and of the parameters of a request where they differ. */
const PARAMETERS: Readonly<Record<string, string>> = { agent: "workspace", team: "subtree" };

const NAMES = ["q", "agent", "team", "kind", "event", "state", "direction", "since", "until", "delegation", "thread", "item"];

/** The filters of an address, without the open event and what this page does not know. */
export function withoutOpen(filters: ActivityFilters): ActivityFilters {
  return Object.fromEntries(Object.entries(filters).filter(([name]) => NAMES.includes(name)));
}

/** One filter changed; an empty value removes it. The open event stays only if it may still be listed. */
export function withFilter(filters: ActivityFilters, name: string, value: string): ActivityFilters {
  const { [name]: _, ...rest } = withoutOpen(filters);
  const { team: __, ...others } = rest;
  const kept = name === "agent" && value === "" ? others : rest;
  return value === "" ? kept : { ...kept, [name]: value };
}

/** Parameters of a request. A time that is none is left out. */
export function requestParameters(filters: ActivityFilters, now: number): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(withoutOpen(filters))) {
    if (name === "since" || name === "until") {
      const at = timeOf(value, now);
      if (at !== null) query.set(name, at);
    } else if (name === "team") {
      if (filters["agent"] !== undefined) query.set("subtree", "true");
    } else if (name !== "q" || isSearchable(value)) {
      query.set(PARAMETERS[name] ?? name, value);
    }
  }
  return query;
}

/** The server refuses a search without a letter or digit. */
export function isSearchable(words: string): boolean {
  return /[\p{L}\p{N}]/u.test(words);
}

export function timeOf(value: string, now: number): string | null {
  const span = SPANS.find(([since]) => since === value);
  if (span) return new Date(now - span[2]).toISOString();
  const at = Date.parse(value);
  return Number.isNaN(at) ? null : new Date(at).toISOString();
}

/** A time for a field of date and time, in the zone in which times are shown, and back. */
export function localField(value: string | undefined): string {
  const at = Date.parse(value ?? "");
  return Number.isNaN(at) ? "" : fieldOf(at);
}

export function fromLocalField(value: string): string {
  const at = timeOfField(value);
  return Number.isNaN(at) ? "" : new Date(at).toISOString();
}
