/** How far an agent has come that is being connected. */

import type { Chat, Workspace } from "./model";

type StepName = "seat" | "registered" | "heartbeat" | "stored" | "answered";

export interface ArrivalStep {
  name: StepName;
  done: boolean;
  title: string;
  /** What is likely wrong if it takes long. */
  cause: string;
}

export const STALLED_MS = 30_000;

interface Seen {
  workspace: Workspace | undefined;
  chat: Chat | undefined;
  /** When the page first saw the agent there. */
  registeredAt: string | null;
}

export function arrivalSteps({ workspace, chat, registeredAt }: Seen): ArrivalStep[] {
  const lines = chat?.lines ?? [];
  const asked = lines.find((line) => line.author === "user");
  const answered = asked !== undefined && lines.some((line) => line.author === "agent" && line.seq > asked.seq);
  const heard = workspace?.last_heard_at ?? null;
  return [
    { name: "seat", done: workspace !== undefined, title: "Seat made", cause: "" },
    {
      name: "registered",
      done: registeredAt !== null,
      title: "Agent registered",
      cause: "Did the command run to its end? Can that machine reach this server's address? A wrong token answers 401.",
    },
    {
      name: "heartbeat",
      done: registeredAt !== null && heard !== null && heard > registeredAt,
      title: "First heartbeat",
      cause: "The agent registered and was not heard since. It must call its heartbeat every 30 seconds, or wait for messages.",
    },
    {
      name: "stored",
      done: asked !== undefined,
      title: "Test message stored for it",
      cause: "Send the test message when the agent is there.",
    },
    {
      name: "answered",
      done: answered,
      title: "Its answer came",
      cause: "The message waits for the agent. An answer counts only if it comes through Molecule: text in the agent's own terminal is not seen here.",
    },
  ];
}
