"""The log and what is made of it: the fold is the row, forks refer, bases stay, waits lose nothing."""

import asyncio
import random

import apsw
import asyncpg
import pytest

from molecule_core.client.api import ApiError
from molecule_core.common.clock import yield_to_others
from molecule_core.store.retention import deletion_command
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.threads.fold import fold_entries
from molecule_core.threads.model import UNFOLDED_COLUMNS, LogEntryRow, Thread, thread_wake_key
from molecule_core.threads.retention import _DELETE_STATEMENTS
from molecule_core.threads.waits import is_over_within
from molecule_core.wire.schemas.thread_log import decode_entry
from testing.clocks import FakeClock
from testing.released_stores.stores import asked
from testing.running_server import Running
from testing.thread_world import BASE, Engine, ThreadWorld, code, said, turn
from tests.requirements import requirement

MOVES = ("turn", "steer", "begin", "add", "end", "interrupt", "compact", "close", "resume", "spawn", "send", "claim")


async def _rows(server: Running) -> list[Thread]:
    store = server.server.store
    found = []
    for seat in server.server.registry.workspaces():
        wish = {"workspace_id": seat.id, "state": None, "is_open": None, "before_at": 1 << 61, "before_id": ""}
        page = {"count": 1000, "page_bytes": 1 << 40}
        found += [Thread.from_row(row[:-1]) for row in await store.rows("threads_of_workspace", {**wish, **page})]
    return found


async def _refold(server: Running, thread: Thread) -> Thread:
    wish = {"thread_id": thread.thread_id, "after": 0, "upto": 1 << 61, "count": 100_000}
    lines = [LogEntryRow(*row) for row in await server.server.store.rows("thread_entries_after", wish)]
    assert [each.ordinal for each in lines] == list(range(1, len(lines) + 1))
    return fold_entries((decode_entry(each.body), each.at) for each in lines)


async def _move(chance: random.Random, world: ThreadWorld, engines: dict[str, Engine], move: str) -> None:
    """One thing that somebody does, sensible or not."""
    engine = chance.choice(list(engines.values()))
    where, number = f"/threads/{engine.id}", chance.randrange(10**9)
    client = world.person
    match move:
        case "turn":
            await client.post(f"{where}/turns", {"input": "more", "mode": chance.choice(["auto", "queue"])})
        case "steer":
            await client.post(f"{where}/turns", {"input": "and", "mode": "steer"})
        case "claim":
            await engine.claim()
        case "begin":
            await engine.begin()
        case "add":
            call = {"type": "tool_call", "call_id": f"c{number}", "tool": "t", "arguments": {}}
            usage = {"type": "usage", "record_key": f"k{number % 5}", "input": 3, "output": 1}
            flag = {"type": "status", "flags": chance.choice([[], ["waiting_on_approval"]])}
            await engine.adds(chance.choice([call, usage, flag, said("x")]), usage)
        case "end":
            await engine.ends(chance.choice(["completed", "failed", "interrupted"]), final="f", error="e")
        case "spawn":
            body = {"call_id": f"s{number}", "task_name": f"t{number}", "message": "do", "fork_turns": "all"}
            answer = await client.post(f"{where}/agents/spawn", body)
            child = answer["call"]["new_thread_id"]
            engines[child] = Engine(engine.api, {"thread_id": child})
        case "send":
            target = chance.choice(list(engines))
            body = {"call_id": f"m{number}", "target": target, "message": "do"}
            await client.post(f"{where}/agents/{chance.choice(['send', 'followup'])}", body)
        case "close":
            await client.post(f"{where}/close", {"descendants": chance.choice(["detach", "interrupt", "close"])})
        case "resume":
            await client.post(f"{where}/resume", {"base_instructions": f"base {number}", "developer": "d"})
        case _:
            await client.post(f"{where}/{move}", {})


@requirement("TH1", "TH2")
async def test_whatever_comes_the_fold_of_each_log_is_the_row_that_is_kept(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Go")
    engines = {thread["thread_id"]: Engine(ops.api, thread)}
    chance, done = random.Random(9), 0
    for _ in range(250):
        move = chance.choice(MOVES)
        if len(engines) > 6 and move == "spawn":
            continue
        try:
            await _move(chance, world, engines, move)
            done += 1
        except ApiError as error:
            assert error.status in (403, 404, 409, 422, 429), (move, error)
    assert done > 90
    rows = await _rows(world.server)
    assert len(rows) > 3
    for row in rows:
        again = await _refold(world.server, row)
        kept = {name: getattr(row, name) for name in Thread.__struct_fields__ if name not in UNFOLDED_COLUMNS}
        assert {name: getattr(again, name) for name in kept} == kept


@requirement("TH4", "TH2", "TH5")
async def test_a_fork_refers_and_overrides_are_versions_of_their_own(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Hi", model="m", effort="high", tools=["look"], permissions={"a": 1})
    await Engine(ops.api, thread).works("Hello")
    where = f"/threads/{thread['thread_id']}"
    fork = await world.person.post(f"{where}/fork", {})
    kept = ("model", "effort", "tools", "permissions", "base", "base_instructions")
    source = await world.reads(thread)
    assert {name: fork[name] for name in kept} == {name: source[name] for name in kept}
    assert await world.types(fork) == ["created"]
    assert (await world.reads(fork, "/sight"))["items"] == (await world.reads(thread, "/sight"))["items"]
    other = await world.person.post(f"{where}/fork", {"base_instructions": "Other.", "model": "big"})
    assert (other["base"]["version"], other["base_instructions"], other["model"]) == (1, "Other.", "big")
    resumed = await world.person.post(f"{where}/resume", {"base_instructions": "Anew.", "developer": "D", "model": "z"})
    assert (resumed["base"]["version"], resumed["base"]["provenance"]["type"], resumed["model"]) == (2, "override", "z")
    seen = (await world.reads(thread, "/sight"))["items"]
    assert [each["text"] for each in seen] == ["Anew.", "D", "Hi", "Hello"]
    # The fork still has what it was born with.
    assert (await world.reads(fork))["base_instructions"] == BASE
    assert await code(world.person.post(f"{where}/fork", {"position": 999})) == (422, "invalid_field")


@requirement("TH2")
async def test_the_store_itself_refuses_to_change_base_instructions(
    world: ThreadWorld, engine: str, place: str
) -> None:
    ops = await world.server.seat("Ops")
    await world.starts(ops)
    for change in ("UPDATE thread_bases SET text = 'evil'", "DELETE FROM thread_bases"):
        with pytest.raises((apsw.ConstraintError, asyncpg.RaiseError), match="base instructions"):
            await asked(engine, place, change)  # type: ignore[arg-type]


@requirement("TH3")
async def test_one_engine_at_a_time_and_an_interrupt_holds_at_once(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops, input="Hi")
    one, two = Engine(ops.api, thread), Engine(ops.api, thread, "engine two")
    await one.claim()
    await one.begin()
    assert await code(two.claim()) == (409, "thread_owned")
    await one.adds({"type": "tool_call", "call_id": "c", "tool": "t", "arguments": {}}, key="k")
    repeated = await one.adds({"type": "tool_call", "call_id": "c", "tool": "t", "arguments": {}}, key="k")
    assert (await world.types(thread)).count("tool_call") == 1
    assert repeated["stop"] is None
    taken = await turn(world.person, thread, "Also this", key="same")
    assert taken == await turn(world.person, thread, "Also this", key="same")
    assert [each["entry"]["text"] for each in (await one.adds())["news"]] == ["Also this"]
    await world.person.post(f"/threads/{thread['thread_id']}/interrupt")
    assert (await one.adds(said("late")))["stop"] == "interrupted"
    assert (await one.ends())["status"]["type"] == "interrupted"
    sight = (await world.reads(thread, "/sight"))["items"]
    assert [each["type"] for each in sight[-2:]] == ["user_message", "tool_output"]
    assert sight[-1]["is_error"]
    # Not heard of for a lease: another one may have it.
    await world.clock.advance(61)
    assert (await two.claim())["generation"] == 2


@requirement("TH21", "TH9")
async def test_a_key_of_a_cost_is_as_short_as_any_id_of_a_client(world: ThreadWorld) -> None:
    """Longer ones are refused here: of some stores no index takes them."""
    engine = Engine(world.person, await world.starts(await world.server.seat("Ops"), input="Go"))
    await engine.claim()
    await engine.begin()
    usage = {"type": "usage", "input": 1, "output": 1}
    for length in (129, 9_000):
        assert await code(engine.adds({**usage, "record_key": "\U0001f331" * length})) == (422, "invalid_field")
    for _ in range(2):
        await engine.adds({**usage, "record_key": "\U0001f331" * 128})
    assert (await world.reads({"thread_id": engine.id}))["tokens_used"] == 2


@requirement("TH8")
async def test_a_wait_for_an_agent_that_goes_is_an_error_and_no_end(world: ThreadWorld) -> None:
    ops = await world.server.seat("Ops")
    thread = await world.starts(ops)
    where = f"/threads/{thread['thread_id']}/agents"
    spawn = await ops.api.post(f"{where}/spawn", {"call_id": "s", "task_name": "one", "message": "do"})
    child = spawn["call"]["new_thread_id"]
    waiting = asyncio.ensure_future(ops.api.post(f"{where}/wait", {"call_id": "w", "targets": ["one"], "timeout": 9}))
    await world.until_it_waits(thread, "w")
    await world.person.post(f"/threads/{child}/close")
    answer = await waiting
    assert [(e["outcome"], e["status"]) for e in answer["call"]["agents"]] == [("ended", "shutdown")]
    spawn = await ops.api.post(f"{where}/spawn", {"call_id": "t", "task_name": "two", "message": "do"})
    waiting = asyncio.ensure_future(ops.api.post(f"{where}/wait", {"call_id": "v", "targets": ["two"], "timeout": 9}))
    await world.until_it_waits(thread, "v")
    await _retention_takes(world, spawn["call"]["new_thread_id"])
    assert await code(waiting) == (409, "source_lost")


async def _retention_takes(world: ThreadWorld, thread_id: str) -> None:
    """As retention does, before its time; who waits is rung by the next change of the thread."""
    store = world.server.server.store
    await store.run(deletion_command("", [(name, {"thread_id": thread_id}) for name in _DELETE_STATEMENTS]))
    world.server.server.wakeups.notify([thread_wake_key(thread_id)])


# -- the race ----------------------------------------------------------------------------------------------------------


class _Race:
    """A thread that ends at a moment of chance while somebody begins to wait for it."""

    def __init__(self, seed: int, wakeups: Notifier) -> None:
        self.chance = random.Random(seed)
        self.wakeups = wakeups
        self.ended = False

    async def pause(self) -> None:
        for _ in range(self.chance.randrange(4)):
            await yield_to_others()

    async def end(self) -> None:
        await self.pause()
        self.ended = True
        await self.pause()
        self.wakeups.notify(["thread:x"])

    async def look(self) -> Poll[bool]:
        await self.pause()
        found = self.ended
        await self.pause()
        return Poll(True if found else None)

    async def careless(self) -> bool:
        """The control: looks first, and subscribes then."""
        if (await self.look()).result:
            return True
        first = True

        async def only_when_rung() -> Poll[bool]:
            nonlocal first
            if first:
                first = False
                return Poll(None)
            return await self.look()

        return await is_over_within(self.wakeups, ["thread:x"], only_when_rung, 5)


async def _lost(seeds: range, *, careless: bool) -> int:
    clock, lost = FakeClock(), 0
    for seed in seeds:
        race = _Race(seed, Notifier(clock))
        work = race.careless() if careless else is_over_within(race.wakeups, ["thread:y", "thread:x"], race.look, 5)
        waiting = asyncio.ensure_future(work)
        await race.end()
        for _ in range(24):
            await yield_to_others()
        lost += not waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    return lost


@requirement("TH8")
async def test_ten_thousand_interleavings_lose_no_wake_up_and_the_careless_one_does() -> None:
    assert await _lost(range(10_000), careless=False) == 0
    assert await _lost(range(500), careless=True) > 0
