"""Row 18: agents at work, beside one that floods and one that hangs.

`molecule serve` with its own limits. Twenty agents write to twenty others at an even pace, half of whom poll and half
of whom are pushed to. In each round they do so twice, in turns: by themselves, and while one agent among them sends as
fast as it is answered over several connections, also to an agent that takes calls and never answers.
"""

import random
from collections.abc import Callable
from contextlib import ExitStack, nullcontext

import msgspec
from msgspec import Struct

from benchmarks.drive import misbehaving, run_client
from benchmarks.figures import Failed, Figure, Options, Say
from benchmarks.load import Plan, Seat
from benchmarks.machine import median
from benchmarks.neighbours import PaceOutcome, PacePlan
from benchmarks.nuisance import Mischief, Nuisance
from benchmarks.seats import make_pushed, make_seats
from benchmarks.servers import Place, Server, free_port, molecule, new_place

SENDERS, POLLED, PUSHED = 20, 10, 10
# Half of what the limits grant: nobody here is refused but the flood.
PER_SECOND = 60.0
_SECONDS, _FEW = 10, 3
_CONNECTIONS = 4
_TEXT = "please read the report on stock and tell the team what to order"
_LIMIT = 2.0


class Crowd(Struct, frozen=True):
    """Those who work, and where."""

    server: Server
    senders: list[Seat]
    targets: list[Seat]
    ports: dict[int, int]


class Pair(Struct, frozen=True):
    """The same work by itself and beside trouble."""

    calm: PaceOutcome
    troubled: PaceOutcome
    mischief: Mischief


def crowd(server: Server, place: Place) -> Crowd:
    """Agents who write, agents who poll, agents who are pushed to."""
    ports = {POLLED + number: free_port() for number in range(PUSHED)}
    pushed = [make_pushed(server, place, f"Pushed {port}", port) for port in ports.values()]
    targets = make_seats(server, place, "Polls", POLLED) + pushed
    return Crowd(server, make_seats(server, place, "Writes", SENDERS), targets, ports)


def work(all_: Crowd, seconds: float, seed: int) -> PaceOutcome:
    """They write for so long, and everything arrives."""
    count = round(PER_SECOND * seconds)
    load = Plan(
        port=all_.server.port,
        count=count,
        seed=seed,
        text=_TEXT,
        senders=all_.senders,
        targets=all_.targets,
        receive=True,
    )
    plan = PacePlan(load=load, per_second=PER_SECOND, ports=all_.ports)
    outcome, _cpu = run_client(all_.server, "benchmarks.neighbours", plan, PaceOutcome)
    if outcome.arrived != count:
        raise Failed(f"{outcome.arrived} of {count} messages arrived")
    return outcome


def rounds_beside(all_: Crowd, trouble: Callable[[], Nuisance], options: Options, say: Say) -> list[Pair]:
    """The same work with and without trouble, in turns."""
    chance, seconds = random.Random(options.seed), _FEW if options.quick else _SECONDS
    work(all_, 1, chance.getrandbits(32))
    pairs = []
    for number in range(1, options.rounds + 1):
        outcomes, did = {}, list[Mischief]()
        for is_troubled in (True, False) if number % 2 else (False, True):
            with misbehaving(trouble()) if is_troubled else nullcontext(did) as did:
                outcomes[is_troubled] = work(all_, seconds, chance.getrandbits(32))
        pairs.append(Pair(outcomes[False], outcomes[True], did[0]))
        say(f"  round {number}: {_tale(pairs[-1])}")
    return pairs


def _tale(pair: Pair) -> str:
    calm, troubled = pair.calm, pair.troubled
    return (
        "p99 in ms, by themselves and beside trouble: "
        f"receipt {calm.receipt_p99_ms:.1f} {troubled.receipt_p99_ms:.1f}, "
        f"polled {calm.polled_p99_ms:.1f} {troubled.polled_p99_ms:.1f}, pushed {calm.pushed_p99_ms:.1f} "
        f"{troubled.pushed_p99_ms:.1f}; {msgspec.json.encode(pair.mischief).decode()}"
    )


def ratios(row: int, beside: str, pairs: list[Pair]) -> list[Figure]:
    """How much later things come beside trouble."""
    return [
        Figure(
            row=row,
            name=f"{name}: p99 beside {beside} / without",
            value=median([_of(each.troubled, key, 99) / _of(each.calm, key, 99) for each in pairs]),
            unit="x",
            must=_LIMIT,
            beside=f"p99 {median([_of(each.troubled, key, 99) for each in pairs]):.1f} and "
            f"{median([_of(each.calm, key, 99) for each in pairs]):.1f} ms, p50 "
            f"{median([_of(each.troubled, key, 50) for each in pairs]):.1f} and "
            f"{median([_of(each.calm, key, 50) for each in pairs]):.1f} ms",
        )
        for key, name in (
            ("receipt", "receipt"),
            ("polled", "delivery to a polling agent"),
            ("pushed", "delivery by push"),
        )
    ]


def _of(outcome: PaceOutcome, what: str, percent: int) -> float:
    return float(getattr(outcome, f"{what}_p{percent}_ms"))


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with ExitStack() as stack:
        place = stack.enter_context(new_place())
        server = stack.enter_context(molecule(place, is_lifted=False, push_networks="127.0.0.0/8"))
        all_ = crowd(server, place)
        flooder, flooded = make_seats(server, place, "Flood", 2)

        def trouble() -> Nuisance:
            # Each round has one that was never called: to one that hung before, the server would make a pause.
            port = free_port()
            deaf = make_pushed(server, place, f"Hangs {port}", port)
            flood = [_request(server, flooder, to) for to in (flooded, deaf) * (_CONNECTIONS // 2)]
            return Nuisance(port=server.port, flood=flood, hanging=port)

        pairs = rounds_beside(all_, trouble, options, say)
    if not any(each.mischief.statuses.get("429") for each in pairs):
        raise Failed("the flood was never refused: it was none")
    if not all(each.mischief.held for each in pairs):
        raise Failed("nothing hung")
    return ratios(18, "a flood and an agent that hangs", pairs)


def _request(server: Server, sender: Seat, target: Seat) -> str:
    """A message without an id: each is another one."""
    message = {"role": "user", "parts": [{"kind": "text", "text": "again"}], "metadata": {"intent": "inform"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    text = msgspec.json.encode(body).decode()
    return (
        f"POST /workspaces/{target.id}/a2a HTTP/1.1\r\nhost: 127.0.0.1:{server.port}\r\nx-timeout: 0\r\n"
        f"authorization: Bearer {sender.token}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(text)}\r\n\r\n{text}"
    )
