/** After a reconnect, read the delegations whose events this page may have missed. What cannot be read is read after the
 * next reconnect. */

import { ofHistory, type Delegation } from "../state/delegations";
import type { State } from "../state/model";
import type { Store } from "../store/store";
import { missedDelegations, openDelegations, withoutMissed, withRead } from "../state/delegationLists";
import type { DelegationItem } from "../wire";
import { ApiError } from "../api/errors";
import type { Api } from "../api/api";

/** How many failed delegations, and how many delegations of any status, are read. */
const MAX_FAILED = 100;
const MAX_READ = 500;
/** Older ones are read one by one, this many in parallel. */
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

  /** Read the newest failed delegations, and the current state of the open ones. */
  async read(): Promise<void> {
    const pages = [this.api.delegations(this.orgId, MAX_FAILED, "failed")];
    const delegations = this.data.get()?.delegations ?? new Map<string, Delegation>();
    if (missedDelegations(delegations).length > 0) pages.push(this.api.delegations(this.orgId, MAX_READ));
    // Progress events are sent once; only the pages have what was missed.
    else if (this.wasLive && openDelegations(delegations).some(({ takenAt }) => takenAt !== null)) pages.push(this.api.delegations(this.orgId, MAX_READ, "open"));
    this.wasLive = true;
    const read = await Promise.allSettled(pages);
    for (const page of read) if (page.status === "fulfilled") this.take(page.value.delegations);
    if (read.every(({ status }) => status === "fulfilled")) await this.readLeftOver();
  }

  /** The pages end somewhere; a delegation in none of them would seem open for ever. */
  private async readLeftOver(): Promise<void> {
    const left = missedDelegations(this.data.get()?.delegations ?? new Map()).map(({ id }) => id);
    for (let from = 0; from < left.length; from += MAX_PARALLEL) {
      const read = await Promise.all(left.slice(from, from + MAX_PARALLEL).map((id) => this.readOne(id)));
      if (read.includes(false)) return;
    }
  }

  /** Return whether the state of the delegation is known now. */
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
