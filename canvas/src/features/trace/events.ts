/** What a trace lists by time besides its tree: messages, approvals and turns. Pure. */

import { plural } from "../../core/text/strings";
import type { TraceApproval, TraceDetail, TraceMessage, TraceTurn } from "../../core/wire";
import { money } from "../usage/money";
import type { ExtraRow } from "../delegations/DelegationTimeline";

export type TraceEvent =
  | { kind: "message"; at: string; message: TraceMessage }
  | { kind: "approval"; at: string; approval: TraceApproval }
  | { kind: "turn"; at: string; turn: TraceTurn };

/** All events of a trace in order of time, without the turns that are listed below the turn that caused them. */
export function eventsOf(trace: TraceDetail): TraceEvent[] {
  const turns = new Set(trace.turns.map(({ turn_id }) => turn_id));
  const events: TraceEvent[] = [
    ...trace.messages.map((message) => ({ kind: "message" as const, at: message.at, message })),
    ...trace.approvals.map((approval) => ({ kind: "approval" as const, at: approval.created_at, approval })),
    ...trace.turns.filter(({ parent_turn_id: parent }) => parent === null || !turns.has(parent)).map((turn) => ({ kind: "turn" as const, at: turn.at, turn })),
  ];
  return events.map((event, at) => ({ event, at })).sort((one, other) => compare(one.event.at, other.event.at) || one.at - other.at).map(({ event }) => event);
}

/** The turns that each turn caused through sub-agents, by its id, in order of time. */
export function causedTurns(trace: TraceDetail): ReadonlyMap<string, readonly TraceTurn[]> {
  const caused = new Map<string, TraceTurn[]>();
  for (const turn of trace.turns) if (turn.parent_turn_id !== null) caused.set(turn.parent_turn_id, [...(caused.get(turn.parent_turn_id) ?? []), turn]);
  return caused;
}

function compare(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

const SENT_BY_MESSAGE = ["delegation", "delegate_result"];

/** Rows of the timeline besides the delegations: the request itself, messages between agents, approvals. */
export function extraRows(trace: TraceDetail): ExtraRow[] {
  const messages = trace.messages.filter(({ state, kind }) => state !== null && !SENT_BY_MESSAGE.includes(kind ?? ""));
  return [
    ...messages.map((message) => ({
      id: message.activity_id,
      label: message.workspace_name ?? "An agent",
      detail: message.no === 0 ? "the request" : `message from ${message.source_name ?? "a person"}`,
      kind: "working" as const,
      from: Date.parse(message.at),
      until: endOf(message.closed_at, message.state === "open"),
    })),
    ...trace.approvals.map((approval) => ({
      id: approval.approval_id,
      label: approval.workspace_name ?? "An agent",
      detail: `approval: ${approval.action}`,
      kind: "waiting" as const,
      from: Date.parse(approval.created_at),
      until: endOf(approval.settled_at, true),
    })),
  ].filter(({ from, until }) => !Number.isNaN(from) && (until === null || until >= from));
}

function endOf(at: string | null, isOpen: boolean): number | null {
  if (at !== null) return Date.parse(at);
  return isOpen ? null : Number.NaN;
}

export type RequestState = "open" | "answered" | "declined" | "none";

/** State of the request itself. */
export function requestState(trace: TraceDetail): RequestState {
  const state = trace.messages[0]?.state ?? null;
  if (state === null) return "none";
  return state === "answered" || state === "declined" ? state : "open";
}

/** Seconds from the request to its answer, or to its last event; null while it is open. */
export function secondsTaken(trace: TraceDetail): number | null {
  const [first] = trace.messages;
  if (first === undefined || requestState(trace) === "open") return null;
  const end = first.closed_at ?? trace.messages.at(-1)?.at ?? first.at;
  return Math.max(0, (Date.parse(end) - Date.parse(first.at)) / 1_000);
}

/** "1,200 input and 300 output tokens"; null if none are reported. */
export function usageText(usage: Readonly<Record<string, number>>): string | null {
  const { input_tokens: input = 0, output_tokens: output = 0 } = usage;
  if (input + output === 0) return null;
  return `${input.toLocaleString("en")} input and ${output.toLocaleString("en")} output tokens`;
}

/** "cost US$1.25"; null if it is unknown. */
export function costText(micros: number | null, currency: string): string | null {
  return micros === null ? null : `cost ${money(micros, currency)}`;
}

export function countCalls(tools: Readonly<Record<string, number>>): number {
  return Object.values(tools).reduce((sum, count) => sum + count, 0);
}

/** "3 tool calls: Read (2), Bash"; null without calls. */
export function toolsText(tools: Readonly<Record<string, number>>): string | null {
  const count = countCalls(tools);
  if (count === 0) return null;
  return `${plural(count, "tool call")}: ${Object.entries(tools).map(([name, calls]) => (calls === 1 ? name : `${name} (${calls})`)).join(", ")}`;
}
