/** Validate edited approval details: what is wrong, and at which line. Pure. */

import type { Finding } from "../instructions/model";
import { members, type Members } from "../../core/state/json";

interface Edited {
  /** Null while there is an error. */
  details: Members | null;
  marks: readonly Finding[];
}

/** Compared with the proposed details: known members keep their type; added and removed ones are reported. */
export function readDetails(words: string, proposed: Members): Edited {
  let value: unknown;
  try {
    value = JSON.parse(words);
  } catch (error) {
    return { details: null, marks: [mark(lineOfFault(words, error), "Invalid JSON here. Check for a missing comma, quote or bracket.")] };
  }
  const details = members(value);
  if (details === null) return { details: null, marks: [mark(1, "The details must be an object: { … }.")] };
  const marks = [...wrongKinds(words, details, proposed), ...addedMembers(words, details, proposed), ...leftOut(details, proposed)];
  return { details: marks.every(({ warning }) => warning) ? details : null, marks };
}

function wrongKinds(words: string, details: Members, proposed: Members): Finding[] {
  return Object.entries(details).flatMap(([name, value]) => {
    const [kind, before] = [kindOf(value), kindOf(proposed[name])];
    if (!Object.hasOwn(proposed, name) || kind === before || before === "nothing" || kind === "nothing") return [];
    return [mark(lineOf(words, name), `“${name}” must be ${before}, not ${kind}.`)];
  });
}

function addedMembers(words: string, details: Members, proposed: Members): Finding[] {
  const added = Object.keys(details).filter((name) => !Object.hasOwn(proposed, name));
  return added.map((name) => mark(lineOf(words, name), `“${name}” is not in the proposed details. The agent may not expect it.`, true));
}

function leftOut(details: Members, proposed: Members): Finding[] {
  const gone = Object.keys(proposed).filter((name) => !Object.hasOwn(details, name));
  return gone.map((name) => mark(null, `“${name}” was removed.`, true));
}

function mark(line: number | null, words: string, mild = false): Finding {
  return { where: null, line, text: words, warning: mild };
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return "nothing";
  if (Array.isArray(value)) return "an array";
  return { string: "a string", number: "a number", boolean: "a boolean" }[typeof value as string] ?? "an object";
}

/** Line on which a member begins; the first one of several with the same name. */
function lineOf(words: string, name: string): number | null {
  const at = words.indexOf(JSON.stringify(name));
  return at === -1 ? null : words.slice(0, at).split("\n").length;
}

/** Line of a JSON syntax error: browsers report it in one of two ways, or not at all. */
function lineOfFault(words: string, error: unknown): number {
  const message = error instanceof Error ? error.message : "";
  const line = /line (\d+)/.exec(message)?.[1];
  if (line !== undefined) return Number(line);
  const position = /position (\d+)/.exec(message)?.[1];
  return words.slice(0, position === undefined ? words.length : Number(position)).split("\n").length;
}
