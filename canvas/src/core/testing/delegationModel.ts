/** Test model of the server's delegations. Derives states and events from the contract, independently of the page. */

import type { DelegationProgress, SnapshotDelegation, TimelineDelegation } from "../wire";

export type DelegationVerb =
  | { verb: "delegate"; id: string; target: string; text: string; within?: number }
  | { verb: "hand" | "give_back" | "lose"; id: string; at: number }
  | { verb: "progress"; id: string; at: number; text: string }
  | { verb: "settle"; id: string; at: number; how: "completed" | "failed" | "cancelled"; text: string }
  | { verb: "retry"; id: string; at: number };

interface Row {
  id: string;
  source: string;
  target: string;
  task: string;
  rev: number;
  status: string;
  phase: string;
  attempt: number;
  seq: number;
  parent: Row | null;
  created: string;
  taken: string | null;
  life: string;
  updated: string;
  settled: string | null;
  result: string | null;
  error: string | null;
  reason: string | null;
  advice: string | null;
  retryOf: string | null;
  progress: DelegationProgress | null;
}

/** A transient event has no sequence number. */
export interface DelegationEvent {
  event: "DELEGATION_SENT" | "DELEGATION_STATUS" | "DELEGATION_COMPLETE" | "DELEGATION_FAILED";
  source: string;
  id: string;
  rev: number;
  transient: boolean;
  /** Built once the time of the event is known: the row takes it as its last change. */
  payload: (now: string) => Record<string, unknown>;
}

const DEADLINE = "2026-03-02T00:00:00.000Z";

export class DelegationModel {
  private readonly rows: Row[] = [];

  /** The last sequence number that a delegation has in a log. */
  lastSeq(id: string): number {
    return Math.max(0, ...this.rows.filter(({ source }) => source === id).map(({ seq }) => seq));
  }

  do(what: DelegationVerb, seq: number): DelegationEvent[] {
    if (what.verb === "delegate") return this.begin(what.id, what.target, what.text, seq, this.parentOf(what.id, what.within), null);
    const ended = what.verb === "retry";
    const own = this.rows.filter((row) => row.source === what.id && (row.settled !== null) === ended);
    const row = own[what.at % Math.max(1, own.length)];
    if (row === undefined) return [];
    switch (what.verb) {
      case "retry":
        return row.status === "completed" ? [] : this.begin(row.source, row.target, row.task, seq, row.parent, row.id);
      case "hand":
        row.attempt += 1;
        return [this.status(row, row.status === "unknown_after_send" ? row.status : "queued", "claimed", true)];
      case "give_back":
        return row.phase === "claimed" && row.status === "queued" ? [this.status(row, "queued", "waiting", false)] : [];
      case "lose":
        return row.status === "unknown_after_send" ? [] : [this.status(row, "unknown_after_send", "waiting", false)];
      case "progress":
        return [this.say(row, what.text)];
      case "settle":
        return [this.end(row, what.how, what.text)];
    }
  }

  /** As in a workspace's timeline. */
  timeline(id: string): TimelineDelegation[] {
    return this.rows.filter(({ source }) => source === id).map((row) => ({ kind: "delegation", ...itemOf(row) }));
  }

  /** Open ones, as in a snapshot. */
  open(): SnapshotDelegation[] {
    return this.rows.filter(({ settled }) => settled === null).map((row) => {
      const { delegation_id, source_id, target_id, status, phase, attempt, seq, parent_id, root_id, depth, created_at, taken_at, error, retry_of, progress } = itemOf(row);
      const about = { delegation_id, source_id, target_id, status, phase, attempt, seq, parent_id, root_id, depth, created_at, taken_at, error, retry_of, progress };
      return { ...about, rev: row.rev, task_preview: row.task, life_at: row.life, deadline_at: DEADLINE };
    });
  }

  private parentOf(source: string, within: number | undefined): Row | null {
    const given = this.rows.filter((row) => row.target === source && row.settled === null);
    return within === undefined ? null : (given[within % Math.max(1, given.length)] ?? null);
  }

  private begin(source: string, target: string, task: string, seq: number, parent: Row | null, retryOf: string | null): DelegationEvent[] {
    const row: Row = {
      id: `d${this.rows.length + 1}`,
      source,
      target,
      task: task.slice(0, 20),
      rev: 1,
      status: "pending",
      phase: "waiting",
      attempt: 0,
      seq,
      parent,
      created: "",
      taken: null,
      life: "",
      updated: "",
      settled: null,
      result: null,
      error: null,
      reason: null,
      advice: null,
      retryOf,
      progress: null,
    };
    this.rows.push(row);
    const begun = this.tell(row, "DELEGATION_SENT", (now) => {
      Object.assign(row, { created: now, life: now, updated: now });
      const more = { ...(parent === null ? {} : { parent_id: parent.id }), ...(retryOf === null ? {} : { retry_of: retryOf }) };
      return { task_preview: row.task, seq, root_id: rootOf(row).id, depth: depthOf(row), deadline_at: DEADLINE, ...more };
    });
    return [begun, this.status(row, "dispatched", "waiting", false), this.status(row, "queued", "waiting", false)];
  }

  private status(row: Row, status: string, phase: string, takes: boolean): DelegationEvent {
    row.rev += 1;
    const { attempt } = row;
    return this.tell(row, "DELEGATION_STATUS", (now) => {
      Object.assign(row, { status, phase, life: now, updated: now, taken: row.taken ?? (takes ? now : null) });
      return { status, phase, ...(attempt === 0 ? {} : { attempt }), ...(row.taken === null ? {} : { taken_at: row.taken }) };
    });
  }

  private say(row: Row, words: string): DelegationEvent {
    const { status, phase } = row;
    const said = { current_step: words, tools_used: ["grep"], eta_hint: "soon", percent: words.length };
    const event = this.tell(row, "DELEGATION_STATUS", (now) => {
      Object.assign(row, { life: now, progress: { at: now, ...said } });
      return { status, phase, ...said };
    });
    return { ...event, transient: true };
  }

  private end(row: Row, how: string, words: string): DelegationEvent {
    row.rev += 1;
    const settled = (now: string): void => void Object.assign(row, { status: how, phase: "ended", life: now, updated: now, settled: now });
    if (how === "completed") {
      return this.tell(row, "DELEGATION_COMPLETE", (now) => {
        settled(now);
        Object.assign(row, { result: words, error: null });
        return { response_preview: cut(words), via: "reply", result_id: `r${row.id}` };
      });
    }
    const why = { error: words, reason: how === "cancelled" ? "cancelled" : "agent_error", advice: "Read it, change the task, retry." };
    return this.tell(row, "DELEGATION_FAILED", (now) => {
      settled(now);
      Object.assign(row, why);
      return { ...why, status: how };
    });
  }

  private tell(row: Row, event: DelegationEvent["event"], more: (now: string) => Record<string, unknown>): DelegationEvent {
    const payload = (now: string): Record<string, unknown> => ({ delegation_id: row.id, target_id: row.target, ...more(now) });
    return { event, source: row.source, id: row.id, rev: row.rev, transient: false, payload };
  }
}

/** At most 200 bytes, character by character: deliberately not the page's algorithm. */
function cut(words: string): string {
  let kept = "";
  for (const letter of words) {
    if (new TextEncoder().encode(kept + letter).length > 200) break;
    kept += letter;
  }
  return kept;
}

function rootOf(row: Row): Row {
  return row.parent === null ? row : rootOf(row.parent);
}

function depthOf(row: Row): number {
  return row.parent === null ? 1 : depthOf(row.parent) + 1;
}

function itemOf(row: Row): Omit<TimelineDelegation, "kind"> {
  return {
    checks: 0,
    verified: false,
    delegation_id: row.id,
    source_id: row.source,
    source_name: `Agent ${row.source}`,
    target_id: row.target,
    target_name: `Agent ${row.target}`,
    summary: row.task,
    status: row.status,
    phase: row.phase,
    attempt: row.attempt,
    reason: row.reason,
    error: row.error,
    error_detail: row.error,
    advice: row.advice,
    response_preview: row.result === null ? null : row.result.slice(0, 75),
    result: row.result,
    via: row.result === null ? null : "reply",
    created_at: row.created,
    updated_at: row.updated,
    taken_at: row.taken,
    last_heartbeat: row.life,
    settled_at: row.settled,
    deadline: DEADLINE,
    stuck: false,
    parent_id: row.parent?.id ?? null,
    root_id: rootOf(row).id,
    depth: depthOf(row),
    target_limited_until: null,
    retry_of: row.retryOf,
    recorded: false,
    progress: row.progress,
    queue_position: null,
    seq: row.seq,
  };
}
