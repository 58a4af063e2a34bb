/** Connection progress of a new agent. */

import type { Chat, Workspace } from "../../core/state/model";
import { list, number } from "../../core/state/json";

type StepName = "token" | "contact" | "registered" | "heartbeat" | "read" | "answered";

export interface ConnectionStep {
  name: StepName;
  done: boolean;
  title: string;
  /** The likely cause if the step takes long. */
  cause: string;
}

export const STALLED_MS = 30_000;

interface Observed {
  workspace: Workspace | undefined;
  chat: Chat | undefined;
  /** When the page first saw the agent connected. */
  registeredAt: string | null;
}

export function connectionSteps({ workspace, chat, registeredAt }: Observed): ConnectionStep[] {
  const lines = chat?.lines ?? [];
  const asked = lines.find((line) => line.author === "user");
  const answered = asked !== undefined && lines.some((line) => line.author === "agent" && line.seq > asked.seq);
  const read = answered || asked?.delivery === "handed_over" || asked?.delivery === "acked";
  const heard = workspace?.last_heard_at ?? null;
  const card = workspace?.agent_card ?? null;
  return [
    { name: "token", done: workspace !== undefined, title: "Token created", cause: "" },
    {
      name: "contact",
      done: heard !== null || card !== null || registeredAt !== null || read,
      title: "First contact",
      cause: "Was the host restarted after it was configured? Can its machine reach this server\u2019s address? A wrong token returns 401; the host shows that in its list of MCP servers.",
    },
    {
      name: "registered",
      done: card !== null,
      title: `Agent registered${toolsText(card)}`,
      cause: "The agent has contacted this server but has not registered. Call POST /registry/register; molecule mcp does that automatically.",
    },
    {
      name: "heartbeat",
      done: registeredAt !== null && heard !== null && heard > registeredAt,
      title: "Heartbeat",
      cause: "The agent registered but has sent nothing since. It must send a heartbeat every 30 seconds, or wait for messages.",
    },
    {
      name: "read",
      done: read,
      title: "First message read",
      cause:
        asked === undefined
          ? "Send the test message once the agent is connected."
          : "The message is waiting in the inbox. Ask the agent to check its Molecule inbox.",
    },
    {
      name: "answered",
      done: answered,
      title: "First answer",
      cause: "Only answers sent through Molecule count. Text in the agent\u2019s own terminal does not appear here.",
    },
  ];
}

/** Whether the test message was sent already. */
export function hasTestMessage(chat: Chat | undefined): boolean {
  return chat?.lines.some((line) => line.author === "user") ?? false;
}

/** Number of tools in an agent card; empty if it has none. */
function toolsText(card: unknown): string {
  const count = number(card, "tools") ?? list(card, "tools").length;
  return count > 0 ? `, ${count} tools` : "";
}
