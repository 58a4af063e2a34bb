"""A server for the conformance kit of A2A, in a test's process or as one of several on a database.

As a process: `python -m tests.interop.conformance_server NUMBER PORT DATABASE FOLDER URL LINE`. It writes the port once
it listens, and serves until it is killed.
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from molecule_core.common.limits import Limits
from molecule_core.common.net.ip_policy import NetPolicy
from molecule_core.common.net.safe_fetch import SafeFetcher, resolve_name
from testing.engines import Engine
from testing.running_server import UNHURRIED, Running, running

_PUBLIC = "93.184.215.14"
"""An address of example.com, whose name the kits use and a test machine may not resolve."""


async def resolve(name: str, port: int) -> Sequence[str]:
    """Resolve the name that the kits use without a network."""
    return [_PUBLIC] if name == "example.com" else await resolve_name(name, port)


@contextlib.asynccontextmanager
async def conformance_server(
    engine: Engine, place: str, state: Path, url: str, line: str, *, number: int = 0, port: int = 0
) -> AsyncIterator[Running]:
    """A server whose addresses begin with `url`. `number`: its own in its database. `port`: 0 for a free one."""
    fetcher = SafeFetcher(NetPolicy.from_networks(("127.0.0.0/8", "::1/128")), Limits(), resolver=resolve)
    async with running(
        engine,
        place,
        state,
        limits=UNHURRIED,
        fetcher=fetcher,
        seed=number,
        on_port=port,
        push_instructions_enabled=True,
        public_url=url,
        a2a_legacy_cards=line != "1.0",
        files_dir=str(state.parent / "files") if engine == "postgres" else "",
    ) as server:
        yield server


async def _main(number: str, port: str, place: str, folder: str, url: str, line: str) -> None:
    state = Path(folder)
    state.mkdir(exist_ok=True)
    async with conformance_server("postgres", place, state, url, line, number=int(number), port=int(port)) as server:
        sys.stdout.write(f"{server.port}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
