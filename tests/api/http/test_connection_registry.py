"""Who is connected, when the last one has gone, and what day it is."""

import asyncio
import email.utils

from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.api.http.connection_registry import ConnectionRegistry, format_http_date
from molecule_core.common.clock import SECOND
from testing.clocks import FakeClock
from testing.waits import bounded


@given(st.integers(0, 253402300799))
def test_a_date_is_written_as_the_standard_library_writes_it_for_http(second: int) -> None:
    assert format_http_date(second).decode() == email.utils.formatdate(second, usegmt=True)


async def test_the_date_goes_on_with_the_clock_and_is_made_once_a_second() -> None:
    clock = FakeClock()
    crowd = ConnectionRegistry(clock)
    first = crowd.date_header()
    assert crowd.date_header() is first

    await clock.advance(1)

    assert crowd.date_header() != first
    assert crowd.date_header() == b"date: %b\r\n" % format_http_date(clock.now() // SECOND)


async def test_nobody_who_is_not_there_is_waited_for() -> None:
    ending = asyncio.create_task(ConnectionRegistry(FakeClock()).wait_until_empty())
    await checkpoint()
    assert ending.done()


async def test_the_end_waits_for_the_last_connection_and_for_the_last_task() -> None:
    crowd, steps = ConnectionRegistry(FakeClock()), list[str]()
    crowd.connections.add("a client")
    crowd.tasks.add("its answer")

    async def end() -> None:
        await crowd.wait_until_empty()
        steps.append("ended")

    ending = asyncio.create_task(end())
    for what, member in (
        (crowd.connections, "somebody else"),
        (crowd.connections, "a client"),
        (crowd.tasks, "its answer"),
    ):
        await checkpoint()
        steps.append(member)
        what.discard(member)
    await bounded(ending)

    assert steps == ["somebody else", "a client", "its answer", "ended"]


class Guest:
    """A connection that only says what it was told."""

    def __init__(self, told: list[str], name: str) -> None:
        self._told, self._name = told, name

    def shutdown(self) -> None:
        self._told.append(self._name)


async def test_whoever_comes_when_the_end_has_begun_is_told_of_it_too() -> None:
    crowd, told = ConnectionRegistry(FakeClock()), list[str]()
    crowd.connections.add(Guest(told, "there"))
    crowd.connections.shut_down_all()
    assert told == ["there"]

    late, gone = Guest(told, "late"), Guest(told, "gone again")
    crowd.connections.add(late)
    crowd.connections.add(gone)
    crowd.connections.discard(gone)
    assert told == ["there"], "it has only begun to connect"
    await checkpoint()

    assert told == ["there", "late"]
