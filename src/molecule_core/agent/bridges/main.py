"""`molecule bridge command`: the bridge's process, from its environment to its exit code.

Above: the command line. Below: command, and what keeps a seat.
"""

import asyncio
import contextlib
import logging
import shutil
import signal
from collections.abc import Mapping, Sequence

from msgspec import Struct

from molecule_core.agent.bridges.command import Bridge, Runs
from molecule_core.agent.bridges.letters import environment_of
from molecule_core.agent.bridges.outbox import DamagedOutbox, Outbox
from molecule_core.agent.bridges.settings import BridgeWishes
from molecule_core.agent.bridges.streams import StreamRunner
from molecule_core.agent.bridges.turns import Runner
from molecule_core.agent.config import BadConfiguration, Configuration
from molecule_core.agent.connections import Servers
from molecule_core.agent.cursors import CursorFile
from molecule_core.agent.inbox import Inbox
from molecule_core.agent.leader import Leadership
from molecule_core.agent.membership import Membership, Shared
from molecule_core.agent.seats import Seats
from molecule_core.agent.tokens import TokenRegistry
from molecule_core.agent.waiting import at_eof
from molecule_core.client.api import ApiError, NoAnswer
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.ids import SystemRandomness
from molecule_core.wire.cards import BRIDGE, COMMAND_BRIDGE

_log = logging.getLogger("molecule.bridge")
STOPPED, FAILED, REFUSED = 0, 1, 3
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_LAST_SECONDS = 2.0


class Wanted(Struct, frozen=True, kw_only=True):
    """What the bridge is to do. `shell`: the command is one line for the system's shell. `until_eof`: it ends with its
    standard input, and so with whoever started it. `stream`: one process for all messages."""

    command: tuple[str, ...]
    wishes: BridgeWishes
    preamble: bool = False
    shell: bool = False
    until_eof: bool = False
    stream: bool = False


def program_of(wanted: Wanted) -> Sequence[str]:
    """What is started for each message. No shell reads it unless that was asked for. Raises BadConfiguration."""
    if not wanted.command:
        raise BadConfiguration("there is no command; write it after --, such as: molecule bridge command -- ./answer")
    if wanted.shell:
        return ("/bin/sh", "-c", " ".join(wanted.command))
    if shutil.which(wanted.command[0]) is None:
        raise BadConfiguration(f"the command {wanted.command[0]!r} is not there, or is no program that may be started")
    return wanted.command


async def run(config: Configuration, wanted: Wanted, environ: Mapping[str, str]) -> int:
    """Bridges the only seat until a signal comes; returns the exit code. Raises BadConfiguration."""
    if len(config.seats) != 1:
        ids = ", ".join(seat.id for seat in config.seats)
        raise BadConfiguration(
            f"a bridge carries one workspace, and there are several: {ids}. Say which: --workspace ID"
        )
    program = program_of(wanted)
    loop = asyncio.get_running_loop()
    end: asyncio.Future[int] = loop.create_future()

    def ends(code: int) -> None:
        if not end.done():
            end.set_result(code)

    def lost(text: str) -> None:
        if not end.done():
            _log.error("%s", text)
        ends(REFUSED)

    for number in _SIGNALS:
        loop.add_signal_handler(number, ends, STOPPED)
    if wanted.until_eof:
        await at_eof(lambda: ends(STOPPED))
    clock, randomness = SystemClock(), SystemRandomness()
    (place,) = config.seats
    inbox, tokens = Inbox(), TokenRegistry()
    tokens.register(place.id, place.token)
    servers = Servers(tokens)
    shared = Shared(
        clock=clock,
        randomness=randomness,
        wishes=config.wishes,
        tokens=tokens,
        servers=servers,
        inbox=inbox,
        card=lambda: _card(config),
        lost=lost,
        tools=(),  # beside its shell it has none, and nothing is said to it of any
    )
    seat = Membership(
        place, CursorFile(config.state, place.id, single=config.single), Leadership(config.state, place.id), shared
    )
    kind = StreamRunner if wanted.stream else Runner
    runner: Runs = kind(
        program, environment_of(environ, place, config.state), config.state, clock=clock, wishes=wanted.wishes
    )
    bridge = Bridge(
        seat,
        inbox,
        Outbox(config.state, place.id),
        runner,
        clock=clock,
        randomness=randomness,
        wishes=wanted.wishes,
        preamble=wanted.preamble,
    )
    seats = Seats([seat], single=True)
    seats.start()
    working = asyncio.create_task(bridge.run())
    working.add_done_callback(lambda task: None if task.cancelled() else ends(FAILED))
    code = await end
    try:
        working.cancel()
        await _over(working)
        await runner.close()
        with contextlib.suppress(ApiError, NoAnswer, OSError):
            await clock.wait(bridge.flush(), _LAST_SECONDS)
    finally:
        await seats.stop(_LAST_SECONDS)
        await servers.close()
    return code


async def _over(working: "asyncio.Task[None]") -> None:
    """Waits for the end of the work, and says why it ended if nobody wanted that."""
    try:
        await working
    except asyncio.CancelledError:
        return
    except (DamagedOutbox, OSError) as error:
        _log.error("the bridge cannot go on: %s", error)
    except Exception as error:  # a mistake of ours: what runs is still ended, and told
        _log.error("the bridge cannot go on", exc_info=error)


def _card(config: Configuration) -> dict[str, object]:
    """What the agent says of itself, as far as its environment says it."""
    told = {"name": config.name, "description": config.description}
    skills = [{"id": name, "name": name} for name in config.skills]
    return {**{name: value for name, value in told.items() if value}, "skills": skills, BRIDGE: COMMAND_BRIDGE}
