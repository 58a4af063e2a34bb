/** Problems that wait for a person: unanswered messages, unclaimed messages, dead letters, and frozen chains. */

import type { EventFrame } from "../wire";
import type { Workspace } from "./model";
import { list, members, number, text } from "./json";
import { isSilent, statusOf } from "./agentStatus";

/** A message without the expected answer that is overdue, or was answered outside of Molecule. */
export interface UnansweredMessage {
  activityId: string;
  workspaceId: string;
  workspaceName: string;
  /** Sequence number in the log of the workspace. */
  seq: number;
  /** Null: from a person. */
  sourceId: string | null;
  summary: string;
  /** Null: not overdue yet. */
  overdueAt: string | null;
  /** It was delivered to its agent a second time. */
  reminded: boolean;
  handedAt: string;
  /** An answer that the agent wrote and did not send. */
  draft: string | null;
  template: string | null;
}

/** A workspace whose messages are not claimed. */
export interface UnclaimedMessages {
  workspaceId: string;
  workspaceName: string;
  /** How many messages that need an answer were never claimed. */
  waiting: number;
  /** There are more than were counted. */
  more: boolean;
  /** When the oldest of them was stored. */
  since: string;
}

/** A question with options of an agent that no person has answered. */
export interface OpenQuestion {
  activityId: string;
  workspaceId: string;
  workspaceName: string;
  text: string;
  /** The text is only the beginning. */
  isCut: boolean;
  options: readonly string[];
  askedAt: string;
}

export interface DeadLetter {
  activityId: string;
  workspaceId: string;
  workspaceName: string;
  /** Null: from a person. */
  sourceId: string | null;
  summary: string;
  reason: string;
  detail: string | null;
  attempts: number;
  diedAt: string;
}

export interface MessageChain {
  rootId: string;
  /** The agent whose message exceeded the limit. */
  workspaceId: string | null;
  workspaceName: string | null;
  reason: string;
  frozenAt: string;
  hops: number;
  messages: number;
  summary: string;
}

export interface Problems {
  unanswered: readonly UnansweredMessage[];
  /** There are older ones. */
  moreUnanswered: boolean;
  unclaimed: readonly UnclaimedMessages[];
  /** There are others, with a shorter wait. */
  moreUnclaimed: boolean;
  deadLetters: readonly DeadLetter[];
  /** There are older ones. */
  moreDeadLetters: boolean;
  chains: readonly MessageChain[];
  questions: readonly OpenQuestion[];
  /** There are newer ones. */
  moreQuestions: boolean;
  /** After this time the lists are read again: no event reports that a message has waited for too long. */
  nextCheckSeconds: number;
}

/** Used until the server has named another interval. */
const CHECK_SECONDS = 600;

export const NO_PROBLEMS: Problems = {
  unanswered: [],
  moreUnanswered: false,
  unclaimed: [],
  moreUnclaimed: false,
  deadLetters: [],
  moreDeadLetters: false,
  chains: [],
  questions: [],
  moreQuestions: false,
  nextCheckSeconds: CHECK_SECONDS,
};

/** Events after which the lists are outdated. */
const CHANGING = /^(MESSAGE_(OVERDUE|DRAFTED|DEAD|REQUEUED|DISCARDED)|CHAIN_(FROZEN|RELEASED|ENDED)|WORKSPACE_REMOVED)$/;

/** Claims and answers are frequent; only those about a listed message change a list. */
export function changesProblems({ event, workspace_id, payload }: EventFrame, { unanswered, unclaimed, questions }: Problems): boolean {
  if (event === "AGENT_MESSAGE") return list(payload, "options").length > 0;
  if (event === "USER_MESSAGE") return questions.some(({ workspaceId }) => workspaceId === workspace_id);
  if (event !== "MESSAGE_TICK") return CHANGING.test(event);
  const [first, last, tick] = [number(payload, "first_seq"), number(payload, "last_seq"), text(payload, "tick")];
  if (TAKES.has(tick ?? "")) return unclaimed.some(({ workspaceId }) => workspaceId === workspace_id);
  if (first === null || last === null || !ENDS.has(tick ?? "")) return false;
  return unanswered.some(({ workspaceId, seq }) => workspaceId === workspace_id && seq >= first && seq <= last);
}

const TAKES = new Set(["in_inbox", "handed_over", "acked"]);
const ENDS = new Set(["answered", "declined", "forgotten"]);

export function countProblems({ unanswered, unclaimed, deadLetters, chains }: Problems): number {
  return unanswered.length + unclaimed.length + deadLetters.length + chains.length;
}

/** Shown when nothing is known to wait. `problem`: why the lists could not be read; `unread`: messages in the chats. */
export function allClearText({ readAt, problem }: { readAt: number | null; problem: string | null }, unread: number): string {
  if (problem !== null) return "Could not check for problems";
  if (readAt === null) return "Checking for problems…";
  return unread > 0 ? "Nothing waits for you" : "You’re all caught up";
}

export function unansweredOf(row: unknown): UnansweredMessage | null {
  const [activityId, workspaceId, handedAt] = [text(row, "activity_id"), text(row, "workspace_id"), text(row, "handed_at")];
  const seq = number(row, "seq");
  if (activityId === null || workspaceId === null || handedAt === null || seq === null) return null;
  return {
    activityId,
    workspaceId,
    workspaceName: text(row, "workspace_name") ?? workspaceId,
    seq,
    sourceId: text(row, "source_id"),
    summary: text(row, "summary") ?? "",
    overdueAt: text(row, "overdue_at"),
    reminded: text(row, "reminded_at") !== null,
    handedAt,
    draft: text(row, "draft"),
    template: text(row, "template"),
  };
}

export function unclaimedOf(row: unknown): UnclaimedMessages | null {
  const [workspaceId, waiting, since] = [text(row, "workspace_id"), number(row, "waiting"), text(row, "since")];
  if (workspaceId === null || waiting === null || since === null) return null;
  return {
    workspaceId,
    workspaceName: text(row, "workspace_name") ?? workspaceId,
    waiting,
    more: members(row)?.["more"] === true,
    since,
  };
}

export function questionOf(row: unknown): OpenQuestion | null {
  const [activityId, workspaceId, askedAt] = [text(row, "activity_id"), text(row, "workspace_id"), text(row, "asked_at")];
  const options = list(row, "options").filter((each) => typeof each === "string");
  if (activityId === null || workspaceId === null || askedAt === null || options.length === 0) return null;
  return {
    activityId,
    workspaceId,
    workspaceName: text(row, "workspace_name") ?? workspaceId,
    text: text(row, "text") ?? "",
    isCut: members(row)?.["is_cut"] === true,
    options,
    askedAt,
  };
}

export function deadLetterOf(row: unknown): DeadLetter | null {
  const [activityId, workspaceId, diedAt] = [text(row, "activity_id"), text(row, "workspace_id"), text(row, "died_at")];
  if (activityId === null || workspaceId === null || diedAt === null) return null;
  return {
    activityId,
    workspaceId,
    workspaceName: text(row, "workspace_name") ?? workspaceId,
    sourceId: text(row, "source_id"),
    summary: text(row, "summary") ?? "",
    reason: text(row, "reason") ?? "",
    detail: text(row, "detail"),
    attempts: number(row, "attempts") ?? 0,
    diedAt,
  };
}

export function chainOf(row: unknown): MessageChain | null {
  const [rootId, frozenAt] = [text(row, "root_id"), text(row, "frozen_at")];
  if (rootId === null || frozenAt === null) return null;
  return {
    rootId,
    workspaceId: text(row, "workspace_id"),
    workspaceName: text(row, "workspace_name"),
    reason: text(row, "reason") ?? "",
    frozenAt,
    hops: number(row, "hops") ?? 0,
    messages: number(row, "messages") ?? 0,
    summary: text(row, "summary") ?? "",
  };
}

const REASONS: Readonly<Record<string, string>> = {
  unreachable: "The agent could not be reached",
  expired: "The agent did not pick it up in time",
  refused: "The agent rejected it",
};

/** Why a message became a dead letter; an unknown reason is shown as received. */
export function reasonText(reason: string): string {
  return REASONS[reason] ?? reason;
}

/** The instructions that were sent with a message. `template`: id@version. */
export function templateText(template: string): string {
  const at = template.lastIndexOf("@");
  return at <= 0 ? `the instructions ${template}` : `version ${template.slice(at + 1)} of the instructions ${template.slice(0, at)}`;
}

/** Why messages are unclaimed, and what to do about it. */
export function unclaimedText(workspace: Pick<Workspace, "status" | "active_tasks" | "current_task" | "limited_until" | "last_heard_at">): string {
  const status = statusOf(workspace);
  if (isSilent(status) && workspace.last_heard_at === null) return "No agent has connected yet. Connect one";
  switch (status) {
    case "paused":
      return "The agent is paused and receives no messages. Resume it";
    case "limited":
      return "The agent has reached a limit of its vendor and works again when it ends. To try now, end the limit";
    case "hibernated":
      return "The agent is hibernated and was not started. Start it, or resume it";
    case "provisioning":
    case "offline":
    case "awaiting":
      return "The agent is offline. Start it, or connect it again";
    case "failed":
      return "The agent has failed. Check its output and restart it";
    default:
      return "The agent is online but does not pick up messages. Restart it, and check its delivery mode";
  }
}

export function chainText({ reason, hops, messages }: MessageChain): string {
  if (reason === "hops") return `Forwarded ${hops} times`;
  if (reason === "messages") return `Reached ${messages.toLocaleString("en-GB")} messages`;
  if (reason === "pingpong") return "Two agents keep thanking each other";
  return reason;
}
