"""An agent that ends gives all back that it has claimed and not handled, in one call."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from molecule_core.delegations.model import Phase, Status
from molecule_core.store.followers import MOST_FACTS
from tests.answers.office import Office
from tests.clocks import FakeClock
from tests.delegations.test_begin import pair
from tests.delegations.work import begin, line_of, row_of
from tests.engines import Engine
from tests.requirements import requirement
from tests.running import running


@pytest.fixture
async def office(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Office]:
    """An office without agents that are pushed to."""
    async with running(engine, place, tmp_path, clock=clock) as server:
        yield Office(server, await server.person(), clock, None)  # type: ignore[arg-type]


@requirement("D1", "M18")
async def test_more_delegations_than_facts_may_follow_each_other_are_given_back_at_once(office: Office) -> None:
    lead, ops = await pair(office)
    count = MOST_FACTS + 2
    given = [(await begin(office, lead, ops, f"task {number}")).row.id for number in range(count)]
    plain = await office.ask(ops, "a question")
    taken = [(row["id"], row["attempt"]) for row in await office.take(ops)]
    assert taken == [(each, 1) for each in (*given, plain)]
    last = given[-1]
    claims = [{"activity_id": one, "attempt": 2 if one == last else number} for one, number in taken]
    path = f"/workspaces/{ops.id}/activity/release"
    assert await ops.api.post(path, {"claims": claims}) == {"released": count}
    for one in given[:-1]:
        row = await row_of(office, one)
        assert (row.status, row.phase) == (Status.QUEUED, Phase.WAITING)
        assert [noted.fact for noted in await line_of(office, one)][-1] == "returned"
    assert (await row_of(office, last)).phase is Phase.CLAIMED
    assert [(row["id"], row["attempt"]) for row in await office.take(ops)] == [
        (each, 2) for each in (*given[:-1], plain)
    ]
