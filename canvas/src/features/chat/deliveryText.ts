/** Text below a person's message: its delivery and whether it was answered. Pure. */

import type { IconName } from "../../ui/Icon";
import { plainLine } from "../../core/text/plain";
import { duration } from "../../core/text/time";
import type { Obligation } from "../../core/state/obligations";
import type { Tick } from "./conversationItems";

export interface DeliveryText {
  icon: IconName;
  words: string;
  /** It needs attention. */
  bad: boolean;
}

const WAY: Readonly<Record<Tick, DeliveryText>> = {
  sending: { icon: "clock", words: "Sending", bad: false },
  stored: { icon: "check", words: "Sent", bad: false },
  in_inbox: { icon: "check", words: "In the agent’s inbox", bad: false },
  handed_over: { icon: "checks", words: "Delivered", bad: false },
  acked: { icon: "checks", words: "Acknowledged", bad: false },
  dead: { icon: "warning", words: "Not delivered", bad: true },
  not_sent: { icon: "warning", words: "Not sent", bad: true },
};

/** `waits`: why a message is only stored. */
export function deliveryText(tick: Tick, obligation: Obligation | null, waits: string | null, now: number): DeliveryText {
  const way = WAY[tick];
  if (way.bad || tick === "sending" || obligation === null) {
    return tick === "stored" && waits !== null ? { ...way, words: `Queued: ${waits}` } : way;
  }
  if (failureOf(obligation) !== null) return { icon: "warning", words: "Failed", bad: true };
  switch (obligation.state) {
    case "answered":
      return { icon: "checks", words: "Answered", bad: false };
    case "declined":
      return { icon: "close", words: obligation.reason === null ? "Declined" : `Declined: ${plainLine(obligation.reason)}`, bad: false };
    case "answered_outside":
      return { icon: "warning", words: "Answered outside Molecule", bad: true };
    case "overdue":
      return { icon: "warning", words: "Answer overdue", bad: true };
    case "open":
      return { ...way, words: `${way.words}${dueText(obligation.dueAt, now)}` };
  }
}

/** Why the agent's work on a message failed; null if it did not, or if the message was answered since. */
export function failureOf({ state, reason, draft }: Obligation): string | null {
  return (state === "open" || state === "overdue") && draft === null ? reason : null;
}

function dueText(dueAt: string | null, now: number): string {
  if (dueAt === null) return "";
  const due = Date.parse(dueAt);
  if (Number.isNaN(due)) return "";
  if (due <= now) return ", no answer yet";
  return `, answer due in ${duration(new Date(now).toISOString(), due)}`;
}

/** The instructions sent with a message; null if unknown. */
export function instructionsText({ template, form, tokens }: Obligation): string | null {
  if (template === null) return null;
  const many = tokens === null ? "" : `, ${tokens.toLocaleString("en-GB")} tokens`;
  return `${template}${form === null ? "" : `, ${form} form`}${many}`;
}

/** Template id of "id@version". */
export function templateIdOf(template: string): string {
  const at = template.lastIndexOf("@");
  return at === -1 ? template : template.slice(0, at);
}
