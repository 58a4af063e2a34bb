/** Instruction templates as the page uses them. Pure; a member of another shape reads as empty. */

import { at, list, members, number, text } from "../../core/state/json";
import { diffLines, type DiffLine } from "./diff";

/** A template's own texts. Null or absent: inherited from its base. */
export interface Parts {
  reply_tool: string | null;
  docs_url: string | null;
  stdout_warning: string | null;
  tools: readonly string[];
  lines: readonly string[];
  blocks: Readonly<Record<string, string>>;
}

export const NO_PARTS: Parts = { reply_tool: null, docs_url: null, stdout_warning: null, tools: [], lines: [], blocks: {} };

export interface Row {
  id: string;
  /** Empty: for any runtime. */
  runtime: string;
  /** Empty: the template of the workspace's runtime; null: none. */
  extends: string | null;
  version: number;
  canary: number | null;
  percent: number;
  /** It is built in, and the organisation has its own version. */
  edited: boolean;
  builtIn: boolean;
  /** Workspaces that use it, by choice or by their runtime. */
  usedBy: number;
  defaultFor: number;
}

export interface Template extends Row {
  parts: Parts;
  /** The merged texts of the templates that it extends. */
  base: { name: string; parts: Parts } | null;
}

/** Unsaved changes of a template. */
export interface TemplateDraft {
  parts: Parts;
  /** The version that it is based on. */
  from: number;
}

export interface Version {
  version: number;
  parts: Parts;
  builtIn: boolean;
  createdAt: string | null;
  createdBy: string | null;
  note: string | null;
}

export interface Preview {
  text: string;
  tokens: number | null;
  replyVia: string | null;
  docsUrl: string | null;
  tools: readonly string[];
}

/** A finding of the server in a template. */
export interface Finding {
  /** The text that contains it, such as blocks.reply; null: none of them. */
  where: string | null;
  /** From 1; null: the whole text. */
  line: number | null;
  text: string;
  /** It does not prevent saving. */
  warning: boolean;
}

/** The named texts, in the order in which an agent reads them. */
export const BLOCKS: readonly { name: string; hint: string }[] = [
  { name: "reminder", hint: "Comes first when a message is delivered again because it was not answered." },
  { name: "reply", hint: "Names the sender and explains where to send the answer." },
  { name: "silence", hint: "Explains that text in the terminal is not delivered." },
  { name: "tools", hint: "Describes the agent’s other tools." },
  { name: "files", hint: "Lists attachments, or explains how files are delivered." },
  { name: "docs", hint: "Links to the documentation." },
  { name: "message", hint: "Comes last: details of this message, and the call that answers it." },
  { name: "compact", hint: "Replaces all other texts for agents that have answered correctly before." },
  { name: "delta", hint: "Follows the compact text when something has changed." },
];

export const KINDS = [
  "canvas_user",
  "peer_agent",
  "delegation",
  "delegation_result",
  "approval_request",
  "approval_decision",
  "broadcast",
  "chat_upload_receive",
  "system",
] as const;

export const FORMS = ["full", "compact", "delta"] as const;

/** Names of the texts of a template: the standard ones, then its others. */
export function blockNames(...parts: readonly (Parts | null)[]): string[] {
  const known = BLOCKS.map(({ name }) => name);
  return [...new Set([...known, ...parts.flatMap((each) => Object.keys(each?.blocks ?? {}))])];
}

export function partsOf(value: unknown): Parts {
  const blocks = Object.entries(members(members(value)?.["blocks"]) ?? {}).filter((each): each is [string, string] => typeof each[1] === "string");
  const texts = (name: string): string[] => list(value, name).filter((each) => typeof each === "string");
  return {
    reply_tool: text(value, "reply_tool"),
    docs_url: text(value, "docs_url"),
    stdout_warning: text(value, "stdout_warning"),
    tools: texts("tools"),
    lines: texts("lines"),
    blocks: Object.fromEntries(blocks),
  };
}

/** In wire shape: without empty members. */
export function bodyOf(parts: Parts): Record<string, unknown> {
  const { tools, lines, blocks, ...words } = parts;
  const ownTexts = Object.entries(words).filter(([, value]) => value !== null);
  return { ...Object.fromEntries(ownTexts), tools, lines, blocks };
}

export function rowOf(value: unknown): Row | null {
  const [id, version] = [text(value, "template", "id"), number(value, "template", "version")];
  if (id === null || version === null) return null;
  return {
    id,
    version,
    runtime: text(value, "template", "runtime") ?? "",
    extends: text(value, "template", "extends"),
    canary: number(value, "canary"),
    percent: number(value, "percent") ?? 0,
    edited: at(value, "edited") === true,
    builtIn: at(value, "template", "built_in") === true,
    usedBy: number(value, "used_by") ?? 0,
    defaultFor: number(value, "default_for") ?? 0,
  };
}

export function templateOf(value: unknown): Template | null {
  const row = rowOf(at(value, "row"));
  if (row === null) return null;
  const base = row.extends === null ? null : { name: row.extends || "the runtime default", parts: partsOf(at(value, "base")) };
  return { ...row, parts: partsOf(at(value, "row", "template", "parts")), base };
}

/** Runtime and version of a template. */
export function rowText({ runtime, version, canary, percent, extends: above }: Row): string {
  const tried = canary === null ? "" : `, canary version ${canary} at ${percent} %`;
  const extending = above === null ? "" : `, extends ${above || "the runtime default"}`;
  return `${runtime === "" ? "Any runtime" : runtime}, version ${version}${tried}${extending}`;
}

export function versionOf(value: unknown): Version | null {
  const version = number(value, "version");
  if (version === null) return null;
  return {
    version,
    parts: partsOf(at(value, "parts")),
    builtIn: at(value, "built_in") === true,
    createdAt: text(value, "created_at"),
    createdBy: text(value, "created_by"),
    note: text(value, "note"),
  };
}

export function previewOf(value: unknown): Preview {
  return {
    text: text(value, "text") ?? "",
    tokens: number(value, "tokens"),
    replyVia: text(value, "reply_via"),
    docsUrl: text(value, "docs_url"),
    tools: list(value, "available_tools").filter((each) => typeof each === "string"),
  };
}

/** The finding of an error response. */
export function findingOf(value: unknown, words: string): Finding {
  const where = partNameOf(text(value, "part"));
  return { where, line: where === null ? null : number(value, "line"), text: text(value, "reason") ?? words, warning: false };
}

const WARNING = /^([\w.[\]]+), (?:line (\d+): )?(.+)$/s;

/** Warnings: what the author may not have meant. */
export function warningsOf(value: unknown): Finding[] {
  return list(value, "warnings").flatMap((each): Finding[] => {
    if (typeof each !== "string") return [];
    const [, part, line, words] = WARNING.exec(each) ?? [];
    const where = partNameOf(part ?? null);
    return [{ where, line: where === null || line === undefined ? null : Number(line), text: where === null ? each : (words ?? each), warning: true }];
  });
}

const FACTS = ["reply_tool", "docs_url", "stdout_warning", "tools"];

/** The page's name of a text that the server names; null for the template as a whole. */
function partNameOf(part: string | null): string | null {
  if (part === null) return null;
  const line = /^lines\[(\d+)\]$/.exec(part);
  if (line !== null) return `lines.${line[1]}`;
  if (part.startsWith("blocks.") || FACTS.includes(part)) return part;
  return BLOCKS.some(({ name }) => name === part) ? `blocks.${part}` : null;
}

/** Every text by the name that findings use. */
export function textsOf(parts: Parts): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const name of ["reply_tool", "docs_url", "stdout_warning"] as const) {
    const words = parts[name];
    if (words !== null) texts.set(name, words);
  }
  if (parts.tools.length > 0) texts.set("tools", parts.tools.join("\n"));
  for (const name of blockNames(parts)) {
    const words = parts.blocks[name];
    if (words !== undefined) texts.set(`blocks.${name}`, words);
  }
  parts.lines.forEach((words, place) => texts.set(`lines.${place}`, words));
  return texts;
}

export function sameParts(one: Parts, other: Parts): boolean {
  const [before, after] = [textsOf(one), textsOf(other)];
  return before.size === after.size && [...before].every(([name, words]) => after.get(name) === words);
}

export interface TextDiff {
  where: string;
  lines: readonly DiffLine[];
}

/** The texts that differ. A missing text counts as empty. */
export function diffParts(before: Parts, after: Parts): TextDiff[] {
  const [one, other] = [textsOf(before), textsOf(after)];
  const names = [...new Set([...one.keys(), ...other.keys()])];
  return names
    .filter((where) => one.get(where) !== other.get(where))
    .map((where) => ({ where, lines: diffLines(one.get(where) ?? "", other.get(where) ?? "") }));
}

/** Label of a text. */
export function partLabel(where: string): string {
  const [kind = "", name = ""] = where.split(".");
  if (kind === "blocks") return name;
  if (kind === "lines") return `added line ${Number(name) + 1}`;
  return { reply_tool: "reply tool", docs_url: "docs URL", stdout_warning: "warning", tools: "tools" }[kind] ?? where;
}
