"""Retention of threads: what is closed goes after its time, with all that is its own; what lives, or is seen, stays."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.common.clock import DAY
from molecule_core.common.limits import Limits
from molecule_core.tools.runners.collaboration_tools import session_thread
from molecule_core.tools.runners.requester import RetryingRequester
from testing.clocks import FakeClock, SeededRandomness
from testing.engines import Engine as Kind
from testing.running_server import Seat, running
from testing.thread_world import Engine, Item, ThreadWorld, code, turn
from testing.waits import bounded
from tests.requirements import requirement
from tests.store.instrumented_store import seen_from_outside

_A_WEEK = 7 * DAY / 1_000_000
_TABLES = ("threads", "thread_entries", "thread_bases", "thread_turns", "thread_mail", "thread_usage", "thread_keys")
# Time goes by days here, and only retention is to notice.
_LIMITS = Limits(retention_batch=40, sweep_seconds=10_000_000, prune_seconds=1_000_000_000, silence_seconds=10_000_000)


@pytest.fixture
async def world(engine: Kind, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[ThreadWorld]:
    async with running(engine, place, tmp_path, clock=clock, limits=_LIMITS) as server:
        # Its own first round is over before there is anything to prune, and never comes between.
        while not server.server._retention.rounds:
            await bounded(server.server._retention.on_due(""))
        yield ThreadWorld(server, await server.person(), clock)


async def pruned(world: ThreadWorld) -> int:
    """One whole round, which begins now; how many threads it took."""
    retention, found = world.server.server._retention, 0
    async for batch in retention._all_batches(retention.cutoff):
        if batch.command is not None:
            await bounded(world.server.server.store.run(batch.command))
            found += batch.rows if batch.what == "threads" else 0
    return found


async def rows_of(engine: Kind, place: str, threads: Sequence[str]) -> dict[str, int]:
    """What the store still has of these threads."""
    names = ", ".join(f"'{each}'" for each in threads)
    found = {}
    for table in _TABLES:
        column = "receiver_id" if table == "thread_mail" else "thread_id"
        sql = f"SELECT count(*) FROM {table} WHERE {column} IN ({names})"  # noqa: S608
        found[table] = (await seen_from_outside(engine, place, sql))[0][0]
    return found


async def tree(world: ThreadWorld) -> tuple[Item, Item]:
    """A root and a child that both have worked, with all that a thread may have."""
    ops = await world.server.seat("Ops")
    root = await world.starts(ops, input="Go", key="mine")
    lead = Engine(ops.api, root)
    await lead.claim()
    await lead.begin()
    await lead.adds({"type": "usage", "record_key": "one", "input": 1, "output": 1})
    spawn = {"call_id": "s", "task_name": "one", "message": "do"}
    call = (await bounded(ops.api.post(f"/threads/{root['thread_id']}/agents/spawn", spawn)))["call"]
    child = {"thread_id": call["new_thread_id"]}
    await Engine(ops.api, child).works()
    await lead.ends()
    await Engine(ops.api, root).works()
    return root, child


async def close(world: ThreadWorld, thread: Item) -> None:
    await bounded(world.person.post(f"/threads/{thread['thread_id']}/close", {}))


class Counting:
    """Speaks, and counts the answers."""

    def __init__(self, speaks: RetryingRequester) -> None:
        self._speaks = speaks
        self.count = 0

    async def call(self, *given: Any, **more: Any) -> Any:
        """A request."""
        answer = await self._speaks.call(*given, **more)
        self.count += 1
        return answer


async def sessions_in_a_row(world: ThreadWorld, seat: Seat, speaks: Any, count: int) -> list[Item]:
    """The session threads of a seat, each of which was closed before the next one began; the last is open."""
    found = list[Item]()
    for number in range(count):
        if number:
            await close(world, found[-1])
        found.append({"thread_id": await bounded(session_thread(speaks, seat.id))})
    return found


@requirement("TH23", "M20")
async def test_a_tree_goes_when_all_of_it_is_closed_and_old_with_everything_it_had(
    world: ThreadWorld, engine: Kind, place: str
) -> None:
    root, child = await tree(world)
    both = [root["thread_id"], child["thread_id"]]
    await close(world, child)
    await world.clock.advance(_A_WEEK + 1)
    assert await pruned(world) == 0, "its tree lives"
    assert (await world.reads(root, "/tree"))["lifetime"] == 1
    await close(world, root)
    assert await pruned(world) == 0, "the root is closed since now"
    assert all((await rows_of(engine, place, both)).values())
    await world.clock.advance(_A_WEEK + 1)
    assert await pruned(world) == 2
    assert not any((await rows_of(engine, place, both)).values())
    for what in ("", "/items", "/sight", "/tree", "/collab", "/agents"):
        assert await code(world.reads(root, what)) == (404, "not_found")
    assert await code(turn(world.person, root, "Are you there?")) == (404, "not_found")
    # What its caller called it is free again.
    seat = (await world.person.get("/workspaces"))[0]
    wish = {"base_instructions": "Be kind.", "key": "mine"}
    again = await world.person.post(f"/workspaces/{seat['id']}/threads", wish)
    assert again["thread_id"] != root["thread_id"]


@requirement("TH23", "TH4")
async def test_what_a_fork_sees_stays_and_is_whole_until_the_fork_is_gone(world: ThreadWorld) -> None:
    root, child = await tree(world)
    fork = await bounded(world.person.post(f"/threads/{root['thread_id']}/fork", {}))
    later = await bounded(world.person.post(f"/threads/{fork['thread_id']}/fork", {}))
    seen = (await world.reads(later, "/sight"))["items"]
    for each in (root, child, fork):
        await close(world, each)
    await world.clock.advance(_A_WEEK + 1)
    assert await pruned(world) == 1, "the child, which nobody sees"
    assert (await world.reads(later, "/sight"))["items"] == seen
    await close(world, later)
    await world.clock.advance(_A_WEEK + 1)
    assert [await pruned(world) for _ in range(4)] == [1, 1, 1, 0], "the last fork first"


@requirement("TH23")
async def test_a_thread_that_is_taken_up_or_forked_after_it_was_found_stays(world: ThreadWorld) -> None:
    kept, seen = [await world.starts(await world.server.seat(f"Seat {each}"), input="Go") for each in range(2)]
    gone = [await world.starts(await world.server.seat("Other"), input="Go") for _ in range(30)]
    for each in (kept, seen, *gone):
        await close(world, each)
    await world.clock.advance(_A_WEEK + 1)
    retention, sizes = world.server.server._retention, list[int]()
    async for batch in retention._all_batches(retention.cutoff):
        if batch.what == "threads" and batch.command is not None:
            if not sizes:
                await bounded(world.person.post(f"/threads/{kept['thread_id']}/resume", {}))
                await bounded(world.person.post(f"/threads/{seen['thread_id']}/fork", {}))
            sizes.append(batch.rows)
            await bounded(world.server.server.store.run(batch.command))
    lines = len(await world.log(seen))
    assert sum(sizes) == 32
    assert max(sizes) <= 40 // lines, "a batch is as large as the logs in it"
    assert not (await world.reads(kept))["closed"]
    assert (await world.reads(seen))["closed"]
    assert {(await code(world.reads(each)))[0] for each in gone} == {404}


@requirement("TH23", "TH10")
async def test_closed_sessions_go_and_the_one_in_use_is_found_all_the_same(
    world: ThreadWorld, engine: Kind, place: str
) -> None:
    ops = await world.server.seat("Ops")
    speaks = RetryingRequester(ops.api, BoundedRetry(clock=world.clock, randomness=SeededRandomness()))
    sessions = await sessions_in_a_row(world, ops, speaks, 4)
    gone = [each["thread_id"] for each in sessions[:-1]]
    # The middle one is taken up for a while: so it is the last of the three to go, out of its place in the row.
    await bounded(world.person.post(f"/threads/{gone[1]}/resume", {}))
    assert await bounded(session_thread(speaks, ops.id)) == gone[1], "the first open one"
    await world.clock.advance(_A_WEEK + 1)
    assert await pruned(world) == 2, "the first and the third"
    await close(world, sessions[1])
    assert await bounded(session_thread(speaks, ops.id)) == sessions[-1]["thread_id"]
    await world.clock.advance(_A_WEEK + 1)
    assert await pruned(world) == 1
    assert await bounded(session_thread(speaks, ops.id)) == sessions[-1]["thread_id"]
    assert not any((await rows_of(engine, place, gone)).values())
    assert (await rows_of(engine, place, [sessions[-1]["thread_id"]]))["thread_keys"] == 1, "and none is left behind"
    await close(world, sessions[-1])
    await world.clock.advance(_A_WEEK + 1)
    assert await pruned(world) == 1
    assert await bounded(session_thread(speaks, ops.id)) not in [each["thread_id"] for each in sessions]


@requirement("TH23", "TH10")
async def test_closed_sessions_in_a_row_may_go_at_once(world: ThreadWorld, engine: Kind, place: str) -> None:
    ops = await world.server.seat("Ops")
    speaks = RetryingRequester(ops.api, BoundedRetry(clock=world.clock, randomness=SeededRandomness()))
    *closed, last = [each["thread_id"] for each in await sessions_in_a_row(world, ops, speaks, 4)]
    # What a caller has called its own thread is no place behind a session, whatever it looks like.
    own = await world.starts(ops)
    other = await world.starts(ops, key=f"session:{own['thread_id']}")
    await close(world, own)
    await world.clock.advance(_A_WEEK + 1)
    assert await pruned(world) == 4
    assert not any((await rows_of(engine, place, closed)).values())
    assert await bounded(session_thread(speaks, ops.id)) == last
    assert (await world.starts(ops, key=f"session:{own['thread_id']}"))["thread_id"] == other["thread_id"]


@requirement("TH10")
async def test_a_session_is_found_by_one_question_however_many_were_closed(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    asked = Counting(RetryingRequester(ops.api, BoundedRetry(clock=world.clock, randomness=SeededRandomness())))
    (last,) = (await sessions_in_a_row(world, ops, asked, 6))[-1:]
    asked.count = 0
    assert await bounded(session_thread(asked, ops.id)) == last["thread_id"]
    assert asked.count == 1
    await close(world, last)
    assert await bounded(session_thread(asked, ops.id)) != last["thread_id"]
    assert asked.count == 3, "the closed one, and the fresh one"
