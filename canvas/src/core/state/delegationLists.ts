/** Lists computed from all delegations, once per table. */

import { isOpen, isStuck, keepRecent, mergeDelegation, type Delegation, type Heartbeat } from "./delegations";
import type { RefusedDelegation, State } from "./model";
import { memoized } from "../store/memoized";

export type Delegations = ReadonlyMap<string, Delegation>;

const oldestFirst = memoized((all: Delegations): readonly Delegation[] => [...all.values()].sort(byBegin));

/** The state with delegations that were read. A newer event that arrived meanwhile wins. */
export function withRead(state: State, read: readonly Delegation[]): State {
  if (read.length === 0) return state;
  const delegations = new Map(state.delegations);
  for (const each of read) keepRecent(delegations, mergeDelegation(delegations.get(each.id), each, 0));
  return { ...state, delegations };
}

/** The state with the full answer of a delegation. */
export function withReply(state: State, id: string, reply: string): State {
  const known = state.delegations.get(id);
  if (known === undefined || known.status !== "completed") return state;
  return { ...state, delegations: new Map(state.delegations).set(id, { ...known, reply, replyComplete: true }) };
}

/** How many open delegations wait before each one in the queue of the same agent. */
export const queues = memoized((all: Delegations): ReadonlyMap<string, number> => {
  const places = new Map<string, number>();
  const waiting = new Map<string, number>();
  for (const each of oldestFirst(all)) {
    if (!isOpen(each) || each.status === "unknown_after_send") continue;
    const before = waiting.get(each.targetId) ?? 0;
    if (each.phase === "waiting") places.set(each.id, before);
    waiting.set(each.targetId, before + 1);
  }
  return places;
});

function byBegin(one: Delegation, other: Delegation): number {
  if (one.createdAt !== other.createdAt) return one.createdAt < other.createdAt ? -1 : 1;
  return one.id < other.id ? -1 : 1;
}

/** By delegation id: its retry. */
export const retries = memoized((all: Delegations): ReadonlyMap<string, string> => {
  return new Map([...all.values()].flatMap(({ id, retryOf }) => (retryOf === null ? [] : [[retryOf, id] as const])));
});

/** By workspace id: delegations from and to it, open ones first, then the newest. */
export const delegationsByWorkspace = memoized((all: Delegations): ReadonlyMap<string, readonly Delegation[]> => {
  const found = new Map<string, Delegation[]>();
  const add = (id: string, each: Delegation): void => void (found.get(id)?.push(each) ?? found.set(id, [each]));
  for (const each of oldestFirst(all).toReversed()) {
    add(each.sourceId, each);
    if (each.targetId !== each.sourceId) add(each.targetId, each);
  }
  for (const list of found.values()) list.sort((one, other) => Number(isOpen(other)) - Number(isOpen(one)));
  return found;
});

/** Open delegations, newest first. */
export const openDelegations = memoized((all: Delegations): readonly Delegation[] => oldestFirst(all).filter(isOpen).reverse());

/** Open delegations whose events may have been missed. */
export function missedDelegations(all: Delegations): readonly Delegation[] {
  return [...all.values()].filter((each) => !each.complete && isOpen(each));
}

/** The state without a missed delegation that the server no longer keeps. */
export function withoutMissed(state: State, id: string): State {
  const known = state.delegations.get(id);
  if (known === undefined || known.complete) return state;
  const delegations = new Map(state.delegations);
  delegations.delete(id);
  return { ...state, delegations };
}

const DAY_MS = 24 * 3_600_000;

export interface DelegationProblems {
  failed: readonly Delegation[];
  stuck: readonly Delegation[];
  unknown: readonly Delegation[];
  refused: readonly RefusedDelegation[];
}

export const NO_DELEGATION_PROBLEMS: DelegationProblems = { failed: [], stuck: [], unknown: [], refused: [] };

interface ProblemsInput {
  delegations: Delegations;
  refused: readonly RefusedDelegation[];
  stuckSeconds: number;
  workspaces: ReadonlyMap<string, Heartbeat>;
}

/** Delegations that need a person, oldest first: failed within a day and neither dismissed nor retried, stuck, without a
 * delivery response, or rejected by a guard. */
export function delegationProblems({ delegations, refused, stuckSeconds, workspaces }: ProblemsInput, now: number, seen: ReadonlySet<string>): DelegationProblems {
  const again = retries(delegations);
  const young = (time: string | null): boolean => time !== null && now - Date.parse(time) < DAY_MS;
  const found: { failed: Delegation[]; stuck: Delegation[]; unknown: Delegation[] } = { failed: [], stuck: [], unknown: [] };
  for (const each of oldestFirst(delegations)) {
    if (each.status === "failed" && young(each.settledAt) && !seen.has(each.id) && !again.has(each.id)) found.failed.push(each);
    else if (isOpen(each) && isStuck(each, workspaces.get(each.targetId), now, stuckSeconds)) found.stuck.push(each);
    else if (each.status === "unknown_after_send") found.unknown.push(each);
  }
  return { ...found, refused: refused.filter((each) => young(each.at) && !seen.has(refusedKey(each))) };
}

export function refusedKey({ seq }: RefusedDelegation): string {
  return `refused ${seq}`;
}

export function countDelegationProblems({ failed, stuck, unknown, refused }: DelegationProblems): number {
  return failed.length + stuck.length + unknown.length + refused.length;
}
