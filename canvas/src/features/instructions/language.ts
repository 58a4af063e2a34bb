/** The template language as the editor shows it: what its texts consist of, and what can be completed. The server's parser
 * decides what is valid; a test compares the names here with its own. */

export interface Name {
  name: string;
  hint: string;
}

export const VARIABLES: readonly Name[] = [
  { name: "kind", hint: "Kind of message, such as canvas_user" },
  { name: "intent", hint: "request, inform or ack" },
  { name: "reply_tool", hint: "Tool that answers" },
  { name: "available_tools", hint: "List of the agent’s tools" },
  { name: "docs_url", hint: "Docs URL of this template" },
  { name: "peer_id", hint: "Id of the sending agent" },
  { name: "peer_name", hint: "Name of the sending agent" },
  { name: "peer_role", hint: "Role of the sending agent" },
  { name: "workspace_id", hint: "Id of the receiving agent" },
  { name: "arrival_workspace_id", hint: "The same, where a process serves several agents" },
  { name: "reply_handle", hint: "Handle for the tool reply" },
  { name: "message_handle", hint: "Handle of the message, for every agent" },
  { name: "delegation_id", hint: "Id of the delegation" },
  { name: "verified", hint: "Of a result: yes or no, whether it passed checks" },
  { name: "restricted", hint: "Of a delegated task: yes if it lists what it may use" },
  { name: "user_id", hint: "Id of the person who wrote" },
  { name: "due_at", hint: "When an answer is due" },
  { name: "attempt", hint: "1, 2, …" },
  { name: "attachments", hint: "List of file names" },
];

export const LISTS: readonly string[] = ["available_tools", "attachments"];

export const STATEMENTS: readonly Name[] = [
  { name: "if", hint: "Text under a condition" },
  { name: "elif", hint: "Otherwise, under another condition" },
  { name: "else", hint: "Otherwise" },
  { name: "endif", hint: "End of if" },
  { name: "for", hint: "Text for each entry of a list" },
  { name: "endfor", hint: "End of for" },
];

export const OPERATORS: readonly Name[] = [
  { name: "and", hint: "Both conditions" },
  { name: "or", hint: "One of the conditions" },
  { name: "not", hint: "Not the condition" },
  { name: "in", hint: "Entries of a list" },
];

const FILTERS: readonly Name[] = [{ name: "join", hint: "All entries of a list on one line" }];

/** A part of a text. `tag`: what it is in; null: plain text. */
export interface Piece {
  tag: "output" | "statement" | "wrong" | null;
  kind: "keyword" | "string" | "unknown" | null;
  text: string;
}

const TAG = /\{\{(?:(?!\}\}).)*(?:\}\}|$)|\{%(?:(?!%\}).)*(?:%\}|$)|\{#(?:(?!#\}).)*(?:#\}|$)/gs;
const TOKEN = /"[^"\n]*"|'[^'\n]*'|[A-Za-z_]\w*|[^A-Za-z_"']+|["']/g;
const LOOP = /\{%\s*for\s+([A-Za-z_]\w*)\s+in\b/g;

const WORDS = new Set([...STATEMENTS, ...OPERATORS, ...FILTERS].map(({ name }) => name));
const KNOWN = new Set(VARIABLES.map(({ name }) => name));

/** The pieces of each line. */
export function linesOf(text: string): Piece[][] {
  const lines: Piece[][] = [[]];
  for (const piece of piecesOf(text)) {
    piece.text.split("\n").forEach((part, at) => {
      if (at > 0) lines.push([]);
      if (part !== "") lines.at(-1)?.push({ ...piece, text: part });
    });
  }
  return lines;
}

function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  const loops = new Set(loopNames(text));
  let at = 0;
  for (const found of text.matchAll(TAG)) {
    pieces.push({ tag: null, kind: null, text: text.slice(at, found.index) });
    pieces.push(...piecesOfTag(found[0], loops));
    at = found.index + found[0].length;
  }
  pieces.push({ tag: null, kind: null, text: text.slice(at) });
  return pieces.filter((each) => each.text !== "");
}

function piecesOfTag(text: string, loops: ReadonlySet<string>): Piece[] {
  const closing = text.startsWith("{{") ? "}}" : "%}";
  // The language has no comments, and an open tag is an error of all that follows.
  if (text.startsWith("{#") || text.length < 4 || !text.endsWith(closing)) return [{ tag: "wrong", kind: null, text }];
  const tag = closing === "}}" ? "output" : "statement";
  const inside = [...text.slice(2, -2).matchAll(TOKEN)].map(([token]): Piece => ({ tag, kind: kindOf(token, loops), text: token }));
  return [{ tag, kind: null, text: text.slice(0, 2) }, ...inside, { tag, kind: null, text: closing }];
}

function kindOf(token: string, loops: ReadonlySet<string>): Piece["kind"] {
  if (/^["']./.test(token)) return "string";
  if (!/^[A-Za-z_]/.test(token)) return null;
  if (WORDS.has(token)) return "keyword";
  return KNOWN.has(token) || loops.has(token) ? null : "unknown";
}

function loopNames(text: string): string[] {
  return [...text.matchAll(LOOP)].map(([, name]) => name ?? "");
}

export interface Completion extends Name {
  /** What replaces the begun word. */
  insert: string;
}

export interface Completions {
  /** Where the begun word starts. */
  from: number;
  options: readonly Completion[];
}

/** What the word at a place of a text can become; null: the place is in no tag, or the word is complete. */
export function completionsAt(text: string, caret: number): Completions | null {
  const before = text.slice(0, caret);
  const open = Math.max(before.lastIndexOf("{{"), before.lastIndexOf("{%"));
  if (open === -1) return null;
  const inside = before.slice(open + 2);
  if (/[}%]\}/.test(inside) || isQuoted(inside)) return null;
  const word = /[A-Za-z_]\w*$/.exec(inside)?.[0] ?? "";
  const head = inside.slice(0, inside.length - word.length);
  const isStatement = text.startsWith("{%", open);
  const names = namesAfter(head, isStatement, text);
  const options = names
    .filter(({ name }) => name.startsWith(word) || (word.length > 1 && name.includes(word)))
    .sort((one, other) => Number(other.name.startsWith(word)) - Number(one.name.startsWith(word)))
    .map((each): Completion => ({ ...each, insert: each.name + ending(each.name, isStatement, text.slice(caret)) }));
  if (options.length === 0 || (options.length === 1 && options[0]?.insert === word)) return null;
  return { from: caret - word.length, options };
}

function isQuoted(inside: string): boolean {
  return /["']/.test(inside.replace(/"[^"\n]*"|'[^'\n]*'/g, ""));
}

function namesAfter(head: string, isStatement: boolean, text: string): readonly Name[] {
  if (isStatement && head.trim() === "") return STATEMENTS;
  if (/\|\s*$/.test(head)) return FILTERS;
  if (/\bfor\s+$/.test(head)) return []; // the name of an entry is the author's
  if (/\bin\s+$/.test(head)) return VARIABLES.filter(({ name }) => LISTS.includes(name));
  const entries = [...new Set(loopNames(text))].map((name): Name => ({ name, hint: "Entry of the list" }));
  const names = [...entries, ...VARIABLES];
  return isStatement ? [...names, ...OPERATORS] : names;
}

/** Close a tag that is complete with the word, unless it is closed already. */
function ending(name: string, isStatement: boolean, after: string): string {
  if (/^[^{}\n]*[}%]\}/.test(after)) return "";
  if (name === "join") return '(", ") }}';
  if (!isStatement) return " }}";
  return ["else", "endif", "endfor"].includes(name) ? " %}" : "";
}
