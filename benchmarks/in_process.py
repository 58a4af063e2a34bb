"""The product's own server inside the process that measures: what no look from outside can tell is counted here."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec import Struct

from benchmarks.servers import START_SECONDS, Place
from molecule_core.common.limits import Limits
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from molecule_core.server.listener import HttpListener

ADMIN_TOKEN = "bench-" + "a" * 32


class Alive(Struct, frozen=True):
    """What the loop keeps for what is under way."""

    tasks: int
    timers: int


@asynccontextmanager
async def server_here(place: Place, admin_token: str, limits: Limits) -> AsyncIterator[int]:
    """A server on a place, in this loop; its port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        server = Server(Settings(port=port, state_dir=str(place.folder), limits=limits), admin_token=admin_token)
        await server.open()
        http = HttpListener(server)
        serving = asyncio.create_task(http.serve(sockets=[listener]))
        try:
            async with asyncio.timeout(START_SECONDS):
                await http.listening.wait()
            yield port
        finally:
            http.stop()
            await serving
            await server.close()


def alive() -> Alive:
    """Tasks that have not ended, and timers that will ring. (uvloop lists no timers, so they are found among all
    objects; its handles are tracked by the collector.)"""
    gc.collect()
    timers = [each for each in gc.get_objects() if type(each).__name__ == "TimerHandle"]
    return Alive(len(asyncio.all_tasks()), sum(not each.cancelled() for each in timers))
