/** Decisions on approvals: held for five seconds, in which they can be undone, then sent; a page that closes sends them at
 * once. The server accepts a repeated decision as the same one. Also reads the lists of approvals and measures the difference between the server's clock and this machine's. */

import { approvalOf, isPending, withApprovals, type DecisionInput, type Approval, type Verdict } from "../state/approvals";
import type { State } from "../state/model";
import { members } from "../state/json";
import { createStore, type Store } from "../store/store";
import type { Undo } from "./undo";
import { NoResponseError, ApiError } from "../api/errors";
import { decisionBody, errorText, type Api } from "../api/api";
import { confirmBeforeUnload } from "../store/unsaved";

export const UNDO_MS = 5_000;
/** Requests in parallel. */
const MAX_PARALLEL = 4;
/** Requests that outlive a page have at most 64 KiB together in all browsers, and Chromium allows 20 of them. */
const CLOSING_BYTES = 60_000;
const CLOSING_REQUESTS = 16;

/** A decision of this page that the server has not accepted. */
export interface PendingDecision {
  /** As it was shown when the person decided. */
  approval: Approval;
  answer: DecisionInput;
  /** When it is sent, in ms of this machine's clock. */
  until: number;
  phase: "held" | "sending" | "unsent" | "refused";
  /** Why it was not sent or not accepted. */
  problem: string | null;
}

interface DecisionOptions {
  api: Pick<Api, "decide" | "pendingApprovals" | "approvalPage" | "approvalsOf" | "approval">;
  orgId: string;
  data: Store<State | null>;
  undo: Store<Undo | null>;
}

/** How far back the closed approvals were read. */
export interface PastApprovals {
  /** The last one that was read; null: none yet. */
  oldest: string | null;
  reachedEnd: boolean;
  reading: boolean;
  problem: string | null;
}

export class UndoableDecisions {
  readonly pending: Store<ReadonlyMap<string, PendingDecision>> = createStore<ReadonlyMap<string, PendingDecision>>(new Map());
  /** `readAt`: time of the last successful read. `problem`: error of the last read. The previous list stays. */
  readonly status: Store<{ readAt: number | null; problem: string | null }> = createStore<{ readAt: number | null; problem: string | null }>({ readAt: null, problem: null });
  readonly past: Store<PastApprovals> = createStore<PastApprovals>({ oldest: null, reachedEnd: false, reading: false, problem: null });
  /** The server's clock minus this machine's, in ms. */
  readonly clockSkew: Store<number> = createStore(0);
  /** Result of the last decisions, for screen readers. */
  readonly outcome: Store<{ words: string } | null> = createStore<{ words: string } | null>(null);
  private readonly options: DecisionOptions;
  /** The last decisions, while they can be undone together. */
  private undoing: { undo: Undo; ids: readonly string[] } | null = null;
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();
  private isReachable = true;
  /** Whether a page that closes now loses a decision: the browser then asks the person. */
  private readonly wouldLose: Store<boolean> = createStore(false);

  constructor(parts: DecisionOptions) {
    this.options = parts;
    confirmBeforeUnload(this.wouldLose, (loses) => loses);
    this.pending.subscribe(() => this.checkLoss());
  }

  /** The session is over, so held decisions cannot be sent any more. */
  stop(): void {
    this.pending.set(new Map());
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
  }

  setTime(serverTime: string, now: number): void {
    const time = Date.parse(serverTime);
    if (!Number.isNaN(time)) this.clockSkew.set(time - now);
  }

  /** Whether the server can be reached, as far as the page knows. */
  setReachable(isReachable: boolean): void {
    this.isReachable = isReachable;
    this.checkLoss();
  }

  /** Send the held decisions at once, since the page closes or its session ends. */
  readonly sendHeld = async (): Promise<void> => {
    const held = [...this.pending.get().values()].filter(({ phase }) => phase === "held");
    if (held.length === 0) return;
    const { undoing } = this;
    this.options.undo.update((last) => (last === undoing?.undo ? null : last));
    const closing = outlivingPage(held);
    // No request waits for another one: a page that closes runs no further code.
    const problems = await Promise.all(held.map((each) => this.send(each, closing.has(each))));
    this.outcome.set({ words: resultText(held, problems) });
  };

  private checkLoss(): void {
    const open = [...this.pending.get().values()].filter(({ phase }) => phase !== "refused");
    this.wouldLose.set(open.length > 0 && (!this.isReachable || open.some(({ phase }) => phase === "unsent") || outlivingPage(open).size < open.length));
  }

  async readWaiting(now: () => number): Promise<void> {
    const { api, orgId } = this.options;
    try {
      this.merge(await api.pendingApprovals(orgId));
      this.status.set({ readAt: now(), problem: null });
    } catch (error) {
      this.status.update((before) => ({ ...before, problem: errorText(error) }));
    }
  }

  /** Read the newest closed approvals, or those before the ones that were read. */
  async readPast(older: boolean): Promise<void> {
    const { past } = this;
    if (past.get().reading) return;
    past.update((before) => ({ ...before, reading: true }));
    try {
      const { oldest, reachedEnd } = past.get();
      const page = await this.options.api.approvalPage(this.options.orgId, older ? oldest : null);
      const last = page.approvals.at(-1)?.id ?? null;
      // The newest page again: if it reaches what was read before, everything between is known and the old position stays
      // valid.
      const meets = !older && oldest !== null && (last === null || this.options.data.get()?.approvals.has(last) === true);
      this.merge(page.approvals);
      past.set({ oldest: meets ? oldest : (last ?? oldest), reachedEnd: meets ? reachedEnd : page.reachedEnd, reading: false, problem: null });
    } catch (error) {
      past.update((before) => ({ ...before, reading: false, problem: errorText(error) }));
    }
  }

  async readOf(workspaceId: string): Promise<void> {
    this.merge(await this.options.api.approvalsOf(workspaceId));
  }

  async readOne(workspaceId: string, id: string): Promise<void> {
    this.merge([await this.options.api.approval(workspaceId, id)]);
  }

  merge(updates: readonly Approval[]): void {
    this.options.data.update((state) => {
      if (state === null) return state;
      const approvals = withApprovals(state.approvals, updates);
      return approvals === state.approvals ? state : { ...state, approvals };
    });
  }

  /** Hold the same decision for each of these approvals, and send it when its time is over. */
  decide(approvals: readonly Approval[], answer: DecisionInput, words: string, now: number): void {
    const until = now + UNDO_MS;
    const ids = approvals.map(({ id }) => id);
    const fresh = approvals.map((approval): PendingDecision => ({ approval, answer, until, phase: "held", problem: null }));
    this.pending.update((all) => new Map([...all, ...fresh.map((each) => [each.approval.id, each] as const)]));
    const undo: Undo = { text: words, until, run: () => Promise.resolve(this.cancel(ids)) };
    this.options.undo.set(undo);
    this.undoing = { undo, ids };
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      this.options.undo.update((last) => (last === undo ? null : last));
      void this.sendAll(fresh);
    }, UNDO_MS);
    this.timers.add(timer);
  }

  cancel(ids: readonly string[]): void {
    this.pending.update((all) => {
      const next = new Map(all);
      for (const id of ids) if (next.get(id)?.phase !== "sending") next.delete(id);
      return next;
    });
    const { undoing } = this;
    if (undoing?.ids.some((id) => this.pending.get().get(id)?.phase === "held")) return;
    this.options.undo.update((last) => (last === undoing?.undo ? null : last));
  }

  /** Send decisions again that the server may not have received. Repeating one has no effect, also for an escalation, since
   * it names the holder. */
  async sendAgain(ids: readonly string[]): Promise<void> {
    const unsent = ids.map((id) => this.pending.get().get(id)).filter((each) => each?.phase === "unsent");
    await this.sendEach(unsent.filter((each) => each !== undefined));
  }

  private async sendAll(all: readonly PendingDecision[]): Promise<void> {
    const kept = all.filter((each) => this.pending.get().get(each.approval.id) === each);
    await this.sendEach(kept);
  }

  private async sendEach(all: readonly PendingDecision[]): Promise<void> {
    const problems: (string | null)[] = [];
    for (let from = 0; from < all.length; from += MAX_PARALLEL) problems.push(...(await Promise.all(all.slice(from, from + MAX_PARALLEL).map((held) => this.send(held, bytesOf(held) <= CLOSING_BYTES / MAX_PARALLEL)))));
    if (problems.length > 0) this.outcome.set({ words: resultText(all, problems) });
  }

  /** Null: accepted; otherwise why not. */
  private async send(held: PendingDecision, keepalive: boolean): Promise<string | null> {
    const { approval, answer } = held;
    const lost = obsoleteText(held, this.options.data.get()?.approvals.get(approval.id));
    if (lost !== null) return this.settle({ ...held, phase: "refused", problem: lost });
    this.settle({ ...held, phase: "sending", problem: null });
    try {
      this.merge([await this.options.api.decide(approval, answer, keepalive)]);
      this.removeSent(approval.id);
      return null;
    } catch (error) {
      const current = error instanceof ApiError ? approvalOf(members(error.body)?.["approval"]) : null;
      if (current !== null) this.merge([current]);
      const again = error instanceof NoResponseError || (error instanceof ApiError && error.status >= 500);
      return this.settle({ ...held, phase: again ? "unsent" : "refused", problem: errorText(error) });
    }
  }

  private settle(held: PendingDecision): string | null {
    this.pending.update((all) => new Map(all).set(held.approval.id, held));
    return held.problem;
  }

  private removeSent(id: string): void {
    this.pending.update((all) => new Map([...all].filter(([each]) => each !== id)));
  }
}

/** Whether these decisions are sent even if the page closes now. */
export function outlivePage(approvals: readonly Approval[], answer: DecisionInput): boolean {
  return outlivingPage(approvals.map((approval) => ({ approval, answer }))).size === approvals.length;
}

/** The decisions whose requests may outlive the page together, the first ones first. */
function outlivingPage<Held extends Pick<PendingDecision, "approval" | "answer">>(all: readonly Held[]): ReadonlySet<Held> {
  const found = new Set<Held>();
  let bytes = 0;
  for (const held of all) {
    const size = bytesOf(held);
    if (found.size === CLOSING_REQUESTS || bytes + size > CLOSING_BYTES) continue;
    bytes += size;
    found.add(held);
  }
  return found;
}

function bytesOf({ approval, answer }: Pick<PendingDecision, "approval" | "answer">): number {
  return new TextEncoder().encode(JSON.stringify(decisionBody(approval, answer))).length;
}

/** Why a decision is not sent any more: the approval was decided meanwhile. */
function obsoleteText({ approval, answer }: PendingDecision, now: Approval | undefined): string | null {
  if (now === undefined) return null;
  if (!isPending(now)) return "The request is no longer open, so nothing was sent.";
  const hasMoved = now.holder.kind !== approval.holder.kind || now.holder.id !== approval.holder.id;
  return answer.verdict === "escalate" && hasMoved ? "The request was escalated meanwhile, so nothing was sent." : null;
}

function resultText(all: readonly PendingDecision[], problems: readonly (string | null)[]): string {
  const [first, wrong] = [all[0], problems.filter((each) => each !== null)];
  if (first !== undefined && all.length === 1) return wrong[0] === undefined ? `${VERDICT_TEXTS[first.answer.verdict]}: ${first.approval.action}` : `The decision was rejected: ${wrong[0]}`;
  return wrong.length === 0 ? `All ${all.length} decisions were accepted` : `${wrong.length} of ${all.length} decisions were rejected`;
}

const VERDICT_TEXTS: Readonly<Record<Verdict, string>> = { approve: "Approved", deny: "Denied", escalate: "Escalated", more_info: "Question sent" };
