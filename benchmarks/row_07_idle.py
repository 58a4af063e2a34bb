"""Row 7: what an agent costs that is connected and does nothing: a WebSocket, an event stream, a long-poll.

Memory: resident memory of `molecule serve`, a fresh process for each kind and round. A hundred agents connect first, so
that what is needed once is there; then 2,000 more, each with a workspace, a token and a connection of its own, one
after the other. Growth is read when the server has come to rest; what garbage it has not collected by then counts. The
kernel's buffers do not.

Tasks and timers: the same server in this process, where they can be counted, after a collection. There the deadline for
headers is one second, so that it has passed when the count is made.
"""

import asyncio
import time
from collections.abc import Callable

import uvloop
from msgspec import Struct

from benchmarks.figures import Figure, Options, Say
from benchmarks.idle import KINDS, LONG_POLL, SSE, WEBSOCKET, Kind, idle_agents
from benchmarks.in_process import Alive, alive, server_here
from benchmarks.load import Seat
from benchmarks.machine import allow_files, median, memory_of
from benchmarks.seats import make_seats
from benchmarks.servers import Place, Server, molecule, new_place
from molecule_core.common.limits import Limits

_FIRST, _AGENTS, _FEW = 100, 2000, 500
_COUNTED = 200
_FILES = 2 * _AGENTS
_BARS = {WEBSOCKET: (28, 24), SSE: (16, 14), LONG_POLL: (16, 12)}
_HEADER_SECONDS = 1
# At rest: this little CPU and no memory in so many looks, one after the other.
_LOOK_SECONDS, _LOOKS, _MOST_LOOKS = 0.2, 5, 60
_REST_CPU = 0.002


class Counted(Struct, frozen=True):
    """Tasks and timers for each idle agent of a kind."""

    tasks: float
    timers: float


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    allow_files(_FILES)
    agents = _FEW if options.quick else _AGENTS
    with new_place() as place:
        with molecule(place) as server:
            seats = make_seats(server, place, "Idle", _FIRST + agents)
        kib: dict[Kind, list[float]] = {kind: [] for kind in KINDS}
        for number in range(1, options.rounds + 1):
            for kind in KINDS:
                kib[kind].append(_growth(place, kind, seats))
            say(f"  round {number}: {', '.join(f'{kind.name} {kib[kind][-1]:.1f} KiB' for kind in KINDS)}")
        counted = {kind: uvloop.run(_count(place, kind, seats)) for kind in KINDS}
    say(f"  counted of {_COUNTED}: {', '.join(f'{kind.name} {_words(counted[kind])}' for kind in KINDS)}")
    return [figure for kind in KINDS for figure in _figures(kind, kib[kind], counted[kind], agents)]


def _growth(place: Place, kind: Kind, seats: list[Seat]) -> float:
    """KiB of resident memory for each further agent."""
    with molecule(place) as server, idle_agents(kind, server.port) as idle:
        idle.connect(seats[:_FIRST])
        before = _rest(server)
        idle.connect(seats[_FIRST:])
        after = _rest(server)
        idle.check_silent()
    return (after - before) * 1024 / (len(seats) - _FIRST)


def _rest(server: Server) -> float:
    """The resident memory of a server, in MiB, once it is at rest."""
    quiet, cpu, memory = 0, server.cpu(), memory_of(server.pid)
    for _ in range(_MOST_LOOKS):
        time.sleep(_LOOK_SECONDS)
        old_cpu, old_memory, cpu, memory = cpu, memory, server.cpu(), memory_of(server.pid)
        quiet = quiet + 1 if cpu - old_cpu < _REST_CPU and memory == old_memory else 0
        if quiet == _LOOKS:
            break
    return memory


async def _count(place: Place, kind: Kind, seats: list[Seat]) -> Counted:
    limits = Limits(header_seconds=_HEADER_SECONDS, requests_per_minute=10**9)
    async with server_here(place, place.admin_token(), limits) as port:
        with idle_agents(kind, port) as idle:
            before = await _settled(idle.connect, seats[:1])
            after = await _settled(idle.connect, seats[1 : 1 + _COUNTED])
    return Counted((after.tasks - before.tasks) / _COUNTED, (after.timers - before.timers) / _COUNTED)


async def _settled(connect: Callable[[list[Seat]], None], seats: list[Seat]) -> Alive:
    await asyncio.to_thread(connect, seats)
    await asyncio.sleep(_HEADER_SECONDS * 2)
    return alive()


def _words(counted: Counted) -> str:
    return f"{counted.tasks:.2f} tasks and {counted.timers:.2f} timers each"


def _figures(kind: Kind, kib: list[float], counted: Counted, agents: int) -> list[Figure]:
    must, goal = _BARS[kind]
    return [
        Figure(
            row=7,
            name=f"idle {kind.name}: memory",
            value=median(kib),
            unit="KiB",
            must=must,
            goal=goal,
            beside=f"growth over {agents:,} of {agents + _FIRST:,}; least of the rounds {min(kib):.1f}",
        ),
        Figure(
            row=7,
            name=f"idle {kind.name}: timers",
            value=counted.timers,
            must=0,
            beside=f"{counted.tasks:g} tasks; counted in process, {_COUNTED} connections",
        ),
    ]
