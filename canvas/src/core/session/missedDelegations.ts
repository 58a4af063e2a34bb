/** What became of work while this page did not hear of it: read each time the live channel is back. What cannot be read is made
 * up for by the next connection. */

import { ofHistory, type Delegation } from "../state/delegations";
import type { State } from "../state/model";
import type { Store } from "../store/store";
import { missedDelegations, openDelegations, withoutMissed, withRead } from "../state/delegationLists";
import type { DelegationItem } from "../wire";
import { ApiError } from "../api/errors";
import type { Api } from "../api/api";

/** The newest so many failed delegations are looked for, and so many of all. */
const MAX_FAILED = 100;
const MAX_READ = 500;
/** What is older than those is read by itself, so many at a time. */
const MAX_PARALLEL = 20;

export class MissedDelegations {
  private readonly api: Pick<Api, "delegation" | "delegations">;
  private readonly orgId: string;
  private readonly data: Store<State | null>;
  private wasLive = false;

  constructor(api: Pick<Api, "delegation" | "delegations">, orgId: string, data: Store<State | null>) {
    this.api = api;
    this.orgId = orgId;
    this.data = data;
  }

  /** What failed while nobody looked, and what became of what was open. */
  async read(): Promise<void> {
    const pages = [this.api.delegations(this.orgId, MAX_FAILED, "failed")];
    const delegations = this.data.get()?.delegations ?? new Map<string, Delegation>();
    if (missedDelegations(delegations).length > 0) pages.push(this.api.delegations(this.orgId, MAX_READ));
    // How far work is gets told once; what was told meanwhile is only in the pages.
    else if (this.wasLive && openDelegations(delegations).some(({ takenAt }) => takenAt !== null)) pages.push(this.api.delegations(this.orgId, MAX_READ, "open"));
    this.wasLive = true;
    const read = await Promise.allSettled(pages);
    for (const page of read) if (page.status === "fulfilled") this.take(page.value.delegations);
    if (read.every(({ status }) => status === "fulfilled")) await this.readLeftOver();
  }

  /** The pages end somewhere, and what is in none of them would seem open for ever. */
  private async readLeftOver(): Promise<void> {
    const left = missedDelegations(this.data.get()?.delegations ?? new Map()).map(({ id }) => id);
    for (let from = 0; from < left.length; from += MAX_PARALLEL) {
      const read = await Promise.all(left.slice(from, from + MAX_PARALLEL).map((id) => this.readOne(id)));
      if (read.includes(false)) return;
    }
  }

  /** Whether it is known now what became of it. */
  private async readOne(id: string): Promise<boolean> {
    try {
      const { delegation } = await this.api.delegation(id);
      this.take([delegation]);
      return true;
    } catch (error) {
      const isGone = error instanceof ApiError && error.status === 404;
      if (isGone) this.data.update((state) => state && withoutMissed(state, id));
      return isGone;
    }
  }

  private take(items: readonly DelegationItem[]): void {
    this.data.update((state) => state && withRead(state, items.map(ofHistory)));
  }
}
