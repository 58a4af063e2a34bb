/** What a person can do by a command in a chat: only what the page also has as a button or link. */

import type { Router } from "../../core/router";
import type { SessionController } from "../../core/session/sessionController";
import { statusOf } from "../../core/state/agentStatus";
import { isEnded } from "../../core/state/liveTurns";
import type { Candidate } from "./completions";

export interface ChatCommand extends Candidate {
  run: () => Promise<unknown>;
  /** Announced when it has run. */
  done: string;
}

interface Context {
  session: SessionController;
  router: Pick<Router, "go">;
  workspaceId: string;
}

export function chatCommands({ session, router, workspaceId }: Context): readonly ChatCommand[] {
  const workspace = session.data.get()?.workspaces.get(workspaceId);
  if (workspace === undefined || !session.canSend) return [];
  const running = [...session.liveTurns.get().values()].filter((turn) => turn.workspaceId === workspaceId && !isEnded(turn));
  const isAside = ["paused", "hibernated"].includes(statusOf(workspace));
  const view = (name: string, hint: string, go: () => void): ChatCommand => ({ id: name, name, hint, run: async () => go(), done: "" });
  return [
    ...(running.length === 0 ? [] : [{ id: "stop", name: "stop", hint: "Stop the running work", run: () => Promise.all(running.map((turn) => session.stopTurn(workspaceId, turn.activityId))), done: "Stop requested" }]),
    isAside
      ? { id: "resume", name: "resume", hint: `Resume ${workspace.name}`, run: () => session.api.putAside(workspaceId, "resume"), done: "Resumed" }
      : { id: "pause", name: "pause", hint: `Pause ${workspace.name}: messages wait`, run: () => session.api.putAside(workspaceId, "pause"), done: "Paused" },
    view("work", "View delegations", () => router.go({ view: "org", focus: workspaceId, panel: "work", filter: "" })),
    view("prompt", "View the system prompt", () => router.go({ view: "prompt", workspaceId })),
  ];
}
