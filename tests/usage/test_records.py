"""Usage records: each turn counts once, on its day, for the request and the delegation that it worked on."""

from typing import Any

import pytest

from molecule_core.common.clock import DAY
from molecule_core.common.errors import InvalidField
from molecule_core.common.limits import Limits
from molecule_core.delegations.reader import origin_query
from molecule_core.store.database import CommandSteps, Store, WriteSet
from molecule_core.usage.model import UsageDraft, UsageRecorded, UsageSource, UsageTokens
from molecule_core.usage.reader import UsageReader
from molecule_core.usage.retention import UsageRetention
from molecule_core.usage.writer import UsageWriter
from testing.clocks import FakeClock
from testing.message_chains import take
from testing.running_server import Running, Seat
from testing.waits import refused
from tests.requirements import requirement

ORG, OPS = "org-1", "ws-1"
TOKENS = UsageTokens(input=100, cached=20, output=3)


class Ledger:
    """A store with the usage of an organisation, and the domain events that it emitted."""

    def __init__(self, store: Store, clock: FakeClock, limits: Limits) -> None:
        self.store = store
        self.writer = UsageWriter(store, origin_query, clock=clock, limits=limits)
        self.reader = UsageReader(store)
        self.events: list[UsageRecorded] = []
        store.subscribers.subscribe(UsageRecorded, "test.on_recorded", self._keep)

    def _keep(self, _org_id: str, event: UsageRecorded) -> CommandSteps[None]:
        yield from ()
        self.events.append(event)
        return WriteSet(None)


@pytest.fixture
def ledger(store: Store, clock: FakeClock) -> Ledger:
    """A ledger without records."""
    return Ledger(store, clock, Limits())


@requirement("US1")
async def test_a_repeated_report_changes_nothing(ledger: Ledger) -> None:
    first = await ledger.writer.record(ORG, OPS, UsageDraft(key="turn-1", tokens=TOKENS, cost_micros=7))
    again = await ledger.writer.record(ORG, OPS, UsageDraft(key="turn-1", tokens=UsageTokens(9, 9, 9), cost_micros=9))
    assert again == first
    assert (first.cost_micros, first.source) == (7, UsageSource.REPORTED)
    assert [(each.key, each.tokens, each.cost_micros) for each in ledger.events] == [("turn-1", 123, 7)]


@requirement("US1")
async def test_the_same_key_of_another_workspace_is_another_turn(ledger: Ledger) -> None:
    draft = UsageDraft(key="turn-1", tokens=TOKENS)
    await ledger.writer.record(ORG, OPS, draft)
    await ledger.writer.record(ORG, "ws-2", draft)
    assert [each.workspace_id for each in ledger.events] == [OPS, "ws-2"]


async def test_a_turn_without_a_price_has_an_unknown_cost(ledger: Ledger) -> None:
    record = await ledger.writer.record(ORG, OPS, UsageDraft(key="turn-1", tokens=TOKENS, model="m"))
    assert (record.cost_micros, record.source) == (None, UsageSource.COMPUTED)


async def test_a_cost_in_another_currency_is_not_used(ledger: Ledger) -> None:
    draft = UsageDraft(key="turn-1", tokens=TOKENS, cost_micros=7, currency="EUR")
    assert (await ledger.writer.record(ORG, OPS, draft)).cost_micros is None


async def test_a_turn_that_ended_in_the_future_ended_now(ledger: Ledger, clock: FakeClock) -> None:
    draft = UsageDraft(key="turn-1", tokens=TOKENS, at=clock.now() + DAY)
    assert (await ledger.writer.record(ORG, OPS, draft)).at == clock.now()


async def test_a_report_from_before_the_kept_records_is_rejected(ledger: Ledger, clock: FakeClock) -> None:
    late = UsageDraft(key="turn-1", tokens=TOKENS, at=clock.now() - 90 * DAY)
    await ledger.writer.record(ORG, OPS, late)
    with pytest.raises(InvalidField, match="90 days ago"):
        await ledger.writer.record(ORG, OPS, UsageDraft(key="turn-2", tokens=TOKENS, at=clock.now() - 90 * DAY - 1))


async def test_retention_deletes_records_after_their_own_number_of_days(store: Store, clock: FakeClock) -> None:
    limits = Limits(usage_record_days=30)
    ledger = Ledger(store, clock, limits)
    for number, age in enumerate((0, 29, 30)):
        draft = UsageDraft(key=f"turn-{number}", tokens=TOKENS, at=clock.now() - age * DAY)
        await ledger.writer.record(ORG, OPS, draft)
    await clock.advance(1)
    retention, found = UsageRetention(store, clock=clock, limits=limits), 0
    async for batch in retention.batches(clock.now() - 7 * DAY, 1):
        found += batch.rows
        if batch.command is not None:
            await store.run(batch.command)
    assert found == 1
    assert await ledger.reader.find_record(OPS, "turn-1")
    assert await ledger.reader.find_record(OPS, "turn-2") is None


# -- the route ---------------------------------------------------------------------------------------------------------


async def report(seat: Seat, key: str, **fields: Any) -> Any:
    """Report a turn with the seat's own token."""
    return await seat.api.post(f"/workspaces/{seat.id}/usage", {"key": key, "input_tokens": 10, **fields})


@pytest.fixture
async def team(server: Running) -> tuple[Seat, Seat]:
    """Lead, and Ops below it."""
    lead = await server.seat("Lead")
    return lead, await server.seat("Ops", parent_id=lead.id)


@requirement("US2")
async def test_a_turn_belongs_to_the_delegation_and_the_request_of_its_message(team: tuple[Seat, Seat]) -> None:
    lead, ops = team
    made = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": "count"})
    work = made["delegation_id"]
    await take(ops)
    recorded = await report(ops, "turn-1", activity_id=work, model="m", cost_micros=5)
    assert (recorded["delegation_id"], recorded["root_id"], recorded["cost_micros"]) == (work, work, 5)


@requirement("US2")
async def test_a_message_of_another_workspace_assigns_nothing(team: tuple[Seat, Seat]) -> None:
    lead, ops = team
    made = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": "count"})
    recorded = await report(lead, "turn-1", activity_id=made["delegation_id"])
    assert (recorded["delegation_id"], recorded["root_id"]) == (None, None)


@pytest.mark.parametrize(
    "fields",
    [
        {"key": "a b"},
        {"input_tokens": -1},
        {"output_tokens": 10**12 + 1},
        {"cost_micros": 0.5},
        {"currency": "dollars"},
        {"activity_id": "\x00"},
        {"at": "yesterday"},
        {"model": "x" * 121},
    ],
)
async def test_a_report_that_cannot_be_counted_is_rejected(team: tuple[Seat, Seat], fields: dict[str, Any]) -> None:
    assert (await refused(report(team[0], **{"key": "turn-1", **fields}))).status in (400, 422)
