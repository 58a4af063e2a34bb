/** The items of a conversation of two agents: days, messages, delegations, approvals. Pure. */

import { dayHeading, dayKey } from "../../core/text/time";
import type { Approval, Approvals } from "../../core/state/approvals";
import type { Delegation } from "../../core/state/delegations";
import type { PeerLine } from "../../core/state/peerMessages";

export type PeerItem =
  | { kind: "day"; key: string; heading: string }
  /** `joined`: follows a message of the same agent within a short time. */
  | { kind: "message"; key: string; line: PeerLine; joined: boolean }
  | { kind: "delegation"; key: string; delegation: Delegation }
  | { kind: "approval"; key: string; approval: Approval; at: string };

/** Messages of one agent within this time are grouped. */
const JOIN_MS = 5 * 60_000;

interface Shown {
  lines: readonly PeerLine[];
  delegations: ReadonlyMap<string, Delegation>;
  approvals: Approvals;
  now: number;
  zone?: string;
}

export function peerItems({ lines, delegations, approvals, now, zone }: Shown): PeerItem[] {
  const items: PeerItem[] = [];
  let before: PeerLine | null = null;
  let day = "";
  for (const line of lines) {
    const ownDay = dayKey(Date.parse(line.at), zone);
    if (ownDay !== day) items.push({ kind: "day", key: `day ${ownDay}`, heading: dayHeading(line.at, now, zone) });
    const approval = line.kind === "approval_request" ? approvals.get(line.approvalId ?? "") : undefined;
    if (line.delegation !== null) items.push({ kind: "delegation", key: line.id, delegation: delegations.get(line.id) ?? line.delegation });
    else if (approval !== undefined) items.push({ kind: "approval", key: line.id, approval, at: line.at });
    else items.push({ kind: "message", key: line.id, line, joined: ownDay === day && before !== null && joins(before, line) });
    before = items.at(-1)?.kind === "message" ? line : null;
    day = ownDay;
  }
  return items;
}

function joins(before: PeerLine, line: PeerLine): boolean {
  return before.sourceId === line.sourceId && before.kind === line.kind && Date.parse(line.at) - Date.parse(before.at) < JOIN_MS;
}

const KINDS: Readonly<Record<string, string>> = {
  approval_decision: "Approval decision",
  approval_request: "Approval request",
  broadcast: "Broadcast",
  delegation: "Delegation",
  system: "System notice",
};

/** What a message is; null for a plain one. */
export function kindText(kind: string): string | null {
  return KINDS[kind] ?? null;
}
