/** What can complete the text before the caret: names of agents after `@`, commands after a `/` that begins the text. Pure. */

export interface Completion {
  kind: "agent" | "command";
  /** Where the mark begins. */
  from: number;
  query: string;
}

export interface Candidate {
  id: string;
  /** Text that is inserted, or the name of the command. */
  name: string;
  hint: string;
}

const MAX_SHOWN = 8;
/** Names of agents have blanks; a longer text after `@` is no name. */
const MENTION = /(?:^|[\s(])@([^\n@]{0,40})$/u;
const COMMAND = /^\/([a-z]{0,20})$/;

export function completionAt(text: string, caret: number): Completion | null {
  const before = text.slice(0, caret);
  const command = COMMAND.exec(before);
  if (command !== null && text.length === caret) return { kind: "command", from: 0, query: command[1] ?? "" };
  const query = MENTION.exec(before)?.[1];
  return query === undefined ? null : { kind: "agent", from: caret - query.length - 1, query };
}

/** The candidates with these letters: first those whose name begins with them, then those with a word that does. */
export function matching<C extends Candidate>(candidates: readonly C[], query: string): readonly C[] {
  const wanted = query.toLowerCase();
  const begins = candidates.filter(({ name }) => name.toLowerCase().startsWith(wanted));
  const within = candidates.filter(({ name }) => !name.toLowerCase().startsWith(wanted) && ` ${name.toLowerCase()}`.includes(` ${wanted}`));
  return [...begins, ...within].slice(0, MAX_SHOWN);
}

/** The text with a mention in place of what was typed, and where the caret is then. */
export function withMention(text: string, { from, query }: Completion, name: string): { text: string; caret: number } {
  const rest = text.slice(from + 1 + query.length);
  const mention = `@${name}${rest.startsWith(" ") ? "" : " "}`;
  return { text: text.slice(0, from) + mention + rest, caret: from + name.length + 2 };
}
