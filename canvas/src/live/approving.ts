/** Answers to approvals: held for five seconds, in which nothing leaves the page and they can be taken back, then sent.
 * Besides: the reading of lists, and by how much the server's clock differs from this machine's. */

import { approvalOf, isAsked, withApprovals, type Approval } from "../state/approvals";
import type { State } from "../state/model";
import { members, type Members } from "../state/reading";
import { createStore, type Store } from "../state/store";
import type { Undo } from "../state/undo";
import { NoAnswer, Refusal } from "./answers";
import type { Api } from "./api";

export const HELD_MS = 5_000;
/** So many are sent at once. */
const AT_ONCE = 4;

export type Verdict = "approve" | "deny" | "escalate" | "more_info";

export interface Answer {
  verdict: Verdict;
  note: string;
  /** Other details than those that were asked for. */
  details: Members | null;
}

/** An answer that this page gave and the server has not taken. */
export interface Held {
  /** As it was shown when it was answered. */
  approval: Approval;
  answer: Answer;
  /** When it is sent, in ms of this machine's clock. */
  until: number;
  phase: "held" | "sending" | "unsent" | "refused";
  /** Why it was not sent, or was not taken. */
  problem: string | null;
}

interface Parts {
  api: Pick<Api, "decide" | "pendingApprovals" | "approvalsOf" | "approval">;
  orgId: string;
  data: Store<State | null>;
  undo: Store<Undo | null>;
}

export class Approving {
  readonly held: Store<ReadonlyMap<string, Held>> = createStore<ReadonlyMap<string, Held>>(new Map());
  /** Whether the list was read. `problem`: why not, the last time; what was there before stays. */
  readonly list: Store<{ readAt: number | null; problem: string | null }> = createStore<{ readAt: number | null; problem: string | null }>({ readAt: null, problem: null });
  /** The server's clock minus this machine's, in ms. */
  readonly skew: Store<number> = createStore(0);
  /** What became of the last answers, to be said aloud. */
  readonly told: Store<{ words: string } | null> = createStore<{ words: string } | null>(null);
  private readonly parts: Parts;
  private readonly timers = new Set<ReturnType<typeof setTimeout>>();

  constructor(parts: Parts) {
    this.parts = parts;
  }

  /** What is held is not sent. */
  stop(): void {
    for (const timer of this.timers) clearTimeout(timer);
    this.timers.clear();
  }

  setTime(serverTime: string, now: number): void {
    const time = Date.parse(serverTime);
    if (!Number.isNaN(time)) this.skew.set(time - now);
  }

  async readWaiting(now: () => number): Promise<void> {
    const { api, orgId } = this.parts;
    try {
      this.take(await api.pendingApprovals(orgId));
      this.list.set({ readAt: now(), problem: null });
    } catch (error) {
      this.list.update((before) => ({ ...before, problem: error instanceof Error ? error.message : "The server did not answer." }));
    }
  }

  async readOf(workspaceId: string): Promise<void> {
    this.take(await this.parts.api.approvalsOf(workspaceId));
  }

  async readOne(workspaceId: string, id: string): Promise<void> {
    this.take([await this.parts.api.approval(workspaceId, id)]);
  }

  take(told: readonly Approval[]): void {
    this.parts.data.update((state) => {
      if (state === null) return state;
      const approvals = withApprovals(state.approvals, told);
      return approvals === state.approvals ? state : { ...state, approvals };
    });
  }

  /** Holds one answer to each of these, and sends it when its time is over. */
  answer(approvals: readonly Approval[], answer: Answer, words: string, now: number): void {
    const until = now + HELD_MS;
    const ids = approvals.map(({ id }) => id);
    const fresh = approvals.map((approval): Held => ({ approval, answer, until, phase: "held", problem: null }));
    this.held.update((all) => new Map([...all, ...fresh.map((each) => [each.approval.id, each] as const)]));
    const undo: Undo = { words, until, run: () => Promise.resolve(this.takeBack(ids)) };
    this.parts.undo.set(undo);
    const timer = setTimeout(() => {
      this.timers.delete(timer);
      this.parts.undo.update((last) => (last === undo ? null : last));
      void this.sendAll(fresh);
    }, HELD_MS);
    this.timers.add(timer);
  }

  takeBack(ids: readonly string[]): void {
    this.held.update((all) => {
      const next = new Map(all);
      for (const id of ids) if (next.get(id)?.phase !== "sending") next.delete(id);
      return next;
    });
  }

  async sendAgain(id: string): Promise<void> {
    const held = this.held.get().get(id);
    if (held?.phase === "unsent") await this.send(held);
  }

  private async sendAll(all: readonly Held[]): Promise<void> {
    const kept = all.filter((each) => this.held.get().get(each.approval.id) === each);
    for (let from = 0; from < kept.length; from += AT_ONCE) await Promise.all(kept.slice(from, from + AT_ONCE).map((each) => this.send(each)));
  }

  private async send(held: Held): Promise<void> {
    const { approval, answer } = held;
    const known = this.parts.data.get()?.approvals.get(approval.id);
    // Somebody was faster, and the page knows it: there is nothing left to ask the server for.
    if (known !== undefined && !isAsked(known)) return this.settle({ ...held, phase: "refused", problem: "It was not open any more: nothing was sent." });
    this.settle({ ...held, phase: "sending", problem: null });
    try {
      this.take([await this.parts.api.decide(approval, answer)]);
      this.takeBackSent(approval.id);
      this.told.set({ words: `${SAID[answer.verdict]}: ${approval.action}` });
    } catch (error) {
      const told = error instanceof Refusal ? approvalOf(members(error.answer)?.["approval"]) : null;
      if (told !== null) this.take([told]);
      const problem = error instanceof Error ? error.message : "The server did not answer.";
      const again = error instanceof NoAnswer || (error instanceof Refusal && error.status >= 500);
      this.settle({ ...held, phase: again ? "unsent" : "refused", problem });
      this.told.set({ words: `The answer was not taken: ${problem}` });
    }
  }

  private settle(held: Held): void {
    this.held.update((all) => new Map(all).set(held.approval.id, held));
  }

  private takeBackSent(id: string): void {
    this.held.update((all) => new Map([...all].filter(([each]) => each !== id)));
  }
}

const SAID: Readonly<Record<Verdict, string>> = { approve: "Approved", deny: "Denied", escalate: "Passed on", more_info: "Asked" };
