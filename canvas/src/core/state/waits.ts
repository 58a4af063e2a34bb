/** What agents wait for: people, other agents, or the time to pick up their tasks. */

import { memoized } from "../store/memoized";
import { waitsForPerson, type Approvals } from "./approvals";
import { isOpen } from "./delegations";
import type { State } from "./model";

export interface Waits {
  /** A person has to decide an approval of it, or to answer a question. */
  forPerson: boolean;
  /** Agents that have to decide approvals of it. */
  approvers: readonly string[];
  /** Agents with tasks that it delegated. */
  peers: readonly string[];
  /** How many tasks that it delegated are open. */
  delegated: number;
  /** How many tasks it has not picked up. */
  queued: number;
}

export type WaitsByAgent = ReadonlyMap<string, Waits>;

type Draft = { -readonly [Key in keyof Waits]: Waits[Key] extends readonly string[] ? string[] : Waits[Key] };

let last: WaitsByAgent = new Map();

/** The waits of each agent that has any. Most events about delegations change no wait: the map is then the same one. */
const computed = memoized((approvals: Approvals) => memoized((delegations: State["delegations"]) => memoized((asking: State["asking"]) => compute(approvals, delegations, asking))));

export function waitsByAgent({ approvals, delegations, asking }: Pick<State, "approvals" | "delegations" | "asking">): WaitsByAgent {
  return computed(approvals)(delegations)(asking);
}

function compute(approvals: Approvals, delegations: State["delegations"], asking: State["asking"]): WaitsByAgent {
  const found = new Map<string, Draft>();
  const of = (id: string): Draft => {
    const known = found.get(id) ?? { forPerson: false, approvers: [], peers: [], delegated: 0, queued: 0 };
    found.set(id, known);
    return known;
  };
  for (const id of asking) of(id).forPerson = true;
  // An agent that has to answer a question waits for no decision.
  for (const each of approvals.values()) if (each.status === "pending") addApproval(of(each.workspaceId), each);
  for (const each of delegations.values()) {
    if (!isOpen(each)) continue;
    if (each.phase === "waiting") of(each.targetId).queued += 1;
    if (each.sourceId === each.targetId) continue;
    const waits = of(each.sourceId);
    waits.delegated += 1;
    if (!waits.peers.includes(each.targetId)) waits.peers.push(each.targetId);
  }
  if (!isSame(last, found)) last = found;
  return last;
}

function addApproval(waits: Draft, approval: Parameters<typeof waitsForPerson>[0] & { holder: { id: string | null } }): void {
  const id = approval.holder.id ?? "";
  if (waitsForPerson(approval)) waits.forPerson = true;
  else if (!waits.approvers.includes(id)) waits.approvers.push(id);
}

function isSame(one: WaitsByAgent, other: WaitsByAgent): boolean {
  if (one.size !== other.size) return false;
  for (const [id, waits] of one) if (JSON.stringify(waits) !== JSON.stringify(other.get(id))) return false;
  return true;
}
