"""Row 2: how long one caller alone waits for a durable receipt.

One connection, one message at a time, nobody receives; each receipt waits for a flush of its own. The limit is what no
design can beat here: the same request to uvicorn doing nothing, and one flush of this disk (4 KiB and fdatasync, alone
in a file). The bar is on the tail, so the disk's tail is its limit; against the disk's median flush the same receipt is
told for information. Disks have moods that last for seconds, so a round has several short turns of all three, and each
turn is compared with itself.
"""

from contextlib import ExitStack

from msgspec import Struct

from benchmarks.drive import Cost
from benchmarks.figures import Figure, Options, Say
from benchmarks.machine import flushes_ms, median, percentile
from benchmarks.row_01_full_path import Bench
from benchmarks.servers import bare_uvicorn, molecule, new_place

_MESSAGES, _FEW = 1000, 400
_TURNS_A_ROUND = 4
_ALONE = 1


class Turn(Struct, frozen=True):
    """The same number of empty requests, flushes and receipts, right after each other."""

    noop: Cost
    flushes: list[float]
    ours: Cost

    @property
    def flush_p50_ms(self) -> float:
        """Half of the flushes took no longer."""
        return percentile(self.flushes, 50)

    @property
    def flush_p99_ms(self) -> float:
        """One flush of a hundred took longer."""
        return percentile(self.flushes, 99)

    def ratio(self, flush_ms: float) -> float:
        """Our p99 against the limit with such a flush."""
        return self.ours.outcome.reply_p99_ms / (self.noop.outcome.reply_p99_ms + flush_ms)

    @property
    def ratio_of_medians(self) -> float:
        """The same of p50, where noise of the machine hardly shows."""
        return self.ours.outcome.reply_p50_ms / (self.noop.outcome.reply_p50_ms + self.flush_p50_ms)


def measure(options: Options, say: Say) -> list[Figure]:
    """The row's figures."""
    with ExitStack() as stack:
        place = stack.enter_context(new_place())
        ours = stack.enter_context(molecule(place))
        noop = stack.enter_context(bare_uvicorn(stack.enter_context(new_place())))
        bench = Bench(ours, place, noop, options)
        count = _FEW if options.quick else _MESSAGES
        _turn(bench, count // 4)
        turns = []
        for number in range(1, options.rounds * _TURNS_A_ROUND + 1):
            turns.append(_turn(bench, count))
            say(f"  turn {number}: {_tale(turns[-1])}")
    return _figures(turns, count)


def _turn(bench: Bench, count: int) -> Turn:
    return Turn(bench.noop(_ALONE, count), flushes_ms(count), bench.ours(_ALONE, count, receive=False))


def _tale(found: Turn) -> str:
    noop, ours = found.noop.outcome, found.ours.outcome
    return (
        f"receipt p50 {ours.reply_p50_ms:.3f} p99 {ours.reply_p99_ms:.3f} ms, U p50 {noop.reply_p50_ms:.3f} p99 "
        f"{noop.reply_p99_ms:.3f} ms, one flush p50 {found.flush_p50_ms:.3f} p99 {found.flush_p99_ms:.3f} ms = "
        f"{found.ratio(found.flush_p99_ms):.2f}; ours {found.ours.each_us:.0f} us CPU"
    )


def _figures(turns: list[Turn], count: int) -> list[Figure]:
    ours = [each.ours.outcome for each in turns]
    noop = median([each.noop.outcome.reply_p99_ms for each in turns])
    flush = median([each.flush_p99_ms for each in turns])
    p99 = median([each.reply_p99_ms for each in ours])
    return [
        Figure(
            row=2,
            name="receipt, one caller: p99 / (p99 of U + p99 of one flush)",
            value=median([each.ratio(each.flush_p99_ms) for each in turns]),
            unit="x",
            must=2.5,
            beside=f"p99 {p99:.2f} ms; U {noop:.2f} ms, one flush {flush:.2f} ms; {len(turns)} turns of {count:,}",
        ),
        Figure(
            row=2,
            name="the same with the median flush as the limit",
            value=median([each.ratio(each.flush_p50_ms) for each in turns]),
            unit="x",
            beside=f"one flush p50 {median([each.flush_p50_ms for each in turns]):.2f} ms",
        ),
        Figure(
            row=2,
            name="the same of medians: p50 / (p50 of U + p50 of one flush)",
            value=median([each.ratio_of_medians for each in turns]),
            unit="x",
            beside=f"U p50 {median([each.noop.outcome.reply_p50_ms for each in turns]):.3f} ms",
        ),
        Figure(
            row=2,
            name="receipt, one caller: p50",
            value=median([each.reply_p50_ms for each in ours]),
            unit="ms",
            goal=0.5,
            beside=f"least of the turns {min(each.reply_p50_ms for each in ours):.3f} ms; the goal is for a quiet "
            f"machine; {median([each.ours.each_us for each in turns]):.0f} us CPU a message",
        ),
    ]
