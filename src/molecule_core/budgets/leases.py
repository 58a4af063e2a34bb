"""Leases of turns: steps of the commands that begin and end turns. Called by messages and threads.

Turns lease from all budgets that limit them or from none. The caller's command must be alone in its group, or have the
key of `lease_keys`. What a turn has leased counts until its usage is reported, in its period: usage that is reported
late never exceeds a limit.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from molecule_core.budgets import rules
from molecule_core.budgets.cache import BudgetCache
from molecule_core.budgets.errors import OverBudget
from molecule_core.budgets.model import (
    BudgetExhausted,
    BudgetLease,
    BudgetState,
    LeaseResult,
    SpendingBudget,
    TurnLeaseSizes,
    TurnToLease,
    WorkspaceOverBudget,
)
from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.store.database import (
    CommandSteps,
    JournalEvent,
    ReadQuery,
    RequestBatch,
    Statement,
    StepRequest,
    WriteSet,
)
from molecule_core.store.journal import org_key
from molecule_core.wire.schemas.budgets import BudgetUsePayload

Lineage = Callable[[str], Sequence[str]]
"""Returns a workspace and those above it, nearest first."""
BUDGET_ENTITY = "budget"
NO_THREAD_END = (1 << 62) - 1
"""End of the lease of a thread's turn: it ends with the turn."""


class BudgetLeases:
    """Leases of turns from budgets."""

    def __init__(self, cache: BudgetCache, lineage: Lineage, *, limits: Limits) -> None:
        self._cache = cache
        self._lineage = lineage
        self._limits = limits

    def is_needed(self, org_id: str) -> bool:
        """Return whether turns of an organisation may need leases."""
        return self._cache.has_budgets(org_id)

    def lease_keys(self, org_id: str) -> tuple[tuple[str, str], ...]:
        """Return the keys of a command that leases; none in an organisation without budgets."""
        return (("budgets", org_id),) if self._cache.has_budgets(org_id) else ()

    def lease_turns(
        self,
        org_id: str,
        workspace_id: str,
        turns: Sequence[TurnToLease],
        now: int,
        *,
        is_alone: bool,
        most: int | None = None,
    ) -> CommandSteps[LeaseResult]:
        """Reserve for each turn in order, as far as budgets allow; a turn that has leased already keeps its lease.

        `is_alone`: the command has the key of `lease_keys`, or is exclusive. `most`: turns that may begin, or None."""
        lineage = self._lineage(workspace_id)
        by_turn = {
            each.key: self._cache.find_budgets(org_id, lineage, each.root_id, each.delegation_id) for each in turns
        }
        budgets = {each.id: each for found in by_turn.values() for each in found}
        if not budgets:
            return WriteSet(LeaseResult(frozenset(by_turn)))
        states = yield from load_states(budgets.values(), now)
        known = yield from _load_leases(workspace_id, turns)
        work = _LeaseWork(workspace_id, self._cache.lease_sizes(workspace_id), states, now)
        for turn in turns:
            if most is not None and len(work.admitted) >= most:
                break
            work.lease(turn, by_turn[turn.key], known[turn.key])
        needs_own_group = not is_alone  # control: budget-alone
        return replace(self._to_write_set(org_id, work), isolated=needs_own_group)

    def _to_write_set(self, org_id: str, work: "_LeaseWork") -> WriteSet[LeaseResult]:
        """Return the leases, and for a budget that is used up the request for a decision and the wait."""
        now, domain_events, events = work.now, list[object](), list[JournalEvent]()
        writes, hold_ends = list(work.writes), list[int]()
        exhausted = {each.id: each for each in work.refused.values() if work.is_exhausted(each)}
        for budget in exhausted.values():
            state, start = work.states[budget.id], rules.period_start(budget.period, now)
            if state.asked_at is None and not state.stopped:
                asked = {"budget_id": budget.id, "period_start": start, "at": now, "stopped": 0}
                hold = {"workspace_id": work.workspace_id, "budget_id": budget.id, "until": 0}
                writes += [("mark_budget_asked", asked), ("save_budget_hold", hold)]
                events.append(use_event("BUDGET_EXHAUSTED", budget, state, now))
                domain_events.append(
                    BudgetExhausted(
                        budget=budget,
                        state=state,
                        workspace_id=work.workspace_id,
                        period_start=start,
                        proposed_raise=rules.proposed_raise(budget, state, work.sizes.size_for(budget.unit)),
                        at=now,
                    )
                )
            end = rules.period_end(budget.period, now)
            until = min(now + self._limits.budget_hold_seconds * SECOND, NO_THREAD_END if end is None else end)
            hold_ends.append(until)
            # A workspace that has just begun a turn is limited at its next one.
            if budget.covers_workspace and not work.admitted:
                limited = {"workspace_id": work.workspace_id, "budget_id": budget.id, "until": until}
                writes.append(("save_budget_hold", limited))
                reason = rules.over_budget_reason(budget, state)
                domain_events.append(WorkspaceOverBudget(work.workspace_id, until, reason, now))
        retry_at = None
        if work.refused:
            retry_at = now + self._limits.budget_retry_seconds * SECOND
        result = LeaseResult(frozenset(work.admitted), dict(work.refused), retry_at)
        notify = (org_key(org_id),) if events else ()
        return WriteSet(result, writes, events, notify=notify, domain_events=domain_events)

    def lease_thread_turn(
        self, org_id: str, workspace_id: str, thread_id: str, keys: Sequence[str], now: int
    ) -> CommandSteps[None]:
        """Reserve for a turn of a thread that begins; the write set has an error if it must wait.

        `keys`: of its turn; a lease under the first, which the claim of its message took, becomes the turn's."""
        own = {"workspace_id": workspace_id, "turn_key": keys[0]}
        rows = yield ReadQuery("leases_of_turn", own)
        if rows:
            leases = [to_lease(row) for row in rows]
            extension = {**own, "until": NO_THREAD_END, "thread_id": thread_id}
            return WriteSet(
                None, [("extend_budget_lease", {**extension, "budget_id": each.budget_id}) for each in leases]
            )
        turn = TurnToLease(key=keys[-1], until=NO_THREAD_END, thread_id=thread_id)
        leased = yield from self.lease_turns(org_id, workspace_id, (turn,), now, is_alone=True)
        if turn.key in leased.result.admitted:
            return leased.returning(None)
        budget = leased.result.refused[turn.key]
        state = (yield from load_states((budget,), now))[budget.id]
        error = OverBudget(
            used=rules.amount_text(budget.unit, state.used),
            limit=rules.amount_text(budget.unit, state.limit),
            unit=rules.unit_text(budget.unit),
            budget_id=budget.id,
        )
        return replace(leased.returning(None), error=error)

    def is_overdrawn(self, workspace_id: str, thread_id: str, now: int) -> Generator[StepRequest, Any, bool]:
        """Return whether the running turn of a thread has used more than it leased, of a budget that is used up."""
        rows = yield ReadQuery("leases_of_thread", {"workspace_id": workspace_id, "thread_id": thread_id})
        found = (self._cache.budget(lease.budget_id) for lease in map(to_lease, rows) if lease.amount == 0)
        states = yield from load_states((each for each in found if each is not None), now)
        return any(state.used >= state.limit for state in states.values())

    def end_thread_leases(self, org_id: str, workspace_id: str, thread_id: str) -> list[Statement]:
        """Return the statements that end the leases of a thread's turn: it has reported all that it used."""
        if not self._cache.has_budgets(org_id):
            return []
        return [("end_thread_leases", {"workspace_id": workspace_id, "thread_id": thread_id})]


class _LeaseWork:
    """Leases of one command in progress: each sees those before it."""

    def __init__(self, workspace_id: str, sizes: TurnLeaseSizes, states: dict[str, BudgetState], now: int) -> None:
        self.workspace_id = workspace_id
        self.states = states
        self.now = now
        self.admitted: list[str] = []
        self.refused: dict[str, SpendingBudget] = {}
        self.writes: list[Statement] = []
        self.sizes = sizes

    def lease(self, turn: TurnToLease, budgets: list[SpendingBudget], known: dict[str, BudgetLease]) -> None:
        """Reserve of all budgets of a turn, or from none."""
        starts = {each.id: rules.period_start(each.period, self.now) for each in budgets}
        new = [each for each in budgets if each.id not in known or known[each.id].period_start != starts[each.id]]
        missing = [each for each in new if not rules.has_capacity(self.states[each.id], self._amount_for(each))]
        if missing:
            self.refused[turn.key] = next((each for each in missing if self.is_exhausted(each)), missing[0])
            return
        self.admitted.append(turn.key)
        own = {"workspace_id": self.workspace_id, "turn_key": turn.key, "until": turn.until}
        for each in budgets:
            if each not in new:
                extension = {**own, "thread_id": turn.thread_id or "", "budget_id": each.id}
                self.writes.append(("extend_budget_lease", extension))
        for each in new:
            amount, state = self._amount_for(each), self.states[each.id]
            lease = BudgetLease(
                budget_id=each.id,
                workspace_id=self.workspace_id,
                turn_key=turn.key,
                thread_id=turn.thread_id or "",
                delegation_id=turn.delegation_id or "",
                period_start=starts[each.id],
                amount=amount,
                until=turn.until,
                begun_at=self.now,
            )
            self.writes.append(("save_budget_lease", lease))
            self.states[each.id] = replace(state, leased=state.leased + amount)

    def is_exhausted(self, budget: SpendingBudget) -> bool:
        """Return whether the turns of this command cannot begin in this period."""
        return rules.is_exhausted(self.states[budget.id], self._amount_for(budget))

    def _amount_for(self, budget: SpendingBudget) -> int:
        return rules.lease_amount(self.sizes.size_for(budget.unit), self.states[budget.id])


def load_states(budgets: Iterable[SpendingBudget], now: int) -> Generator[StepRequest, Any, dict[str, BudgetState]]:
    """Read the states of budgets in their current period."""
    wanted = list(budgets)
    found = yield RequestBatch([ReadQuery("budget_state", state_query(each, now)) for each in wanted])
    return {each.id: to_state(each, rows[0]) for each, rows in zip(wanted, found, strict=True)}


def state_query(budget: SpendingBudget, now: int) -> dict[str, Any]:
    """Return the parameters of the query for the state of a budget now."""
    return {"budget_id": budget.id, "period_start": rules.period_start(budget.period, now), "now": now}


def to_state(budget: SpendingBudget, row: Sequence[Any]) -> BudgetState:
    """Build the state of a budget from a row of `budget_state`."""
    return BudgetState(**dict(zip(BudgetState.__struct_fields__, (*row, budget.most), strict=True)))


def _load_leases(
    workspace_id: str, turns: Sequence[TurnToLease]
) -> Generator[StepRequest, Any, dict[str, dict[str, BudgetLease]]]:
    """Read the leases that turns have already, by turn and budget."""
    queries = [ReadQuery("leases_of_turn", {"workspace_id": workspace_id, "turn_key": each.key}) for each in turns]
    found = yield RequestBatch(queries)
    return {
        turn.key: {lease.budget_id: lease for lease in (to_lease(row) for row in rows)}
        for turn, rows in zip(turns, found, strict=True)
    }


def to_lease(row: Sequence[Any]) -> BudgetLease:
    """Build a lease from a row."""
    return BudgetLease(**dict(zip(BudgetLease.__struct_fields__, row, strict=True)))


def use_event(name: str, budget: SpendingBudget, state: BudgetState, at: int) -> JournalEvent:
    """Return the event about the use of a budget."""
    payload = BudgetUsePayload(
        budget_id=budget.id,
        scope=budget.scope.value,
        unit=budget.unit.value,
        period=budget.period.value,
        limit=state.limit,
        spent=state.spent,
        leased=state.leased,
    )
    return JournalEvent(name, budget.workspace_id, BUDGET_ENTITY, budget.id, 0, msgspec.json.encode(payload), at)
