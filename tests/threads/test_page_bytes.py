"""Long texts of threads: a page ends where it is full, has at least one line, and is followed by the next."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from testing.clocks import FakeClock
from testing.engines import Engine as Store
from testing.running_server import UNHURRIED, Seat, running
from testing.thread_world import Engine, Item, ThreadWorld, said
from testing.waits import bounded
from tests.requirements import requirement

LONG = "ä" * 500
"""1,000 bytes; two and a half of it fill a page."""
PAGE = 2500


@pytest.fixture
async def narrow(engine: Store, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[ThreadWorld]:
    """A house of small pages."""
    async with running(engine, place, tmp_path, clock=clock, limits=replace(UNHURRIED, page_bytes=PAGE)) as server:
        yield ThreadWorld(server, await server.person(), clock)


async def at_work(seat: Seat, thread: Item) -> Engine:
    """An engine in the turn of a thread."""
    engine = Engine(seat.api, thread)
    await engine.claim()
    await engine.begin()
    return engine


async def pages(world: ThreadWorld, thread: Item, after: int = 0, **query: int) -> list[list[Item]]:
    """All pages of its log behind a line, up to the one that has reached the end."""
    found = list[list[Item]]()
    while True:
        page = await world.reads(thread, "/items", after=after, **query)
        found.append(page["items"])
        if page["reached_end"]:
            return found
        after = page["items"][-1]["ordinal"]


@requirement("TH1", "S14")
async def test_a_page_of_a_log_ends_where_its_lines_fill_it_and_its_pages_reach_everything(narrow: ThreadWorld) -> None:
    ops = await narrow.server.seat("Ops")
    thread = await narrow.starts(ops, input="Go")
    engine = await at_work(ops, thread)
    first = (await engine.adds(*(said(LONG) for _ in range(7))))["last_ordinal"] - 7
    found = await pages(narrow, thread, first)
    assert [len(page) for page in found] == [3, 3, 1]
    assert [line["ordinal"] for page in found for line in page] == list(range(first + 1, first + 8))
    assert {line["entry"]["text"] for page in found for line in page} == {LONG}
    assert [len(page) for page in await pages(narrow, thread, first, limit=2)] == [2, 2, 2, 1]
    assert [len(page) for page in await pages(narrow, thread, first + 1)] == [3, 3], "none is behind the last"
    assert await pages(narrow, thread, first + 7) == [[]]
    await engine.adds(said(LONG * 9), said(LONG * 9))
    assert [len(page) for page in await pages(narrow, thread, first + 7)] == [1, 1]


@requirement("TH1", "TH4")
async def test_its_engine_sees_the_whole_of_a_log_that_is_more_than_a_page(narrow: ThreadWorld) -> None:
    ops = await narrow.server.seat("Ops")
    thread = await narrow.starts(ops, input="Go")
    engine = await at_work(ops, thread)
    await engine.adds(*(said(f"{number} {LONG}") for number in range(9)))
    wanted = [f"{number} {LONG}" for number in range(9)]
    for seen in (await engine.begin(), await narrow.reads(thread, "/sight")):
        items = seen.get("sight", seen)["items"]
        assert [each["text"] for each in items if each["role"] == "assistant"] == wanted


@requirement("TH1", "S14")
async def test_base_instructions_fill_pages_of_a_log_with_their_text(narrow: ThreadWorld) -> None:
    ops = await narrow.server.seat("Ops")
    thread = await narrow.starts(ops, base_instructions=f"0 {LONG}")
    for number in range(1, 7):
        wish = {"base_instructions": f"{number} {LONG}"}
        await bounded(ops.api.post(f"/threads/{thread['thread_id']}/resume", wish))
    found = await pages(narrow, thread)
    texts = [line["entry"]["text"] for page in found for line in page if line["type"] == "base"]
    assert texts == [f"{number} {LONG}" for number in range(7)]
    assert all(sum(line["type"] == "base" for line in page) <= 3 for page in found)


@requirement("S14")
async def test_a_list_of_threads_ends_where_their_answers_fill_it_and_its_pages_reach_everything(
    narrow: ThreadWorld,
) -> None:
    ops = await narrow.server.seat("Ops")
    wanted = list[str]()
    for number in range(7):
        thread = await narrow.starts(ops, input="Go")
        await Engine(ops.api, thread).works(f"{number} {LONG}")
        await narrow.clock.advance(1)
        wanted.insert(0, f"{number} {LONG}")
    found, before = list[list[str]](), None
    while True:
        page = await narrow.person.get(f"/workspaces/{ops.id}/threads", before=before)
        found.append([each["status"]["message"] for each in page["threads"]])
        if page["reached_end"]:
            break
        before = page["threads"][-1]["thread_id"]
    assert [text for page in found for text in page] == wanted
    assert [len(page) for page in found] == [3, 3, 1]


@requirement("S14")
async def test_of_long_calls_between_agents_the_last_ones_that_fill_a_page_are_shown(narrow: ThreadWorld) -> None:
    ops = await narrow.server.seat("Ops")
    thread = await narrow.starts(ops, input="Go")
    await at_work(ops, thread)
    for number in range(4):
        wish = {"call_id": f"s{number}", "task_name": f"dig_{number}", "message": LONG}
        await bounded(ops.api.post(f"/threads/{thread['thread_id']}/agents/spawn", wish))
        await narrow.clock.advance(1)
    page = await narrow.reads(thread, "/collab")
    told = [(each["entry"]["call_id"], each["entry"]["status"]) for each in page["calls"]]
    assert (
        told == [(f"s{number}", status) for number in range(4) for status in ("inProgress", "completed")][-len(told) :]
    )
    assert 2 <= len(told) <= 3
    assert len(page["mail"]) == 4, "letters are shown without their texts"
