"""`molecule mcp`: an agent's process. Answers its host first, loads what is heavy then, and ends when the host is gone.

Above: entry, the command line. Below: stdio, host, the dispatcher; engine, once the host has its answer.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

from molecule_core.agent.config import BadConfiguration, Configuration, read_configuration, relays_as
from molecule_core.agent.host import AgentHost
from molecule_core.agent.hosts import CHANNEL, wants_channel
from molecule_core.agent.permissions import CAPABILITY as PERMISSION
from molecule_core.agent.permissions import METHOD as PERMISSION_REQUEST
from molecule_core.agent.permissions import Permissions
from molecule_core.agent.stdio import Stdio
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.logs import hide, set_up_logs
from molecule_core.wire.mcp import Eras, Session

_log = logging.getLogger("molecule.agent")
REFUSED, BAD_CONFIGURATION = 3, 2
# Requests that were under way when the host closed its end still get their answers, if they come so soon.
_LAST_SECONDS = 1.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    """One life of an agent's process; returns its exit code."""
    try:
        config = read_configuration(os.environ)
    except BadConfiguration as error:
        sys.stderr.write(f"molecule mcp: {error}\n")
        return BAD_CONFIGURATION
    for seat in config.seats:
        hide(seat.token)
    set_up_logs("debug" if config.wishes.verbose else "info", "text")
    for name in ("httpx2", "httpcore2", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return asyncio.run(Process(config).run())


class Process:
    """The host's connection, and what works behind it."""

    def __init__(self, config: Configuration) -> None:
        self._config = config
        self._clock = SystemClock()
        self._permissions = Permissions(relays=relays_as(config) is not None)

    async def run(self) -> int:
        """Until the host closes its end, a signal comes, or the only seat is refused; returns the exit code."""
        loop = asyncio.get_running_loop()
        self._end: asyncio.Future[int] = loop.create_future()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._ends, 0)
        stdio = await Stdio.open(self._config.wishes.line_bytes)
        host = AgentHost(self._config)
        # A host that finds the newer protocol offers no way to be pushed to.
        eras = Eras.BOTH if self._config.wishes.channel == "off" else Eras.HANDSHAKE
        session = Session(
            host,
            stdio.send,
            eras=eras,
            experimental=self._offered,
            on_notification=self._notified,
            on_fault=_told,
            most_calls=self._config.wishes.calls,
        )
        host.client = lambda: session.client
        working = asyncio.create_task(self._work(stdio, host, session))
        reading = asyncio.create_task(self._read(stdio, session))
        code = await self._end
        for task in (reading, working):
            task.cancel()
        await asyncio.gather(reading, working, return_exceptions=True)
        await session.close()
        await self._clock.wait(stdio.close(), _LAST_SECONDS)
        return code

    def _ends(self, code: int) -> None:
        if not self._end.done():
            self._end.set_result(code)

    async def _read(self, stdio: Stdio, session: Session) -> None:
        async for line in stdio.lines():
            await session.take_line(line)
        await self._clock.wait(session.drain(), _LAST_SECONDS)
        self._ends(0)

    async def _work(self, stdio: Stdio, host: AgentHost, session: Session) -> None:
        await self._clock.wait(stdio.spoke.wait(), self._config.wishes.start_seconds)
        try:
            engine = self._engine(host)
        except Exception as error:
            _log.exception("this agent cannot work")
            host.give_up(error)
            return
        host.begin(engine)
        pushing = asyncio.create_task(engine.push_to(session.notify, session.initialized))
        relaying = asyncio.create_task(engine.relay(self._permissions, session.notify))
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            pushing.cancel()
            relaying.cancel()
            await asyncio.shield(engine.stop())

    def _engine(self, host: AgentHost) -> Any:
        from molecule_core.agent.engine import Engine

        engine = Engine(self._config, clock=self._clock, card=host.card, client=host.client, refused=self._refused)
        engine.seats.start()
        return engine

    def _offered(self, client: dict[str, Any]) -> Mapping[str, Any]:
        offers = wants_channel(self._config.wishes.channel, client)
        relays: dict[str, Any] = {PERMISSION: {}} if relays_as(self._config) is not None else {}
        return {CHANNEL: {}, **relays} if offers else {}

    def _refused(self, text: str) -> None:
        _log.error("%s", text)
        self._ends(REFUSED)

    async def _notified(self, method: str, params: dict[str, Any]) -> None:
        if method == PERMISSION_REQUEST:
            self._permissions.take(params)


def _told(error: BaseException) -> None:
    if not isinstance(error, OSError):  # a host that is gone is noticed at the other stream
        _log.error("a fault in the agent's own process", exc_info=error)
