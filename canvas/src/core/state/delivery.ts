/** Delivery state of messages. Events report it for ranges of sequence numbers. */

import type { Chat, Delivery, Line, Workspace } from "./model";
import { isSilent, statusOf } from "./agentStatus";
import { inactivity, until } from "../text/time";

const ORDER: readonly Delivery[] = ["stored", "in_inbox", "handed_over", "dead", "acked"];

/** An unknown state counts as stored: the message came from the store. */
export function deliveryOf(word: string | null | undefined): Delivery {
  return ORDER.find((each) => each === word) ?? "stored";
}

export function isFurther(one: Delivery, other: Delivery): boolean {
  return ORDER.indexOf(one) > ORDER.indexOf(other);
}

export interface DeliveryStep {
  /** Sequence number of the event. */
  seq: number;
  first: number;
  last: number;
  delivery: Delivery;
  problem: string | null;
  /** A requeued dead letter starts again; no other state goes back. */
  back: boolean;
}

/** The chat after a step of some of its messages; the same object if it has none of them. */
export function withDeliveryStep(chat: Chat, step: DeliveryStep): Chat {
  const takes = (line: Line): boolean =>
    line.delivery !== null &&
    line.seq >= step.first &&
    line.seq <= step.last &&
    (step.back || isFurther(step.delivery, line.delivery));
  if (!chat.lines.some(takes)) return chat;
  const { delivery, problem, seq } = step;
  return { ...chat, lines: chat.lines.map((line) => (takes(line) ? { ...line, delivery, problem, lastEventSeq: seq } : line)) };
}

/** Why a stored message is not with the agent yet; null: there is no reason. */
export function waitReason(workspace: Workspace, now: number): string | null {
  const status = statusOf(workspace);
  if (status === "paused") return "the agent is paused";
  if (workspace.limited_until !== null) {
    const words = workspace.limit_reason?.startsWith("over budget") === true ? "over budget" : "limited";
    return `the agent is ${words} until ${until(workspace.limited_until, now)}`;
  }
  if (status === "hibernated") return "the agent is hibernated";
  if (isSilent(status)) {
    const heard = workspace.last_heard_at;
    return heard === null ? "no agent has connected yet" : inactivity(heard, now);
  }
  return workspace.active_tasks >= workspace.max_concurrent_tasks ? "the agent is busy" : null;
}
