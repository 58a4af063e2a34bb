"""Processes that share a database agree about the time, or do not start."""

from pathlib import Path

import pytest

from molecule_core.common.errors import StartFailed
from molecule_core.common.limits import Limits
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from molecule_core.server.startup import open_server
from molecule_core.store.postgres.clock_skew import skew_seconds
from testing.clocks import ShiftedClock
from testing.running_server import ADMIN_TOKEN
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import asked


def server_of(place: str, state: Path, ahead: int, bound: int) -> Server:
    """Return a server whose clock is wrong."""
    settings = Settings(database=place, state_dir=str(state), limits=Limits(clock_skew_seconds=bound))
    return Server(settings, admin_token=ADMIN_TOKEN, clock=ShiftedClock(ahead))


@requirement("M38", "O1")
@pytest.mark.parametrize(("ahead", "way"), [(60, "60 s ahead of"), (-60, "60 s behind")])
async def test_a_clock_far_from_the_databases_is_refused_before_anything_is_written(
    place: str, tmp_path: Path, ahead: int, way: str
) -> None:
    with pytest.raises(StartFailed, match=way) as refused:
        await open_server(server_of(place, tmp_path, ahead, 5))
    assert "MOLECULE_LIMIT_CLOCK_SKEW_SECONDS" in refused.value.text
    assert await asked(place, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()") == []


@requirement("M38", "O1")
@pytest.mark.parametrize(("ahead", "bound"), [(0, 5), (60, 90)])
async def test_a_clock_within_the_bound_is_taken(place: str, tmp_path: Path, ahead: int, bound: int) -> None:
    server = server_of(place, tmp_path, ahead, bound)
    await open_server(server)
    names = [org.name for org in server.registry.orgs()]
    await server.close()
    assert names == ["Default"]


@pytest.mark.parametrize(
    ("before", "theirs", "after", "skew"),
    [(10, 11, 12, 0), (10, 10, 10, 0), (10, 4, 12, 6), (10, 15, 12, -3)],
)
def test_the_time_of_the_query_is_no_difference(before: int, theirs: int, after: int, skew: int) -> None:
    assert skew_seconds(before * 10**6, theirs * 10**6, after * 10**6) == skew
