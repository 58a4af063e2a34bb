"""Wake-ups by a real NATS server: they arrive, and its end and return are survived."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from anyio.lowlevel import checkpoint

from molecule_core.common.errors import BadSettings
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from molecule_core.store.bus import BusTransportLost
from molecule_core.store.nats import NatsTransport
from testing.ports import free_port
from testing.processes import Process, started
from testing.running_server import ADMIN_TOKEN
from testing.waits import bounded, eventually, until_waiting
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import servers
from tests.system.multi_process.test_wakeups import ready

NATS_SERVER = str(Path(sys.executable).parent / "nats-server")


@contextlib.asynccontextmanager
async def nats_server(port: int) -> AsyncIterator[Process]:
    """A NATS server until the block ends."""
    async with started(NATS_SERVER, "--addr", "127.0.0.1", "--port", str(port), env={}) as process:
        await process.says("Server is ready")
        yield process


@requirement("M38")
async def test_wake_ups_go_by_nats_and_outlive_its_end(place: str, tmp_path: Path) -> None:
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        async with nats_server(port):
            one, other = await stack.enter_async_context(servers(place, tmp_path, nats=f"nats://127.0.0.1:{port}"))
            assert [await ready(each) for each in (one, other)] == ["listening"] * 2
            ops, person = await other.seat("Ops"), await other.person()
            for number in range(3):
                waiting = asyncio.create_task(
                    one.api(ops.token).get(f"/workspaces/{ops.id}/activity", claim=60, wait=25)
                )
                await until_waiting(one.server, 1)
                await person.send(ops.id, f"{number}")
                assert [row["summary"] for row in await bounded(waiting)] == [f"{number}"]
        await eventually(lambda: ready(one), lambda said: said.startswith("degraded"))
        waiting = asyncio.create_task(one.api(ops.token).claim(ops.id))
        await until_waiting(one.server, 1)
        await person.send(ops.id, "while it is away")  # nobody is told
        await stack.enter_async_context(nats_server(port))
        async with asyncio.timeout(20):
            assert [row["summary"] for row in await waiting] == ["while it is away"]


@requirement("M38")
@pytest.mark.parametrize("ask", [lambda link: link.check(), lambda link: link.send("hello")], ids=["check", "send"])
async def test_who_waits_for_a_server_that_ends_meanwhile_is_told_at_once(
    ask: Callable[[NatsTransport], Awaitable[None]],
) -> None:
    port, lost = free_port(), asyncio.Event()
    link = NatsTransport(f"nats://127.0.0.1:{port}", "epoch")
    async with nats_server(port) as process:
        await link.connect(lambda _: None, lost.set)
        process.send(signal.SIGSTOP)
        asking = asyncio.ensure_future(ask(link))
        await checkpoint()
        assert not asking.done()
        await process.kill()
        with pytest.raises(BusTransportLost):
            await bounded(asking)
        await bounded(lost.wait())
    await link.close()


@requirement("M38")
async def test_without_nats_a_server_starts_all_the_same(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path, 1, nats=f"nats://127.0.0.1:{free_port()}") as (one,):
        assert (await ready(one)).startswith("degraded")


def test_nats_without_postgres_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="Set database too"):
        Server(Settings(state_dir=str(tmp_path), nats="nats://127.0.0.1"), admin_token=ADMIN_TOKEN)


def test_nats_without_its_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(state_dir=str(tmp_path), database="postgresql://db", nats="nats://a")
    server = Server(settings, admin_token=ADMIN_TOKEN)
    monkeypatch.setitem(sys.modules, "molecule_core.store.nats", None)
    with pytest.raises(BadSettings, match="WHEEL\\[nats\\]"):
        server.runtime._create_transport()
