"""Row 6: one message is told to 1,000 WebSockets, and the next only when all of them were told.

All CPU time of the server counts, also that of taking the message, storing it durably and reading it back. Beside it
run, in the same round, fan-out as it is commonly written (`peer_queues`: a queue, a task and an encoding for each
socket), the same with one encoding for all, and, where the peers are installed, WebSockets in C (`peer_picows`). All
peers are spared credentials, checks and disk.
"""

import random
from contextlib import ExitStack

from msgspec import Struct

from benchmarks.drive import run_client
from benchmarks.figures import Bar, Figure, Options, Say
from benchmarks.listeners import ListenOutcome, ListenPlan
from benchmarks.load import Plan, Seat
from benchmarks.machine import allow_files, median
from benchmarks.seats import make_seats
from benchmarks.servers import Server, has_peers, molecule, new_place, picows_fan_out, queue_per_socket

SOCKETS = 1000
_EVENTS, _FEW = 200, 40
_TEXT = "please read the report on stock and tell the team what to order"
_FILES = 2 * SOCKETS
_NOBODY = Seat("0" * 36, "t" * 58)


class Side(Struct, frozen=True):
    """A server, where its WebSockets are opened, and who writes to whom."""

    server: Server
    port: int
    token: str
    seats: list[Seat]
    greeted: bool = False


class Told(Struct, frozen=True):
    """What a run cost, and how it went."""

    outcome: ListenOutcome
    cpu_seconds: float

    @property
    def each_us(self) -> float:
        """CPU microseconds of the server for each delivery."""
        return self.cpu_seconds / self.outcome.deliveries * 1e6


class Round(Struct, frozen=True):
    """All sides, one event at a time, and then ours with all events at once."""

    ours: Told
    queues: Told
    frugal: Told
    picows: Told | None
    burst: Told


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    allow_files(_FILES)
    chance, count = random.Random(options.seed), _FEW if options.quick else _EVENTS
    with ExitStack() as stack:
        sides = _sides(stack)
        for side in sides:
            _tell(side, count // 10, chance)
        rounds = []
        for number in range(1, options.rounds + 1):
            rounds.append(_round(sides, count, chance))
            say(f"  round {number}: {_tale(rounds[-1])}")
        say(f"  bytes of a frame: {_sizes(rounds[-1])}")
    return _figures(rounds)


def _sides(stack: ExitStack) -> list[Side]:
    """Ours, queues, frugal queues, and picows where the peers are installed."""
    place = stack.enter_context(new_place())
    ours = stack.enter_context(molecule(place))
    seats = make_seats(ours, place, "Fan", 2)
    sides = [Side(ours, ours.port, place.admin_token(), seats, greeted=True)]
    for frugal in (False, True):
        queues = stack.enter_context(queue_per_socket(stack.enter_context(new_place()), frugal=frugal))
        sides.append(Side(queues, queues.port, "", [_NOBODY, _NOBODY]))
    if has_peers():
        picows, port = stack.enter_context(picows_fan_out(stack.enter_context(new_place())))
        sides.append(Side(picows, port, "", [_NOBODY, _NOBODY]))
    return sides


def _round(sides: list[Side], count: int, chance: random.Random) -> Round:
    ours, queues, frugal, *picows = [_tell(side, count, chance) for side in sides]
    burst = _tell(sides[0], count, chance, together=True)
    return Round(ours, queues, frugal, picows[0] if picows else None, burst)


def _tell(side: Side, count: int, chance: random.Random, *, together: bool = False) -> Told:
    load = Plan(
        port=side.server.port,
        count=count,
        seed=chance.getrandbits(32),
        text=_TEXT,
        senders=side.seats[:1],
        targets=side.seats[1:],
    )
    plan = ListenPlan(
        load=load, listeners=SOCKETS, port=side.port, token=side.token, greeted=side.greeted, together=together
    )
    return Told(*run_client(side.server, "benchmarks.listeners", plan, ListenOutcome))


def _tale(found: Round) -> str:
    went = found.ours.outcome
    costs = {"ours": found.ours, "queues": found.queues, "encoding once": found.frugal, "picows": found.picows}
    each = ", ".join(f"{name} {side.each_us:.1f} us" for name, side in costs.items() if side is not None)
    return (
        f"{each} a delivery; a socket p50 {went.each_p50_ms:.1f} p99 {went.each_p99_ms:.1f} ms, the last p50 "
        f"{went.last_p50_ms:.1f} p99 {went.last_p99_ms:.1f} ms, the client itself "
        f"{went.client_cpu / went.deliveries * 1e6:.1f} us; as fast as one can {found.burst.each_us:.1f} us"
    )


def _sizes(found: Round) -> str:
    sides = {"ours": found.ours, "queues": found.queues, "picows": found.picows}
    return ", ".join(f"{name} {side.outcome.frame_bytes}" for name, side in sides.items() if side is not None)


def _figures(rounds: list[Round]) -> list[Figure]:
    ours, went = [each.ours for each in rounds], [each.ours.outcome for each in rounds]
    receipt = median([each.receipt_p50_ms for each in went])
    peer = median([each.queues.outcome.each_p99_ms for each in rounds])
    return [
        Figure(
            row=6,
            name=f"one event to {SOCKETS:,} WebSockets: CPU of a delivery",
            value=median([each.each_us for each in ours]),
            unit="us",
            must=20,
            beside=f"frames of {went[-1].frame_bytes} bytes; with taking and storing the message{_missing(rounds)}",
        ),
        Figure(
            row=6,
            name="the same: from the POST to a socket, p99",
            value=median([each.each_p99_ms for each in went]),
            unit="ms",
            must=40,
            beside=f"least of the rounds {min(each.each_p99_ms for each in went):.1f}; "
            f"p50 {median([each.each_p50_ms for each in went]):.1f}, the last socket p50 "
            f"{median([each.last_p50_ms for each in went]):.1f} p99 {median([each.last_p99_ms for each in went]):.1f}, "
            f"receipt p50 {receipt:.1f} ms; with the client's own reading; queues p99 {peer:.1f} ms",
        ),
        Figure(
            row=6,
            name="CPU of a queue, a task and an encoding for each socket / ours",
            value=median([each.queues.each_us / each.ours.each_us for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            must=2.5,
            beside=f"queues {median([each.queues.each_us for each in rounds]):.1f} us, neither checks nor disk",
        ),
        Figure(
            row=6,
            name="the same if the peer encodes once for all",
            value=median([each.frugal.each_us / each.ours.each_us for each in rounds]),
            unit="x",
            bar=Bar.AT_LEAST,
            beside=f"queues {median([each.frugal.each_us for each in rounds]):.1f} us",
        ),
        *_against_picows(rounds),
        _burst(rounds),
    ]


def _missing(rounds: list[Round]) -> str:
    return "; picows is not installed, so not compared" if rounds[0].picows is None else ""


def _against_picows(rounds: list[Round]) -> list[Figure]:
    pairs = [(each.ours, each.picows) for each in rounds if each.picows is not None]
    if not pairs:
        return []
    return [
        Figure(
            row=6,
            name="CPU of ours / picows, WebSockets in C",
            value=median([ours.each_us / picows.each_us for ours, picows in pairs]),
            unit="x",
            goal=1.5,
            beside=f"picows {median([picows.each_us for _, picows in pairs]):.1f} us, neither checks nor disk",
        )
    ]


def _burst(rounds: list[Round]) -> Figure:
    burst = [each.burst.outcome for each in rounds]
    return Figure(
        row=6,
        name="messages as fast as one caller can: CPU of a delivery",
        value=median([each.burst.each_us for each in rounds]),
        unit="us",
        beside=f"{burst[0].deliveries // SOCKETS} messages; receipt p99 "
        f"{median([each.receipt_p99_ms for each in burst]):.0f} ms, a socket p50 "
        f"{median([each.each_p50_ms for each in burst]):.0f} p99 {median([each.each_p99_ms for each in burst]):.0f} ms",
    )
