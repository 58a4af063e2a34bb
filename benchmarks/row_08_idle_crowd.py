"""Row 8: ten thousand agents that are there and have nothing to do.

`molecule serve` as shipped, in its own limits but for those of rates. Each agent has a workspace, a token, a WebSocket
that stands, and beats every 30 seconds; nobody says anything. Heartbeats come over a few connections that are kept, as
from agents that have many workspaces. Memory is the server's resident memory at the end; its share of a core is its CPU
time over the time on the clock, of whole periods of heartbeats.
"""

from contextlib import ExitStack

from benchmarks.beating import BeatOutcome, BeatPlan
from benchmarks.drive import run_client
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.idle import WEBSOCKET, idle_agents
from benchmarks.load import Seat
from benchmarks.machine import allow_files, median, memory_of
from benchmarks.seats import make_seats
from benchmarks.servers import Server, molecule, new_place

_AGENTS, _FEW = 10_000, 1_000
_EVERY_SECONDS = 30.0
_CONNECTIONS = 32
_SPARE_FILES = 500


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    agents = _FEW if options.quick else _AGENTS
    allow_files(agents + _SPARE_FILES)
    with ExitStack() as stack:
        place = stack.enter_context(new_place())
        with molecule(place) as server:
            seats = make_seats(server, place, "Idle", agents)
        server = stack.enter_context(molecule(place))
        alone = memory_of(server.pid)
        idle = stack.enter_context(idle_agents(WEBSOCKET, server.port))
        _beats(server, seats)  # all come online, which others are told: not what this row is about
        idle.connect(seats)
        say(f"  {agents:,} agents, each on a WebSocket of its own and heard every {_EVERY_SECONDS:.0f} s")
        shares, each_us = [], []
        for number in range(1, options.rounds + 1):
            went, cpu = _beats(server, seats)
            shares.append(cpu / went.seconds * 100)
            each_us.append(cpu / went.beats * 1e6)
            say(
                f"  round {number}: {shares[-1]:.2f} % of a core, {each_us[-1]:.0f} us a heartbeat; answered p50 "
                f"{went.answer_p50_ms:.2f} p99 {went.answer_p99_ms:.2f} ms; {memory_of(server.pid):.0f} MiB"
            )
        memory = memory_of(server.pid)
        idle.check_silent()
    return _figures(agents, memory, alone, shares, each_us)


def _beats(server: Server, seats: list[Seat]) -> tuple[BeatOutcome, float]:
    """One whole period: every agent beats once. What happened, and the server's CPU seconds."""
    plan = BeatPlan(
        port=server.port, seats=seats, every=_EVERY_SECONDS, seconds=_EVERY_SECONDS, connections=_CONNECTIONS
    )
    went, cpu = run_client(server, "benchmarks.beating", plan, BeatOutcome)
    if went.beats != len(seats):
        raise Failed(f"{went.beats} heartbeats were answered, expected {len(seats)}")
    return went, cpu


def _figures(agents: int, memory: float, alone: float, shares: list[float], each_us: list[float]) -> list[Figure]:
    beside = f"{alone:.0f} MiB without connections"
    return [
        Figure(
            row=8,
            name=f"{agents:,} idle agents on WebSockets: resident memory",
            value=memory,
            unit="MiB",
            must=400,
            goal=300,
            beside=beside,
        ),
        Figure(
            row=8,
            name="the same, with a heartbeat of each every 30 s: share of a core",
            value=median(shares),
            unit="%",
            must=5,
            beside=f"{median(each_us):.0f} us a heartbeat",
        ),
    ]
