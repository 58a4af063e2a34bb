/** Example requests of an agent: members of the skills in its card (A2A, `AgentSkill.examples`). */

import { list } from "../../core/state/json";
import { showInvisible } from "../../core/text/invisible";

const MOST = 3;

/** A button shows all of its text; a longer example is not offered. */
const MAX_LENGTH = 120;

/** What a button sends is exactly what it shows, so texts with invisible characters or several lines are left out. */
export function examplesOf(card: unknown): readonly string[] {
  const all = list(card, "skills").flatMap((skill) => list(skill, "examples"));
  const shown = all.filter((each): each is string => typeof each === "string" && isShownWhole(each));
  return [...new Set(shown.map((each) => each.trim()))].slice(0, MOST);
}

function isShownWhole(text: string): boolean {
  return text.trim() !== "" && text.length <= MAX_LENGTH && !/[\n\t\r]/.test(text) && showInvisible(text) === text;
}
