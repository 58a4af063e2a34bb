"""What a first signal has done before the end, and what a second one does to that."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.server.composition import Server
from molecule_core.server.listener import HttpListener, run_before
from testing.engines import Engine
from testing.raw_http import request, wire
from testing.running_server import running
from tests.requirements import requirement


class Deed:
    """Something that takes until it is let go on; `said` has what came after it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._may_end = asyncio.Event()
        self.call = run_before(self._work, lambda: self.said.append("stop"))

    async def _work(self) -> None:
        await self._may_end.wait()
        self.said.append("done")

    async def ends(self) -> None:
        """It is done, and whoever waits for that has heard of it."""
        self._may_end.set()
        for _ in range(3):
            await checkpoint()


@requirement("O1")
async def test_the_end_begins_once_what_comes_before_it_is_done() -> None:
    deed = Deed()
    deed.call()
    await checkpoint()
    assert deed.said == []
    await deed.ends()
    assert deed.said == ["done", "stop"]
    deed.call()
    assert deed.said == ["done", "stop", "stop"]


@requirement("O1")
async def test_a_second_signal_begins_the_end_at_once_and_hurries_nobody_when_the_first_is_done() -> None:
    deed = Deed()
    deed.call()
    deed.call()
    assert deed.said == ["stop"]
    await deed.ends()
    assert deed.said == ["stop", "done"]


@pytest.mark.parametrize("engine", ["sqlite"])
async def test_a_request_that_never_arrives_whole_is_cut_off_when_the_grace_of_the_shutdown_ends(
    engine: Engine, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def impatient(server: Server) -> HttpListener:
        listener = HttpListener(server)
        listener.grace_seconds = 0
        return listener

    monkeypatch.setattr("testing.running_server.HttpListener", impatient)
    async with contextlib.AsyncExitStack() as stack:
        async with running(engine, place, tmp_path) as server:
            connection = await stack.enter_async_context(wire(server.port))
            half = b"POST /workspaces HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{"
            await connection.send(request("GET", "/health") + half)  # one write: after the answer, both have arrived
            assert (await connection.reply()).status == 200
        assert not server.server.connection_registry.connections
        assert await connection.hung_up()
