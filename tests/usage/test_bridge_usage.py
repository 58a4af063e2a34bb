"""Usage that a bridge reports: a bridge that is killed before or after its report counts each turn once."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from molecule_core.agent.bridges.outbox import OutboxState, UnreportedUsage
from testing.engines import Engine
from testing.running_server import Running, Seat, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.agent.bridges.bridge_process import bridging
from tests.requirements import requirement

REPORT = UnreportedUsage(
    key="t-1:1",
    activity_id="m-1",
    model="claude-large",
    input_tokens=7,
    cached_tokens=5,
    output_tokens=3,
    cost_micros=500_000,
    at=1_700_000_000_000_000,
)


@pytest.fixture
async def server(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Running]:
    """A server with instructions, as bridges need them."""
    async with running(engine, place, tmp_path, push_instructions_enabled=True) as found:
        yield found


def leave_report(state: Path, seat: Seat, report: UnreportedUsage) -> Path:
    """Write the outbox as a bridge leaves it that was killed before it knew that the server has its report."""
    path = state / f".bridge_outbox_{seat.id}"
    path.write_bytes(msgspec.json.encode(OutboxState(usage=[report])))
    return path


async def unreported(path: Path) -> list[UnreportedUsage]:
    """The usage that an outbox still has."""
    return msgspec.json.decode(path.read_bytes(), type=OutboxState).usage


@requirement("US1")
async def test_a_bridge_killed_before_and_after_its_report_counts_once(server: Running, tmp_path: Path) -> None:
    seat, state = await server.seat(), tmp_path / "bridge"
    state.mkdir(mode=0o700)
    report = msgspec.structs.replace(REPORT, at=server.server.runtime.clock.now())
    for _ in ("before", "after"):
        path = leave_report(state, seat, report)
        async with bridging(server, seat, state, "print('so')") as bridge:
            await eventually(partial(unreported, path), lambda found: not found, PROCESS_START_SECONDS)
            await bridge.kill()
    record = await server.server.usage.reader.find_record(seat.id, report.key)
    assert record is not None and (record.cost_micros, record.at) == (500_000, report.at)
    rows = await server.server.store.rows("usage_of_workspace", {"workspace_id": seat.id, "since": "", "until": "9"})
    assert [(row[2], row[4], row[7]) for row in rows] == [(1, 7, 500_000)]
