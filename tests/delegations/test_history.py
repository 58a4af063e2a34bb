"""The history table is for analysis: whether it is written or not, everything else is the same."""

from pathlib import Path
from typing import Any

from molecule_core.common.clock import SECOND
from molecule_core.delegations.model import ProgressReport
from molecule_core.wire.schemas.delegations import DelegationStatus
from testing.clocks import START, FakeClock
from testing.delegation_steps import asked, begin, over, prune, row_of
from testing.engines import Engine, place_for
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import Pushed, PushNetwork, Reply, plain, said
from testing.running_server import Running, Seat, running
from testing.workspaces import remove
from tests.architecture.tables import TABLES
from tests.delegations.test_ends import cancel
from tests.messages.test_retention import LIMITS as PACED
from tests.requirements import requirement
from tests.store.instrumented_store import seen_from_outside

HISTORY, WHAT = "delegation_history", "delegation history"
# All but what a store calls itself, what processes tell each other of, what one engine searches memory by, and the
# search index, which follows in the background.
_NOT_COMPARED = ("meta", "changes", "memory_words", "search_words", "search_documents", "search_positions")
COMPARED = [table for table in TABLES if table not in _NOT_COMPARED]
URL = "https://ops.example/a2a"
COLUMNS = "delegation_id, status, reason, depth, attempt, created_at, taken_at, settled_at"


async def taken(world: MessageWorld, seat: Seat, delegation_id: str) -> dict[str, Any]:
    """The message that carries a delegation, claimed."""
    (row,) = [row for row in await world.take(seat) if row["id"] == delegation_id]
    return row


async def life(world: MessageWorld) -> dict[str, str]:
    """Delegations that end in every way; the name of each way with the id."""
    writer = world.server.server.delegations.writer
    lead, ops, helper = [await world.server.seat(name) for name in ("Lead", "Ops", "Helper")]
    pushed = await world.server.seat("Pushed", delivery_mode="push", url=URL)
    found: dict[str, str] = {}

    async def given(way: str, source: Seat = lead, target: Seat = ops, **more: Any) -> str:
        found[way] = (await begin(world, source, target, f"do it: {way}", **more)).row.id
        return found[way]

    row = await taken(world, ops, await given("answered", key="k-1"))
    await writer.report_progress(
        await row_of(world, row["id"]), asked(ops, lead).sender, ProgressReport(current_step="half")
    )
    await world.pass_time(60)
    await reply(ops, handle(row), "done")
    await reply(ops, handle(row), "done")
    assert (await begin(world, lead, ops, "do it: answered", key="k-1")).is_duplicate

    row = await taken(world, ops, await given("declined", key="k-2"))
    await ops.api.post(f"/workspaces/{ops.id}/decline", {"handle": handle(row), "reason": "no access"})
    found["again"] = (await writer.retry(await row_of(world, row["id"]), asked(lead, ops).sender)).row.id
    await cancel(world, lead, found["again"])

    row = await taken(world, ops, await given("cancelled"))
    below = await given("below", ops, helper, cause_id=row["id"])
    await cancel(world, lead, row["id"])
    await world.rest()
    await over(world, below)
    await reply(ops, handle(row), "done after all")

    await given("expired", deadline_seconds=10)
    await world.pass_time(11)
    await over(world, found["expired"])

    for way, status in (("recorded", DelegationStatus.COMPLETED), ("recorded failed", DelegationStatus.FAILED)):
        sender = asked(lead, ops).sender
        found[way] = (await writer.record(lead.id, way.replace(" ", "-"), ops.id, way, sender)).row.id
        await writer.update(await row_of(world, found[way]), sender, status, "done", "it broke")

    answers: list[Reply] = [said("pushed and done"), plain(404, error="no such thing")]

    async def answering(_sent: Pushed) -> Reply:
        return answers.pop(0)

    world.net.agents[URL] = answering
    for way in ("pushed", "refused"):
        await given(way, target=pushed)
        await world.rest()
        await over(world, found[way])

    await given("target gone", target=helper)
    await remove(world.server.admin, helper)
    await world.rest()
    await over(world, found["target gone"])
    await given("open")
    return found


async def run(engine: Engine, place: str, folder: Path, *, switch: bool) -> dict[str, list[tuple[Any, ...]]]:
    """What the same life leaves in each table."""
    clock = FakeClock()
    settings: dict[str, Any] = {"push_instructions_enabled": True, "delegation_ledger_write": switch}
    async with running(engine, place, folder, clock=clock, fetcher=(net := PushNetwork()), **settings) as server:
        ways = await life(MessageWorld(server, await server.person(), clock, net))
        left = {table: await seen_from_outside(engine, place, f"SELECT * FROM {table}") for table in COMPARED}  # noqa: S608
        if switch:
            await check(server, await seen_from_outside(engine, place, f"SELECT {COLUMNS} FROM {HISTORY}"), ways)  # noqa: S608
    return {table: sorted(map(_printable, rows)) for table, rows in left.items()}


def _printable(row: tuple[Any, ...]) -> tuple[str, ...]:
    """Rows as one can sort them."""
    return tuple(map(repr, row))


async def check(server: Running, rows: list[tuple[Any, ...]], ways: dict[str, str]) -> None:
    """The table has a row for each end, as the delegation has it."""
    by_id = {row[0]: row[1:] for row in rows}
    assert {way: by_id[id_][:2] for way, id_ in ways.items() if id_ in by_id} == {
        "answered": ("completed", None),
        "declined": ("failed", "rejected"),
        "again": ("cancelled", "cancelled"),
        "cancelled": ("cancelled", "cancelled"),
        "below": ("cancelled", "cancelled"),
        "expired": ("failed", "expired"),
        "recorded": ("completed", None),
        "recorded failed": ("failed", "reported"),
        "pushed": ("completed", None),
        "refused": ("failed", "refused"),
        "target gone": ("failed", "target_removed"),
    }
    assert by_id.keys() == {id_ for way, id_ in ways.items() if way != "open"}
    _, _, depth, attempt, created_at, taken_at, settled_at = by_id[ways["answered"]]
    assert (depth, attempt) == (1, 1)
    assert (created_at, taken_at, settled_at) == (START, START, START + 60 * SECOND)
    assert by_id[ways["below"]][2] == 2


@requirement("D18")
async def test_with_and_without_the_history_everything_else_is_the_same(
    engine: Engine, tmp_path: Path, postgres: str
) -> None:
    found = []
    for switch in (False, True):
        folder = tmp_path / str(switch)
        folder.mkdir()
        found.append(await run(engine, await place_for(engine, folder, postgres), folder, switch=switch))
    without, with_it = found
    assert without.pop(HISTORY) == []
    assert len(with_it.pop(HISTORY)) == 11
    assert len(without["delegations"]) == 12 and len(without["events"]) > 60
    for table, rows in without.items():
        assert rows == with_it[table], table


@requirement("D18", "M20")
async def test_a_row_of_the_history_is_kept_ninety_days_and_an_id_may_be_recorded_again(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    clock = FakeClock()
    async with running(engine, place, tmp_path, clock=clock, limits=PACED, delegation_ledger_write=True) as server:
        world = MessageWorld(server, await server.person(), clock, PushNetwork())
        await prune(world)
        lead, ops = await server.seat("Lead"), await server.seat("Ops")
        writer, sender = server.server.delegations.writer, asked(lead, ops).sender

        async def recorded(task: str) -> None:
            row = (await writer.record(lead.id, "mine", ops.id, task, sender)).row
            await writer.update(row, sender, DelegationStatus.COMPLETED, "done", None)

        async def kept() -> list[int]:
            return [row[0] for row in await seen_from_outside(engine, place, f"SELECT settled_at FROM {HISTORY}")]  # noqa: S608

        await recorded("the first")
        assert await kept() == [clock.now()]
        await world.pass_time(40 * 86_400)
        assert (await prune(world)).get("delegations") == 1
        await recorded("the second")
        newest = clock.now()
        assert await kept() == [newest]
        await world.pass_time(89 * 86_400)
        await prune(world)
        assert await kept() == [newest]
        await world.pass_time(2 * 86_400)
        assert (await prune(world))[WHAT] == 1
        assert await kept() == []
