/** What is stuck and waits for a person's decision: messages that could not be delivered, and chains that were stopped. */

import { number, text } from "./reading";

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

export interface Chain {
  rootId: string;
  workspaceId: string | null;
  reason: string;
  frozenAt: string;
  hops: number;
  messages: number;
  summary: string;
}

export interface Problems {
  deadLetters: readonly DeadLetter[];
  /** There are older ones than these. */
  moreDeadLetters: boolean;
  chains: readonly Chain[];
}

export const NO_PROBLEMS: Problems = { deadLetters: [], moreDeadLetters: false, chains: [] };

/** Events after which the lists are no longer true. */
const CHANGING = /^(MESSAGE_(DEAD|REQUEUED|DISCARDED)|CHAIN_(FROZEN|RELEASED|ENDED)|WORKSPACE_REMOVED)$/;

export function changesProblems(event: string): boolean {
  return CHANGING.test(event);
}

export function countProblems({ deadLetters, chains }: Problems): number {
  return deadLetters.length + chains.length;
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

export function chainOf(row: unknown): Chain | null {
  const [rootId, frozenAt] = [text(row, "root_id"), text(row, "frozen_at")];
  if (rootId === null || frozenAt === null) return null;
  return {
    rootId,
    workspaceId: text(row, "workspace_id"),
    reason: text(row, "reason") ?? "",
    frozenAt,
    hops: number(row, "hops") ?? 0,
    messages: number(row, "messages") ?? 0,
    summary: text(row, "summary") ?? "",
  };
}

const REASONS: Readonly<Record<string, string>> = {
  unreachable: "The agent could not be reached",
  expired: "Nobody took it in time",
  refused: "The agent refused it",
};

/** Why a message was given up, in words; a reason that this page does not know is shown as it came. */
export function reasonWords(reason: string): string {
  return REASONS[reason] ?? reason;
}

export function chainWords({ reason, hops, messages }: Chain): string {
  if (reason === "hops") return `It was passed on ${hops} times`;
  if (reason === "messages") return `It has come to ${messages.toLocaleString("en-GB")} messages`;
  if (reason === "pingpong") return "Two agents only thank each other";
  return reason;
}
