/** What agents do in turns at the moment, from events that are not journaled. Pure. */

import type { EventFrame, LiveToolCall, LiveTurnPayload } from "../wire";
import { list, members, number, text } from "./json";

export interface LiveTurn {
  workspaceId: string;
  /** The message that the turn answers, or another id. */
  activityId: string;
  threadId: string;
  status: LiveTurnPayload["status"];
  statusText: string;
  startedAt: string;
  /** Characters of the turn's text before `text`. */
  textAt: number;
  text: string;
  tools: readonly LiveToolCall[];
  /** Name of the person that wants it to stop. */
  stopRequestedBy: string | null;
}

export type LiveTurns = ReadonlyMap<string, LiveTurn>;

export const NO_LIVE_TURNS: LiveTurns = new Map();

const STATUSES = new Set<string>(["working", "waiting_for_approval", "retrying", "limited", "ended", "failed", "stopped", "lost"]);
const ENDED = new Set<string>(["ended", "failed", "stopped"]);
const MAX_TOOLS = 50;

export function turnKey(workspaceId: string, activityId: string): string {
  return `${workspaceId} ${activityId}`;
}

export function isEnded(turn: LiveTurn): boolean {
  return ENDED.has(turn.status);
}

/** Apply the events about turns among these; the same map if there is none. */
export function withLiveTurns(turns: LiveTurns, frames: readonly EventFrame[]): LiveTurns {
  const own = frames.filter((frame) => frame.event === "LIVE_TURN");
  if (own.length === 0) return turns;
  const next = new Map(turns);
  for (const frame of own) take(next, frame);
  return next;
}

function take(turns: Map<string, LiveTurn>, frame: EventFrame): void {
  const { payload, workspace_id: workspaceId } = frame;
  const [activityId, status, startedAt] = [text(payload, "activity_id"), text(payload, "status"), text(payload, "started_at")];
  if (activityId === null || startedAt === null || status === null || !STATUSES.has(status)) return;
  const key = turnKey(workspaceId, activityId);
  if (status === "lost") {
    turns.delete(key);
    return;
  }
  const known = members(payload)?.["whole"] === true ? undefined : turns.get(key);
  const [textAt, added] = [number(payload, "text_at") ?? 0, text(payload, "text") ?? ""];
  turns.set(key, {
    workspaceId,
    activityId,
    threadId: text(payload, "thread_id") ?? "",
    status: status as LiveTurn["status"],
    statusText: text(payload, "status_text") ?? "",
    startedAt,
    textAt: known?.textAt ?? textAt,
    text: known === undefined ? added : known.text.slice(0, Math.max(0, characterIndex(known.text, textAt - known.textAt))) + added,
    tools: withTools(known?.tools ?? [], list(payload, "tools")),
    stopRequestedBy: text(payload, "stop_requested_by"),
  });
}

/** The server counts characters, strings count UTF-16 units. */
function characterIndex(words: string, characters: number): number {
  let at = 0;
  for (let count = 0; count < characters && at < words.length; count += 1) at += (words.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  return at;
}

function withTools(known: readonly LiveToolCall[], changed: readonly unknown[]): readonly LiveToolCall[] {
  if (changed.length === 0) return known;
  const all = new Map(known.map((each) => [each.call_id, each]));
  for (const each of changed) {
    const [call_id, tool, status] = [text(each, "call_id"), text(each, "tool"), text(each, "status")];
    if (call_id === null || tool === null || (status !== "started" && status !== "completed" && status !== "failed")) continue;
    all.set(call_id, { call_id, tool, title: text(each, "title") ?? "", status });
  }
  return [...all.values()].slice(-MAX_TOOLS);
}

/** The text of a turn without what is shown as messages already: `said` are the agent's messages since its start. */
export function unsaidText(turn: LiveTurn, said: readonly string[]): string {
  let rest = turn.text;
  for (const each of said) {
    const words = each.trim();
    const at = words === "" ? -1 : rest.indexOf(words);
    if (at !== -1) rest = rest.slice(at + words.length);
  }
  return rest.trim();
}
