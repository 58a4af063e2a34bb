"""What is owed is kept as long as it can become overdue, however old it is, and goes once all could see it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.common.clock import DAY
from testing.clocks import FakeClock
from testing.delegation_steps import prune
from testing.engines import Engine
from testing.live_clients import journal_of
from testing.message_world import REPLY_SECONDS, MessageWorld, many_asked, reply
from testing.push_agents import PushNetwork
from testing.running_server import UNHURRIED, Seat, running
from testing.waits import refused
from tests.requirements import requirement

DAY_SECONDS = 86_400.0
# No round of the server's own comes between those of a test.
LIMITS = replace(UNHURRIED, prune_seconds=1_000_000_000)


@pytest.fixture
async def kept(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """An office where old messages go when a test says so. Nobody is reminded of anything."""
    async with running(engine, place, tmp_path, clock=clock, limits=LIMITS) as server:
        await prune(world := MessageWorld(server, await server.person(), clock, PushNetwork()))
        yield world


async def asked(world: MessageWorld, **fields: Any) -> tuple[Seat, str]:
    """A seat whose agent owes one answer, and has had something newer, which wants none; the handle of the first."""
    ops, _ = await many_asked(world, 1, **fields)
    await world.ask(ops, "by the way", intent="inform")
    (newer,) = await world.take(ops)
    await ops.api.ack(ops.id, newer)
    (owed,) = await world.owed(ops)
    return ops, str(owed["handle"])


async def states(world: MessageWorld, seat: Seat) -> list[str]:
    """How each that is owed stands, or stood."""
    return [each["state"] for each in await world.owed(seat)]


async def went(world: MessageWorld) -> int:
    """How many messages a round of retention takes; what it would take is asked before, and is the same."""
    would = await world.server.admin.post("/admin/prune", dry_run="true")
    gone = (await prune(world)).get("messages", 0)
    assert would["rows"].get("messages", 0) == gone
    return gone


@requirement("M20", "M28", "P4")
async def test_what_a_paused_seat_owes_is_kept_and_is_answered_after_the_pause(kept: MessageWorld) -> None:
    ops, handle = await asked(kept)
    await kept.person.post(f"/workspaces/{ops.id}/pause")
    await kept.pass_time(8 * DAY_SECONDS)
    assert (await went(kept), await states(kept, ops)) == (0, ["open"])
    await kept.person.post(f"/workspaces/{ops.id}/resume")
    await reply(ops, handle, "done")
    assert await states(kept, ops) == ["answered"]
    assert (await went(kept), await states(kept, ops)) == (1, [])


@requirement("M20", "M28", "P4")
async def test_where_an_answer_has_more_time_than_retention_it_becomes_overdue_all_the_same(kept: MessageWorld) -> None:
    ops, handle = await asked(kept, reply_seconds=30 * 86_400)
    for days in (8, 22, 29):
        await kept.pass_time(days * DAY_SECONDS)
        assert (await went(kept), await states(kept, ops)) == (0, ["open"])
    await kept.pass_time(DAY_SECONDS)
    assert await states(kept, ops) == ["overdue"]
    await reply(ops, handle, "at last")
    assert await states(kept, ops) == ["answered"]


@requirement("M20", "M28", "P4")
async def test_what_was_owed_while_the_server_was_off_becomes_overdue_before_it_goes(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock, limits=LIMITS) as server:
        ops, _ = await asked(MessageWorld(server, await server.person(), clock, PushNetwork()))
    clock.at += 8 * DAY
    async with running(engine, place, tmp_path, clock=clock, seed=1, limits=LIMITS) as server:
        world = MessageWorld(server, server.admin, clock, PushNetwork())
        await world.rest()
        assert (await went(world), await states(world, ops)) == (0, ["open"])
        await world.pass_time(REPLY_SECONDS)
        assert await states(world, ops) == ["overdue"]


@requirement("M20", "M28")
async def test_what_is_overdue_goes_when_it_is_old_and_who_watches_is_told(kept: MessageWorld) -> None:
    ops, handle = await asked(kept)
    for _ in range(2):
        await kept.pass_time(REPLY_SECONDS)
    assert await states(kept, ops) == ["overdue"]
    await kept.pass_time(8 * DAY_SECONDS)
    newest = (await journal_of(kept.server))[-1]["seq"]
    assert (await went(kept), await states(kept, ops)) == (1, [])
    (event,) = await journal_of(kept.server, after=newest)
    assert (event["event"], event["payload"]["tick"]) == ("MESSAGE_TICK", "forgotten")
    assert (await refused(reply(ops, handle, "too late"))).code == "unknown_handle"


@requirement("M20", "M28")
async def test_where_nobody_watches_what_is_old_goes_without_an_answer(kept: MessageWorld) -> None:
    ops, _ = await asked(kept, reply_seconds=0)
    await kept.pass_time(8 * DAY_SECONDS)
    assert (await went(kept), await states(kept, ops)) == (1, [])
