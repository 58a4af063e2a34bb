"""Row 3: what it costs that a receipt waits for the disk.

The full path of row 1 on `molecule serve` as shipped (`synchronous=FULL`), beside the same program whose SQLite never
waits (`unflushed.py`), in turns within a round. A group is committed once however large it is, so what is dearer is
little; who waits is told too.
"""

from contextlib import ExitStack

from msgspec import Struct

from benchmarks.drive import Cost
from benchmarks.figures import Figure, Options, Say
from benchmarks.machine import median
from benchmarks.row_01_full_path import CONNECTIONS, Bench
from benchmarks.servers import bare_uvicorn, molecule, new_place

_MESSAGES, _FEW = 10_000, 2_000
_DUE_SECONDS = "86400"


class Round(Struct, frozen=True):
    """Both sides; the one that waits runs before and after the other."""

    before: Cost
    unflushed: Cost
    after: Cost

    @property
    def flushed_us(self) -> float:
        """CPU microseconds of a message that waits for the disk."""
        return (self.before.each_us + self.after.each_us) / 2

    @property
    def price(self) -> float:
        """How many times as dear it is."""
        return self.flushed_us / self.unflushed.each_us


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    count = _FEW if options.quick else _MESSAGES
    with ExitStack() as stack:
        places = [stack.enter_context(new_place()) for _ in range(3)]
        noop = stack.enter_context(bare_uvicorn(places[2]))
        sides = []
        for place, flushes in zip(places, (True, False), strict=False):
            serving = molecule(
                place, flushes=flushes, push_instructions_enabled="true", limit_reply_seconds=_DUE_SECONDS
            )
            server = stack.enter_context(serving)
            sides.append(Bench(server, place, noop, options, told=True))
        for side in sides:
            side.ours(CONNECTIONS, count // 4, receive=True)
        rounds = []
        for number in range(1, options.rounds + 1):
            first, other, last = (side.ours(CONNECTIONS, count, receive=True) for side in (*sides, sides[0]))
            rounds.append(Round(first, other, last))
            say(f"  round {number}: {_tale(rounds[-1])}")
    return _figures(rounds)


def _tale(found: Round) -> str:
    waits, other = found.after.outcome, found.unflushed.outcome
    return (
        f"FULL {found.flushed_us:.1f} us, no wait {found.unflushed.each_us:.1f} us = {found.price:.3f}; receipt p50 "
        f"{waits.reply_p50_ms:.1f} and {other.reply_p50_ms:.1f} ms"
    )


def _figures(rounds: list[Round]) -> list[Figure]:
    flushed = median([each.flushed_us for each in rounds])
    unflushed = median([each.unflushed.each_us for each in rounds])
    waits = median([each.after.outcome.reply_p50_ms for each in rounds])
    other = median([each.unflushed.outcome.reply_p50_ms for each in rounds])
    return [
        Figure(
            row=3,
            name=f"price of durability, {CONNECTIONS} connections: CPU with FULL / without waiting",
            value=median([each.price for each in rounds]),
            unit="x",
            must=1.15,
            goal=1.05,
            beside=f"{flushed:.1f} and {unflushed:.1f} us a message; receipt p50 {waits:.1f} and {other:.1f} ms",
        )
    ]
