/** Texts about threads. */

import type { AgentState, CollabCallEntry, MailItem, Provenance, ThreadItem } from "../../core/wire";

export type StatusLook = "waiting" | "peer" | "queued" | "working" | "good" | "bad" | "off";

type Words = Readonly<Record<string, string>>;

const STATUS: Words = {
  pending_init: "Not started",
  running: "Running",
  interrupted: "Stopped",
  completed: "Done",
  errored: "Failed",
  shutdown: "Closed",
  not_found: "Not found",
};
const FLAGS: Words = {
  waiting_on_approval: "waiting for approval",
  waiting_on_child_approval: "a sub-agent is waiting for approval",
  waiting_on_agents: "waiting for other agents",
  waiting_on_user_input: "waiting for a person",
};
const LOOKS: Readonly<Record<string, StatusLook>> = { pending_init: "off", running: "working", interrupted: "off", completed: "good", errored: "bad", shutdown: "off", not_found: "bad" };

export function statusText(status: string): string {
  return STATUS[status] ?? status;
}

export function flagText(flags: readonly string[]): string {
  return flags.map((each) => FLAGS[each] ?? each).join(", ");
}

export function lookOf({ status, active_flags }: Pick<ThreadItem, "status" | "active_flags">): StatusLook {
  if (active_flags.length > 0) return active_flags.every((each) => each === "waiting_on_agents") ? "peer" : "waiting";
  return LOOKS[status.type] ?? "off";
}

export function nameOf({ nickname, path }: Pick<ThreadItem, "nickname" | "path">): string {
  return nickname === "" ? path : nickname;
}

const KINDS: Words = { root: "conversation", spawned: "spawned agent", review: "review", fork: "fork" };

export function kindText(kind: string): string {
  return KINDS[kind] ?? kind;
}

const FROM: Words = {
  override: "set manually",
  stored: "stored with the thread",
  prompt: "the agent’s prompt",
  inherited: "inherited from another thread",
  role: "set by its role",
  review: "set by a review",
};

export function provenanceText({ type, source }: Provenance): string {
  const words = FROM[type] ?? type;
  return source === "" ? words : `${words}: ${source}`;
}

const ASKS: Words = {
  spawn: "starts agent",
  send: "messages",
  followup: "sends a follow-up task to",
  wait: "waits for",
  interrupt: "stops",
  close: "closes",
  resume: "resumes",
  list: "lists agents",
};

export function toolText(tool: string): string {
  return ASKS[tool] ?? tool;
}

/** How a call ended, or that it is running. */
export function endText({ tool, status, timed_out }: CollabCallEntry): string {
  if (status === "inProgress") return tool === "wait" ? "waiting" : "started";
  if (timed_out) return "timed out";
  if (status === "failed") return "rejected or failed";
  return status === "interrupted" ? "interrupted" : "done";
}

export function callLook({ status, timed_out }: CollabCallEntry): StatusLook {
  if (status === "inProgress") return "peer";
  return status === "failed" || timed_out ? "bad" : status === "interrupted" ? "off" : "good";
}

const OUTCOMES: Words = { ended: "ended", timed_out: "still running", unknown: "unknown", interrupted: "wait interrupted", source_lost: "lost" };

export function agentText({ status, outcome }: AgentState): string {
  const words = statusText(status).toLowerCase();
  return outcome === undefined ? words : `${words} (${OUTCOMES[outcome] ?? outcome})`;
}

const MAIL: Words = { NEW_TASK: "Task", MESSAGE: "Message", FINAL_ANSWER: "Final answer" };
const RECEIPTS: Readonly<Record<string, { words: string; look: StatusLook }>> = {
  accepted: { words: "accepted, not read yet", look: "queued" },
  delivered: { words: "delivered", look: "working" },
  answered: { words: "answered", look: "good" },
  failed: { words: "failed", look: "bad" },
};

export function mailText(type: string): string {
  return MAIL[type] ?? type;
}

export function receiptText({ state }: MailItem): { words: string; look: StatusLook } {
  return RECEIPTS[state] ?? { words: state, look: "off" };
}

const ROLES: Words = { developer: "Instructions", user: "User", assistant: "Agent", tool: "Tool", peer: "Other agent (data)" };

export function roleText(role: string): string {
  return ROLES[role] ?? role;
}

export function layerText(layer: string): string {
  return layer === "developer" ? "Developer instructions" : layer === "context" ? "Context" : layer;
}
