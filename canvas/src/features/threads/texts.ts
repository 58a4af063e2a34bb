/** Texts about threads. */

import type { AgentState, CollabCallEntry, MailItem, Provenance, ThreadItem } from "../../core/wire";

export type StatusLook = "waiting" | "working" | "good" | "bad" | "off";

type Words = Readonly<Record<string, string>>;

const STATUS: Words = {
  pending_init: "Not begun",
  running: "At work",
  interrupted: "Stopped",
  completed: "Done",
  errored: "Failed",
  shutdown: "Closed",
  not_found: "Not found",
};
const FLAGS: Words = {
  waiting_on_approval: "waits for an approval",
  waiting_on_child_approval: "an agent below waits for an approval",
  waiting_on_agents: "waits for other agents",
  waiting_on_user_input: "waits for a person",
};
const LOOKS: Readonly<Record<string, StatusLook>> = { pending_init: "off", running: "working", interrupted: "off", completed: "good", errored: "bad", shutdown: "off", not_found: "bad" };

export function statusText(status: string): string {
  return STATUS[status] ?? status;
}

export function flagText(flags: readonly string[]): string {
  return flags.map((each) => FLAGS[each] ?? each).join(", ");
}

export function lookOf({ status, active_flags }: Pick<ThreadItem, "status" | "active_flags">): StatusLook {
  return active_flags.length > 0 ? "waiting" : (LOOKS[status.type] ?? "off");
}

export function nameOf({ nickname, path }: Pick<ThreadItem, "nickname" | "path">): string {
  return nickname === "" ? path : nickname;
}

const KINDS: Words = { root: "conversation", spawned: "spawned agent", review: "review", fork: "fork" };

export function kindText(kind: string): string {
  return KINDS[kind] ?? kind;
}

const FROM: Words = {
  override: "given by hand",
  stored: "kept from before",
  prompt: "the agent's own prompt",
  inherited: "taken over from another thread",
  role: "of its role",
  review: "of a review",
};

export function provenanceText({ type, source }: Provenance): string {
  const words = FROM[type] ?? type;
  return source === "" ? words : `${words}: ${source}`;
}

const ASKS: Words = {
  spawn: "starts an agent",
  send: "leaves a letter for",
  followup: "gives more work to",
  wait: "waits for",
  interrupt: "stops",
  close: "closes",
  resume: "takes up again",
  list: "lists agents",
};

export function toolText(tool: string): string {
  return ASKS[tool] ?? tool;
}

/** How a call ended, or that it is running. */
export function endText({ tool, status, timed_out }: CollabCallEntry): string {
  if (status === "inProgress") return tool === "wait" ? "waiting" : "begun";
  if (timed_out) return "timed out";
  if (status === "failed") return "refused or failed";
  return status === "interrupted" ? "interrupted" : "done";
}

export function callLook({ status, timed_out }: CollabCallEntry): StatusLook {
  if (status === "inProgress") return "waiting";
  return status === "failed" || timed_out ? "bad" : status === "interrupted" ? "off" : "good";
}

const OUTCOMES: Words = { ended: "ended", timed_out: "still at work", unknown: "unknown", interrupted: "wait was cut short", source_lost: "lost" };

export function agentText({ status, outcome }: AgentState): string {
  const words = statusText(status).toLowerCase();
  return outcome === undefined ? words : `${words} (${OUTCOMES[outcome] ?? outcome})`;
}

const MAIL: Words = { NEW_TASK: "Task", MESSAGE: "Letter", FINAL_ANSWER: "Final answer" };
const RECEIPTS: Readonly<Record<string, { words: string; look: StatusLook }>> = {
  accepted: { words: "accepted, not read yet", look: "waiting" },
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

const ROLES: Words = { developer: "Instructions", user: "User", assistant: "Agent", tool: "Tool", peer: "Other agent, as data" };

export function roleText(role: string): string {
  return ROLES[role] ?? role;
}

export function layerText(layer: string): string {
  return layer === "developer" ? "Developer instructions" : layer === "context" ? "Context" : layer;
}
