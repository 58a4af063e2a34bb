/** Test model of the server's obligations. Derives states and events from the contract, independently of the page. */

import type { ChatObligation, SnapshotUnanswered } from "../wire";

export type ObligationVerb =
  | { verb: "decline" | "be_late" | "fail" | "send_draft" | "drop_draft" | "forget"; id: string; at: number }
  | { verb: "draft"; id: string; at: number; text: string }
  | { verb: "peer_asks"; id: string };

interface Obligation {
  activityId: string;
  overdue: boolean;
  draft: string | null;
  closed: "answered" | "declined" | null;
  reason: string | null;
}

/** An event about one message. */
export interface ObligationEvent {
  event: "MESSAGE_TICK" | "MESSAGE_OVERDUE" | "MESSAGE_DRAFTED";
  seq: number;
  activityId: string;
  payload: Record<string, unknown>;
}

export class ObligationModel {
  private readonly all = new Map<string, Map<number, Obligation>>();

  /** A message was delivered for the first time. */
  open(id: string, seq: number, activityId: string): void {
    const own = this.all.get(id) ?? new Map<number, Obligation>();
    this.all.set(id, own);
    if (!own.has(seq)) own.set(seq, { activityId, overdue: false, draft: null, closed: null, reason: null });
  }

  remove(id: string): void {
    this.all.delete(id);
  }

  /** The agent writes to its user: the newest obligation to a person is fulfilled. */
  answer(id: string, asked: readonly number[]): ObligationEvent[] {
    const newest = this.seqs(id, (obligation) => obligation.closed === null).filter((seq) => asked.includes(seq)).at(-1);
    return newest === undefined ? [] : this.close(id, newest, "answered", null);
  }

  do(what: Exclude<ObligationVerb, { verb: "peer_asks" }>): ObligationEvent[] {
    const fits: Record<typeof what.verb, (duty: Obligation) => boolean> = {
      decline: (duty) => duty.closed === null,
      be_late: (duty) => duty.closed === null && !duty.overdue,
      fail: (duty) => duty.closed === null,
      draft: (duty) => duty.closed === null,
      send_draft: (duty) => duty.closed === null && duty.draft !== null,
      drop_draft: (duty) => duty.closed === null && duty.draft !== null,
      forget: (duty) => duty.closed === null && (duty.overdue || duty.draft !== null) && duty.activityId.startsWith("p"),
    };
    const open = this.seqs(what.id, fits[what.verb]);
    const seq = open[what.at % Math.max(1, open.length)];
    const duty = seq === undefined ? undefined : this.all.get(what.id)?.get(seq);
    if (seq === undefined || duty === undefined) return [];
    const drafted = (state: string): ObligationEvent => ({ event: "MESSAGE_DRAFTED", seq, activityId: duty.activityId, payload: { state } });
    switch (what.verb) {
      case "decline":
        return this.close(what.id, seq, "declined", "not mine");
      case "be_late":
        duty.overdue = true;
        return [tick(duty, seq, "overdue"), { event: "MESSAGE_OVERDUE", seq, activityId: duty.activityId, payload: {} }];
      case "fail":
        duty.reason = "exit code 3";
        return [tick(duty, seq, "failed", duty.reason)];
      case "draft":
        duty.draft = what.text;
        return [tick(duty, seq, "answered_outside"), drafted("kept")];
      case "send_draft":
        return [drafted("sent"), ...this.close(what.id, seq, "answered", null)];
      case "forget":
        this.all.get(what.id)?.delete(seq);
        return [tick(duty, seq, "forgotten")];
      case "drop_draft":
        duty.draft = null;
        return [drafted("discarded")];
    }
  }

  /** As in a chat line. */
  obligationOf(id: string, seq: number): ChatObligation | undefined {
    const duty = this.all.get(id)?.get(seq);
    if (duty === undefined) return undefined;
    const state = duty.closed ?? (duty.overdue ? "overdue" : duty.draft !== null ? "answered_outside" : "open");
    const draft = duty.draft === null ? {} : { draft: duty.draft };
    const reason = duty.reason === null ? {} : { reason: duty.reason };
    return { state, ...draft, ...reason, template: "generic-mcp-default@1", form: "full", tokens: 180 };
  }

  unanswered(): SnapshotUnanswered[] {
    return [...this.all.keys()].flatMap((workspace_id) => {
      const overdue = this.seqs(workspace_id, (duty) => duty.closed === null && duty.overdue);
      const outside = this.seqs(workspace_id, (duty) => duty.closed === null && duty.draft !== null);
      return overdue.length + outside.length === 0 ? [] : [{ workspace_id, overdue, outside }];
    });
  }

  private close(id: string, seq: number, how: "answered" | "declined", reason: string | null): ObligationEvent[] {
    const duty = this.all.get(id)?.get(seq);
    if (duty === undefined) return [];
    Object.assign(duty, { closed: how, reason, draft: null });
    return [tick(duty, seq, how, reason)];
  }

  private seqs(id: string, fits: (duty: Obligation) => boolean): number[] {
    return [...(this.all.get(id) ?? [])].filter(([, duty]) => fits(duty)).map(([seq]) => seq).sort((one, other) => one - other);
  }
}

function tick({ activityId }: Obligation, seq: number, name: string, reason: string | null = null): ObligationEvent {
  const payload = { tick: name, first_seq: seq, last_seq: seq, ...(reason === null ? {} : { reason }) };
  return { event: "MESSAGE_TICK", seq, activityId, payload };
}
