// What the page makes of snapshots and events: `node proofs/snapshot/page.mjs CASES`.
//
// Each line of CASES is {old, events, new, moving}: the page's own source folds the events into the old snapshot, and what
// the new one tells must be what it then knows, but for the members of workspaces in `moving`, which only heartbeats tell.
// Says as JSON how many cases there were, how many differ, and where some of them do.

import { createReadStream } from "node:fs";
import { registerHooks } from "node:module";
import { argv, stdout } from "node:process";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";

// The sources name each other without an ending, as their bundler wants it.
registerHooks({
  resolve: (name, context, next) => next(name.startsWith(".") && !/\.[a-z]+$/.test(name) ? `${name}.ts` : name, context),
});
const { applyAll } = await import("../../canvas/src/core/state/apply.ts");
const { applySnapshot } = await import("../../canvas/src/core/state/snapshot.ts");
const { isOpen } = await import("../../canvas/src/core/state/delegations.ts");

const MOST_NOTES = 3;
// Signs of life are told beside the journal; what was read of a page, and by which event it knows it, is the page's own.
const BESIDE = new Set(["progress", "lifeAt", "updatedAt", "complete", "lastEventSeq", "reported_at"]);

function without(item, names) {
  return Object.fromEntries(Object.entries(item).filter(([name]) => !names.has(name)));
}

function told(state, moving, ids) {
  const left = new Set([...BESIDE, ...moving]);
  return {
    last: state.last,
    orgNodes: state.orgNodes,
    unanswered: state.unanswered,
    workspaces: new Map([...state.workspaces].map(([id, each]) => [id, without(each, left)])),
    // What a person has read is told by no event.
    chats: new Map([...state.chats].map(([id, { last }]) => [id, last]).filter(([, last]) => last !== null)),
    delegations: new Map([...state.delegations].filter(([, each]) => isOpen(each)).map(([id, each]) => [id, without(each, BESIDE)])),
    approvals: new Map([...ids].map((id) => [id, state.approvals.get(id)])),
  };
}

/** Where two values differ first, in words. */
function unlike(one, other, at = "") {
  const [left, right] = [one, other].map((value) => (value instanceof Map ? Object.fromEntries(value) : value));
  if (left === null || right === null || typeof left !== "object" || typeof right !== "object") {
    return `${at}: ${JSON.stringify(left)} is not ${JSON.stringify(right)}`;
  }
  const name = [...new Set([...Object.keys(left), ...Object.keys(right)])].find((each) => !isDeepStrictEqual(left[each], right[each]));
  return unlike(left[name], right[name], `${at}.${name}`);
}

let cases = 0;
const notes = [];
const differing = new Map();
for await (const line of createInterface({ input: createReadStream(argv[2]) })) {
  const { old, events, new: next, moving, about } = JSON.parse(line);
  cases += 1;
  const fresh = applySnapshot(null, next);
  const folded = applyAll(applySnapshot(null, old), events);
  const [known, wanted] = [told(folded, moving, fresh.approvals.keys()), told(fresh, moving, fresh.approvals.keys())];
  for (const name of Object.keys(wanted)) {
    if (isDeepStrictEqual(known[name], wanted[name])) continue;
    differing.set(name, (differing.get(name) ?? 0) + 1);
    if (notes.length < MOST_NOTES) notes.push(`${about}: ${name}: ${unlike(known[name], wanted[name])}`);
  }
}
stdout.write(JSON.stringify({ cases, differing: [...differing.values()].reduce((one, other) => one + other, 0), notes }));
