"""Sums of usage equal the records, whatever is reported when, and are shown to the right callers."""

import random
from collections import defaultdict
from typing import Any

import pytest

from molecule_core.common.clock import DAY
from molecule_core.common.limits import Limits
from molecule_core.delegations.reader import origin_query
from molecule_core.store.database import Store
from molecule_core.usage.model import ModelPrice, PriceList, UsageDraft, UsageRecord, UsageSource, UsageSum, UsageTokens
from molecule_core.usage.reader import UsageReader
from molecule_core.usage.rules import compute_cost, day_of, find_price
from molecule_core.usage.writer import PriceWriter, UsageWriter
from testing.clocks import FakeClock
from testing.running_server import Running, Seat
from testing.waits import refused
from tests.requirements import requirement

ORG = "org-1"
PRICES = (
    ModelPrice("small*", 1_000_000, 100_000, 4_000_000),
    ModelPrice("small-2*", 2_000_000, 200_000, 8_000_000),
    ModelPrice("large", 3_000_000, 300_000, 15_000_000),
)
EVER = ("0000", "9999")


@requirement("US3")
@pytest.mark.parametrize("seed", range(3))
async def test_sums_equal_the_records_whatever_is_reported_when(store: Store, clock: FakeClock, seed: int) -> None:
    """Random reports: late, repeated, with and without a price, and prices that change meanwhile."""
    chance, limits = random.Random(seed), Limits()
    writer, reader = UsageWriter(store, origin_query, clock=clock, limits=limits), UsageReader(store)
    prices, records = PriceWriter(store, clock=clock, limits=limits), dict[tuple[str, str], UsageRecord]()
    for _ in range(60):
        if chance.random() < 0.1:
            await prices.replace_prices(ORG, "USD", chance.sample(PRICES, chance.randrange(4)), "Ann")
        draft = UsageDraft(
            key=f"turn-{chance.randrange(40)}",
            tokens=UsageTokens(*(chance.randrange(1000) for _ in range(3))),
            model=chance.choice((None, "small-1", "small-2-new", "large", "other")),
            cost_micros=chance.choice((None, chance.randrange(1000))),
            at=clock.now() - chance.randrange(80) * DAY,
        )
        workspace_id = f"ws-{chance.randrange(3)}"
        record = await writer.record(ORG, workspace_id, draft)
        assert records.setdefault((workspace_id, draft.key), record) == record, "a record never changes"
        await clock.advance(chance.randrange(100))
    by_workspace, by_day, by_model = (defaultdict[str, UsageSum](UsageSum) for _ in range(3))
    for each in records.values():
        found = UsageSum(
            1,
            int(each.cost_micros is None),
            each.input_tokens,
            each.cached_tokens,
            each.output_tokens,
            each.cost_micros or 0,
        )
        by_workspace[each.workspace_id] += found
        by_day[day_of(each.at)] += found
        by_model[each.model or ""] += found
    assert await reader.sums_by_workspace(ORG, *EVER) == by_workspace
    assert await reader.sums_by_day(ORG, *EVER) == by_day
    assert await reader.sums_by_model(ORG, *EVER) == by_model


async def test_a_cost_is_computed_from_the_longest_price_that_fits_and_stays(store: Store, clock: FakeClock) -> None:
    limits = Limits()
    writer = UsageWriter(store, origin_query, clock=clock, limits=limits)
    prices = PriceWriter(store, clock=clock, limits=limits)
    await prices.replace_prices(ORG, "USD", PRICES, "Ann")
    draft = UsageDraft(key="turn-1", tokens=UsageTokens(1000, 500, 10), model="small-2-new")
    record = await writer.record(ORG, "ws-1", draft)
    assert (record.cost_micros, record.source) == (2000 + 100 + 80, UsageSource.COMPUTED)
    await prices.replace_prices(ORG, "USD", (), "Ann")
    assert await writer.record(ORG, "ws-1", draft) == record


def test_a_fraction_of_a_micro_unit_is_rounded_half_up() -> None:
    price = ModelPrice("m", 1, 0, 0)
    assert [compute_cost(UsageTokens(tokens), price) for tokens in (499_999, 500_000, 1_500_000)] == [0, 1, 2]


def test_a_price_of_all_models_is_used_last() -> None:
    from_all = ModelPrice("*", 1, 1, 1)
    listed = _list_of(*PRICES, from_all)
    assert [find_price(listed, each) for each in ("large", "larger", None)] == [PRICES[2], from_all, from_all]


def _list_of(*prices: ModelPrice) -> PriceList:
    return PriceList(prices=prices)


# -- the routes --------------------------------------------------------------------------------------------------------


class Team:
    """Lead; Ops and Help below it; Dev below Ops; and Else beside them, each with one turn."""

    def __init__(self, server: Running, org_id: str, seats: dict[str, Seat]) -> None:
        self.server = server
        self.org = f"/orgs/{org_id}/usage"
        self.seats = seats

    async def rows(self, api: Any, path: str, by: str) -> dict[str, int]:
        """The turns of each row, by name or key."""
        report = await api.get(path, by=by)
        return {row["name"] or row["key"]: row["turns"] for row in report["rows"]}

    def own(self, name: str) -> str:
        return f"/workspaces/{self.seats[name].id}/usage"


@pytest.fixture
async def team(server: Running) -> Team:
    seats: dict[str, Seat] = {}
    for name, above in (("Lead", None), ("Ops", "Lead"), ("Help", "Lead"), ("Dev", "Ops"), ("Else", None)):
        seats[name] = await server.seat(name, **({} if above is None else {"parent_id": seats[above].id}))
        body = {"key": "turn-1", "input_tokens": 10, "model": "m", "cost_micros": 5}
        await seats[name].api.post(f"/workspaces/{seats[name].id}/usage", body)
    return Team(server, (await server.admin.get("/orgs"))[0]["id"], seats)


@requirement("US4")
async def test_a_team_is_a_workspace_with_all_below_it(team: Team) -> None:
    person = await team.server.person("viewer")
    assert await team.rows(person, team.org, "agent") == dict.fromkeys(team.seats, 1)
    assert await team.rows(person, team.org, "team") == {"Lead": 4, "Ops": 2}
    assert await team.rows(person, team.org, "model") == {"m": 5}
    assert list((await team.rows(person, team.org, "day")).values()) == [5]
    report = await person.get(team.org, by="team")
    assert (report["total"]["turns"], report["total"]["cost_micros"], report["currency"]) == (5, 25, "USD")


@requirement("US4")
async def test_a_workspace_sees_its_own_usage_and_that_below_it(team: Team) -> None:
    ops = team.seats["Ops"].api
    assert await team.rows(ops, team.own("Ops"), "agent") == {"Ops": 1, "Dev": 1}
    assert await team.rows(ops, team.own("Ops"), "team") == {"Ops": 2}
    assert await team.rows(ops, team.own("Ops"), "model") == {"m": 2}
    for other in ("Lead", "Help", "Dev"):
        assert (await refused(ops.get(team.own(other)))).status in (403, 404)
    assert (await refused(ops.get(team.org))).status == 403


async def test_usage_of_a_removed_workspace_still_counts_for_its_team(team: Team) -> None:
    await team.server.admin.call("DELETE", f"/workspaces/{team.seats['Dev'].id}", query={"confirm": "true"})
    assert (await team.rows(team.server.admin, team.org, "team"))["Lead"] == 4


@requirement("US2")
async def test_a_request_is_shown_with_its_first_message(team: Team) -> None:
    lead, ops = team.seats["Lead"], team.seats["Ops"]
    made = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": "count the pears"})
    body = {"key": "turn-2", "input_tokens": 10, "activity_id": made["delegation_id"], "cost_micros": 7}
    await ops.api.post(team.own("Ops"), body)
    (row,) = (await team.server.admin.get(team.org, by="request"))["rows"]
    assert (row["key"], row["cost_micros"]) == (made["delegation_id"], 7)
    assert "count the pears" in row["name"]


async def test_another_organisation_sees_nothing(team: Team) -> None:
    other = await team.server.org("Other")
    person = await team.server.person("owner", other)
    assert (await refused(person.get(team.org))).status in (403, 404)
    assert (await person.get(f"/orgs/{other}/usage"))["rows"] == []


async def test_operators_edit_prices_and_the_currency_stays_once_there_is_usage(team: Team) -> None:
    prices = {"prices": [{"model": "m", "input_micros": 1_000_000, "output_micros": 2_000_000}]}
    viewer, operator = await team.server.person("viewer"), await team.server.person("operator")
    path = f"{team.org}/prices"
    assert (await refused(viewer.call("PUT", path, body=prices))).status == 403
    saved = await operator.call("PUT", path, body=prices)
    assert (saved["version"], saved["prices"][0]["cached_micros"]) == (1, 0)
    assert await viewer.get(path) == saved
    assert (await refused(operator.call("PUT", path, body={**prices, "currency": "EUR"}))).status == 422
    twice = {"prices": prices["prices"] * 2}
    assert (await refused(operator.call("PUT", path, body=twice))).status == 422
    reported = await team.seats["Ops"].api.post(team.own("Ops"), {"key": "t", "output_tokens": 3, "model": "m"})
    assert (reported["cost_micros"], reported["source"]) == (6, "computed")


@pytest.mark.parametrize(
    "query", [{"by": "colour"}, {"from": "soon"}, {"from": "2026-02-30"}, {"from": "2000-01-01"}, {"to": "0001-01-01"}]
)
async def test_a_range_that_cannot_be_read_is_rejected(team: Team, query: dict[str, str]) -> None:
    assert (await refused(team.server.admin.get(team.org, **query))).status == 422
