/** Test storage, and a small model of the server: it changes its tables, writes a journal and returns snapshots. It derives
 * events from the contract, independently of how the page applies them. */

import { PROTOCOL, type ChatMessage, type EventFrame, type Snapshot, type SnapshotWorkspace, type TimelinePage } from "../wire";
import { ObligationModel, type ObligationEvent, type ObligationVerb } from "./obligationModel";
import type { KeyValueStorage } from "../store/browserStorage";
import { DelegationModel, type DelegationVerb } from "./delegationModel";

const ORG = { id: "org", name: "Acme" };
const USER = { id: "ada", name: "Ada", kind: "person", role: "owner" };

export function workspaceRow(id: string, part: Partial<SnapshotWorkspace> = {}): SnapshotWorkspace {
  return {
    id,
    org_id: ORG.id,
    name: `Agent ${id}`,
    role: null,
    runtime: "generic-mcp",
    parent_id: null,
    delivery_mode: "poll",
    url: null,
    status: "provisioning",
    external: false,
    tier: 1,
    active_tasks: 0,
    max_concurrent_tasks: 1,
    last_error_rate: 0,
    uptime_seconds: 0,
    agent_card: null,
    instruction_template_id: null,
    instruction_compact: false,
    broadcast_enabled: false,
    talk_to_user_enabled: true,
    collapsed: false,
    x: 0,
    y: 0,
    rev: 1,
    created_at: "2026-03-01T10:00:00.000Z",
    updated_at: "2026-03-01T10:00:00.000Z",
    removed_at: null,
    key: null,
    instruction_shape: null,
    reply_seconds: null,
    send_drafts: false,
    limited_until: null,
    limit_reason: null,
    a2a_card_url: null,
    a2a_published: false,
    current_task: null,
    last_heard_at: null,
    ...part,
  };
}

export type Verb =
  | { verb: "create"; id: string; parent: string | null }
  | { verb: "rename"; id: string; name: string }
  | { verb: "move"; id: string; parent: string | null }
  | { verb: "pause" | "hibernate"; id: string }
  | { verb: "limit"; id: string; until: string; reason: string }
  | { verb: "end_limit"; id: string }
  | { verb: "online"; id: string }
  | { verb: "degrade"; id: string }
  | { verb: "silence"; id: string }
  | { verb: "remove"; id: string }
  | { verb: "card"; id: string }
  | { verb: "ask"; id: string; text: string }
  | { verb: "answer"; id: string; text: string }
  | { verb: "hand_over" | "handle"; id: string; count: number }
  | { verb: "give_up" | "send_again"; id: string; at: number }
  | { verb: "log"; id: string }
  | { verb: "prune"; id: string; keep: number }
  | ObligationVerb
  | DelegationVerb;

export class ModelServer {
  readonly journal: EventFrame[] = [];
  private readonly rows = new Map<string, SnapshotWorkspace>();
  private readonly chats = new Map<string, ChatMessage[]>();
  private readonly obligations = new ObligationModel();
  private readonly delegations = new DelegationModel();
  /** Ids are never reused. */
  private readonly used = new Set<string>();
  private readonly epoch: string;
  private seq = 0;

  constructor(epoch = "e1") {
    this.epoch = epoch;
  }

  do(what: Verb): void {
    const row = this.rows.get(what.id);
    if (what.verb === "create") return this.used.has(what.id) ? undefined : this.create(what.id, what.parent);
    if (row === undefined) return;
    switch (what.verb) {
      case "rename": {
        const { current_task, last_heard_at, ...view } = this.change(row, { name: what.name });
        return this.emit("WORKSPACE_UPDATED", row.id, view);
      }
      case "move":
        return this.move(row, what.parent);
      case "pause":
      case "hibernate": {
        const pausing = what.verb === "pause";
        this.change(row, { status: pausing ? "paused" : "hibernated" });
        return this.emit(pausing ? "WORKSPACE_PAUSED" : "WORKSPACE_HIBERNATED", row.id, { previous_status: row.status });
      }
      case "limit":
        this.change(row, { limited_until: what.until, limit_reason: what.reason });
        return this.emit("WORKSPACE_LIMITED", row.id, { limited_until: what.until, limit_reason: what.reason });
      case "end_limit":
        this.change(row, { limited_until: null, limit_reason: null });
        return this.emit("WORKSPACE_LIMIT_ENDED", row.id, { ended_by: "time" });
      case "online":
        this.change(row, { status: "online", delivery_mode: "poll", last_heard_at: this.next() });
        return this.emit("WORKSPACE_ONLINE", row.id, { delivery_mode: "poll" });
      case "degrade":
        this.change(row, { status: "degraded", last_error_rate: 0.75, last_heard_at: this.next() });
        return this.emit("WORKSPACE_DEGRADED", row.id, { error_rate: 0.75 });
      case "silence": {
        const heard = row.last_heard_at ?? row.created_at;
        this.change(row, { status: row.external ? "awaiting_agent" : "offline", last_heard_at: heard });
        return this.emit(row.external ? "WORKSPACE_AWAITING_AGENT" : "WORKSPACE_OFFLINE", row.id, { last_heard_at: heard });
      }
      case "hand_over":
        return this.tick(row.id, "handed_over", ["stored"], what.count);
      case "handle":
        return this.tick(row.id, "acked", ["stored", "handed_over", "dead"], what.count);
      case "give_up":
        return this.single(row.id, "MESSAGE_DEAD", ["stored", "handed_over"], "dead", what.at);
      case "send_again":
        return this.single(row.id, "MESSAGE_REQUEUED", ["dead"], "stored", what.at);
      case "remove":
        return this.remove(row);
      case "card":
        this.change(row, { agent_card: { name: row.name } });
        return this.emit("AGENT_CARD_UPDATED", row.id, { agent_card: { name: row.name } });
      case "ask":
        return this.ask(row.id, what.text);
      case "answer":
        return this.answer(row.id, what.text);
      case "prune":
        return this.prune(row.id, what.keep);
      case "peer_asks":
        return this.obligations.open(row.id, this.lastSeq(row.id) + 1, `p${this.seq}`);
      case "decline":
      case "be_late":
      case "fail":
      case "draft":
      case "send_draft":
      case "drop_draft":
      case "forget":
        return this.emitObligations(row.id, this.obligations.do(what));
      case "delegate":
        return this.rows.has(what.target) && what.target !== what.id ? this.work(what) : undefined;
      case "hand":
      case "give_back":
      case "lose":
      case "progress":
      case "settle":
      case "retry":
        return this.work(what);
      case "log":
        return this.emit("ACTIVITY_LOGGED", row.id, { activity_type: "a2a_receive", status: "ok" }, "activity");
    }
  }

  snapshot(): Snapshot {
    return {
      protocol: PROTOCOL,
      epoch: this.epoch,
      as_of: this.seq,
      server_time: this.now(),
      org: ORG,
      user: USER,
      limits: { text_bytes: 262_144, name_length: 120, reply_seconds: 120, stuck_seconds: 600, grace_seconds: 3600 },
      workspaces: [...this.rows.values()],
      chats: [...this.chats].flatMap(([workspace_id, lines]) => {
        const last = lines.at(-1);
        const unread = Math.min(100, lines.filter((line) => line.role === "agent").length);
        const head = last && { id: last.id, role: last.role, content: oneLineOf(last.content), timestamp: last.timestamp, seq: last.seq };
        return head ? [{ workspace_id, unread, read_seq: 0, last: head }] : [];
      }),
      next_workspace: null,
      unanswered: this.obligations.unanswered(),
      delegations: this.delegations.open(),
      refusals: [],
      approvals: [],
    };
  }

  history(id: string): ChatMessage[] {
    return (this.chats.get(id) ?? []).map((line) => {
      const obligation = line.role === "user" ? this.obligations.obligationOf(id, line.seq) : undefined;
      return obligation === undefined ? line : { ...line, obligation };
    });
  }

  /** Messages and delegations in one order. */
  timeline(id: string): TimelinePage["items"] {
    const said = this.history(id).map((line) => ({ kind: "message" as const, ...line }));
    return [...said, ...this.delegations.timeline(id)].sort((one, other) => one.seq - other.seq);
  }

  private work(what: DelegationVerb): void {
    for (const { event, source, id, rev, transient, payload } of this.delegations.do(what, this.lastSeq(what.id) + 2)) {
      this.seq += 1;
      this.push(event, source, payload(this.now()), { kind: "delegation", id, rev });
      const frame = this.journal.at(-1);
      if (transient && frame !== undefined) Object.assign(frame, { seq: undefined, prev: undefined });
    }
  }

  private lastSeq(id: string): number {
    return Math.max(this.chats.get(id)?.at(-1)?.seq ?? 0, this.delegations.lastSeq(id));
  }

  private create(id: string, parent: string | null): void {
    this.used.add(id);
    const at = this.next();
    const parent_id = parent !== null && this.rows.has(parent) ? parent : null;
    const row = workspaceRow(id, { parent_id, external: id.endsWith("x"), created_at: at, updated_at: at });
    this.rows.set(id, row);
    const { current_task, last_heard_at, ...view } = row;
    this.emit("WORKSPACE_PROVISIONING", id, view);
  }

  private move(row: SnapshotWorkspace, parent: string | null): void {
    for (let above = parent; above !== null; above = this.rows.get(above)?.parent_id ?? null) if (above === row.id) return;
    const parent_id = parent !== null && this.rows.has(parent) ? parent : null;
    const name = `${row.name}!`;
    this.change(row, { parent_id, name });
    this.emit("WORKSPACE_MOVED", row.id, { parent_id, old_parent_id: row.parent_id, name });
  }

  private remove(row: SnapshotWorkspace): void {
    this.rows.delete(row.id);
    this.chats.delete(row.id);
    this.obligations.remove(row.id);
    for (const each of this.rows.values()) if (each.parent_id === row.id) this.do({ verb: "remove", id: each.id });
    this.seq += 1;
    this.push("WORKSPACE_REMOVED", row.id, { removed_at: this.now() }, { kind: "workspace", id: row.id, rev: row.rev + 1 });
  }

  private ask(id: string, words: string): void {
    const line = this.line(id, "user", words);
    const message = { role: "user", messageId: line.client_id, parts: [{ kind: "text", text: words }] };
    const body = { params: { message, metadata: { username: USER.name } } };
    const payload = { activity_type: "a2a_receive", status: "pending", request_body: body, seq: line.seq };
    this.push("USER_MESSAGE", id, payload, { kind: "activity", id: line.id, rev: 0 }, line.client_id ?? undefined);
  }

  private answer(id: string, words: string): void {
    const line = this.line(id, "agent", words);
    const payload = { message: words, workspace_id: id, name: "agent", seq: line.seq };
    this.push("AGENT_MESSAGE", id, payload, { kind: "activity", id: line.id, rev: 0 });
    const asked = this.history(id).filter((each) => each.role === "user").map((each) => each.seq);
    this.emitObligations(id, this.obligations.answer(id, asked));
  }

  /** Advance the delivery of a person's first `count` messages in one of the `from` states. */
  private tick(id: string, tick: string, from: readonly string[], count: number): void {
    const open = this.asked(id, from).slice(0, count);
    const [first, last] = [open[0], open.at(-1)];
    if (first === undefined || last === undefined) return;
    const within = (line: ChatMessage): boolean => line.seq >= first.seq && line.seq <= last.seq;
    this.mark(id, (line) => (within(line) && from.includes(line.delivery ?? "") ? withDelivery(line, tick) : line));
    this.seq += 1;
    const payload = { tick, first_seq: first.seq, last_seq: last.seq, at: this.now() };
    this.push("MESSAGE_TICK", id, payload, { kind: "inbox", id, rev: 0 });
    for (const line of this.asked(id, [tick]).filter(within)) this.obligations.open(id, line.seq, line.id);
  }

  private emitObligations(id: string, events: readonly ObligationEvent[]): void {
    for (const { event, seq, activityId, payload } of events) {
      this.seq += 1;
      const about = { activity_id: activityId, seq, ...payload };
      this.push(event, id, { ...about, at: this.now() }, { kind: "activity", id: activityId, rev: 0 });
    }
  }

  private single(id: string, event: string, from: readonly string[], delivery: string, at: number): void {
    const open = this.asked(id, from);
    const chosen = open[at % Math.max(1, open.length)];
    if (chosen === undefined) return;
    const trouble = delivery === "dead" ? "unreachable" : null;
    this.mark(id, (line) => (line.id === chosen.id ? withDelivery(line, delivery, trouble) : line));
    this.seq += 1;
    const payload = { activity_id: chosen.id, seq: chosen.seq, ...(trouble === null ? {} : { reason: trouble, detail: null, attempts: 12 }) };
    this.push(event, id, payload, { kind: "activity", id: chosen.id, rev: 0 });
  }

  private asked(id: string, delivery: readonly string[]): ChatMessage[] {
    return this.history(id).filter((line) => line.role === "user" && delivery.includes(line.delivery ?? ""));
  }

  private mark(id: string, change: (line: ChatMessage) => ChatMessage): void {
    this.chats.set(id, (this.chats.get(id) ?? []).map(change));
  }

  /** Prune old lines, but never the last one. */
  private prune(id: string, keep: number): void {
    const lines = this.chats.get(id) ?? [];
    const left = lines.slice(-Math.max(1, keep));
    if (left.length === lines.length) return;
    this.chats.set(id, left);
    const kept = left.filter((line) => line.role === "agent").map((line) => line.seq);
    this.seq += 1;
    this.push("CHAT_PRUNED", id, { kept: kept.slice(-100) }, { kind: "chat", id, rev: 0 });
  }

  private line(id: string, role: "user" | "agent", content: string): ChatMessage {
    this.seq += 1;
    const lines = this.chats.get(id) ?? [];
    const seq = this.lastSeq(id) + 2;
    const own = role === "user" ? { user: USER.name, client_id: `c${this.seq}`, delivery: "stored" } : {};
    const line: ChatMessage = { id: `a${this.seq}`, role, content, timestamp: this.now(), seq, ...own };
    this.chats.set(id, [...lines, line]);
    return line;
  }

  private change(row: SnapshotWorkspace, part: Partial<SnapshotWorkspace>): SnapshotWorkspace {
    const next = { ...row, ...part, rev: row.rev + 1, updated_at: this.next() };
    this.rows.set(row.id, next);
    return next;
  }

  private emit(event: string, id: string, payload: unknown, kind = "workspace"): void {
    this.seq += 1;
    this.push(event, id, payload, { kind, id: kind === "workspace" ? id : `a${this.seq}`, rev: this.rows.get(id)?.rev ?? 0 });
  }

  private push(event: string, id: string, payload: unknown, entity: EventFrame["entity"], client_id?: string): void {
    const frame = { event, workspace_id: id, timestamp: this.now(), payload, entity, seq: this.seq, prev: this.journal.findLast((each) => each.seq !== undefined)?.seq ?? 0 };
    this.journal.push(client_id === undefined ? frame : { ...frame, client_id });
  }

  /** Time of the next journal event. */
  private next(): string {
    return timeOf(this.seq + 1);
  }

  private now(): string {
    return timeOf(this.seq);
  }
}

function withDelivery({ trouble: _before, ...line }: ChatMessage, delivery: string, trouble: string | null = null): ChatMessage {
  return { ...line, delivery, ...(trouble === null ? {} : { trouble }) };
}

function oneLineOf(text: string): string {
  const line = text.trim().replace(/\s+/g, " ");
  return line.length > 80 ? `${line.slice(0, 79)}…` : line;
}

function timeOf(seq: number): string {
  return new Date(Date.UTC(2026, 2, 1, 12) + seq * 1_000).toISOString();
}

/** A storage that ends with the test. */
export function memoryStorage(): KeyValueStorage {
  const values = new Map<string, string>();
  return {
    get: (key) => values.get(key) ?? null,
    set: (key, value) => void values.set(key, value),
    remove: (key) => void values.delete(key),
    keys: (prefix) => [...values.keys()].filter((key) => key.startsWith(prefix)),
  };
}
