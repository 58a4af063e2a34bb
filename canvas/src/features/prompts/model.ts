/** The system prompt that an agent reported when it was built. A member of another shape reads as absent. */

import { list, members, number, text } from "../../core/state/json";

export interface Section {
  /** Unique in a build. */
  key: string;
  part: number;
  kind: string;
  title: string;
  source: string;
  text: string;
  bytes: number;
  tokens: number;
  hash: string;
  /** What was left out to stay within the budget. */
  shortened: string | null;
}

export interface Build {
  sections: readonly Section[];
  trigger: { kind: string; detail: string };
  hash: string;
  tokens: number;
  budget: number;
  warnings: readonly string[];
  /** Hash in the running session; null: not reported. */
  sessionHash: string | null;
  builtAt: string;
  revision: number;
}

export interface Change {
  part: number;
  title: string;
  change: "added" | "removed" | "changed";
  lines: readonly { kind: "same" | "added" | "removed"; text: string }[];
}

export interface Prompt {
  build: Build;
  previous: Build | null;
  diff: readonly Change[];
}

export function promptOf(value: unknown): Prompt | null {
  const build = buildOf(members(value)?.["build"]);
  if (build === null) return null;
  return { build, previous: buildOf(members(value)?.["previous"]), diff: list(value, "diff").map(changeOf) };
}

function buildOf(value: unknown): Build | null {
  const [hash, builtAt] = [text(value, "hash"), text(value, "built_at")];
  if (hash === null || builtAt === null) return null;
  return {
    sections: list(value, "sections").map(sectionOf),
    trigger: { kind: text(value, "trigger", "kind") ?? "", detail: text(value, "trigger", "detail") ?? "" },
    hash,
    tokens: number(value, "tokens") ?? 0,
    budget: number(value, "budget") ?? 0,
    warnings: list(value, "warnings").filter((each) => typeof each === "string"),
    sessionHash: text(value, "session_hash"),
    builtAt,
    revision: number(value, "revision") ?? 0,
  };
}

function sectionOf(value: unknown, at: number): Section {
  return {
    key: `${at} ${text(value, "source") ?? ""}`,
    part: number(value, "part") ?? 0,
    kind: text(value, "kind") ?? "",
    title: text(value, "title") ?? "",
    source: text(value, "source") ?? "",
    text: text(value, "text") ?? "",
    bytes: number(value, "bytes") ?? 0,
    tokens: number(value, "tokens") ?? 0,
    hash: text(value, "hash") ?? "",
    shortened: text(value, "shortened"),
  };
}

const KINDS = { " ": "same", "+": "added", "-": "removed" } as const;

function changeOf(value: unknown): Change {
  const change = text(value, "change");
  return {
    part: number(value, "part") ?? 0,
    title: text(value, "title") ?? "",
    change: change === "added" || change === "removed" ? change : "changed",
    lines: list(value, "lines").map((line) => ({ kind: KINDS[(text(line, "kind") ?? " ") as keyof typeof KINDS] ?? "same", text: text(line, "text") ?? "" })),
  };
}

const PARTS: readonly string[] = ["", "Prompt files", "Parent context", "Platform rules", "Skills", "Reachable workspaces", "Delegation failures"];

export function partText(part: number): string {
  return PARTS[part] ?? `Part ${part}`;
}

const TRIGGERS: Readonly<Record<string, string>> = {
  start: "the agent started",
  file: "a file changed",
  event: "the organisation changed",
  reconnect: "the agent reconnected",
  gap: "events may have been missed",
  command: "a rebuild was requested",
};

const EVENTS: Readonly<Record<string, string>> = {
  AGENT_CARD_UPDATED: "updated its card",
  SHARED_CONTEXT_UPDATED: "updated its shared context",
  WORKSPACE_AWAITING_AGENT: "waits for its agent",
  WORKSPACE_COLLAPSED: "lost its team",
  WORKSPACE_DEGRADED: "has problems",
  WORKSPACE_EXPANDED: "got a team",
  WORKSPACE_HIBERNATED: "was hibernated",
  WORKSPACE_LIMITED: "reached a limit",
  WORKSPACE_LIMIT_ENDED: "is no longer limited",
  WORKSPACE_MOVED: "was moved",
  WORKSPACE_OFFLINE: "went offline",
  WORKSPACE_ONLINE: "came online",
  WORKSPACE_PAUSED: "was paused",
  WORKSPACE_PROVISIONING: "is being set up",
  WORKSPACE_REMOVED: "was removed",
  WORKSPACE_UPDATED: "was edited",
};
const EVENT_OF_WORKSPACE = /^([A-Z_]+) (\S+)/;

/** Why a prompt was rebuilt. An event is shown in words, with the name of its workspace. */
export function triggerText({ kind, detail }: Build["trigger"], nameOf: (id: string) => string | undefined): string {
  const words = TRIGGERS[kind] ?? kind;
  const [, event = "", id = ""] = (kind === "event" && EVENT_OF_WORKSPACE.exec(detail)) || [];
  const what = EVENTS[event];
  if (what !== undefined) return `${nameOf(id) ?? "an agent"} ${what}`;
  return detail === "" ? words : `${words}: ${detail}`;
}

/** The share of each section, in whole percent of their sum. */
export function shareOf(section: Section, sections: readonly Section[]): number {
  const all = sumOf(sections, "tokens");
  return all === 0 ? 0 : Math.round((section.tokens / all) * 100);
}

export function sumOf(sections: readonly Section[], what: "tokens" | "bytes"): number {
  return sections.reduce((sum, each) => sum + each[what], 0);
}

/** How often a text contains the words, ignoring case. */
export function countOf(where: string, words: string): number {
  return words === "" ? 0 : where.toLowerCase().split(words.toLowerCase()).length - 1;
}

/** The text split at the words: every other piece is a match. */
export function piecesOf(where: string, words: string): string[] {
  if (words === "" || where.toLowerCase().length !== where.length) return [where];
  const pieces: string[] = [];
  let from = 0;
  const [low, sought] = [where.toLowerCase(), words.toLowerCase()];
  for (let at = low.indexOf(sought); at !== -1; at = low.indexOf(sought, from)) {
    pieces.push(where.slice(from, at), where.slice(at, at + words.length));
    from = at + words.length;
  }
  return [...pieces, where.slice(from)];
}
