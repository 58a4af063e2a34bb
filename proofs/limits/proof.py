"""`prove limits`: what is too large, too deep or too slow is refused by its own name, and costs others little.

Bombs (bombs.py) come over four connections, floods of hundreds of megabytes over others, slow clients (slowly.py) by
the hundred; somebody asks for ordinary things all the while, and measures how long that takes.
"""

import asyncio
import contextlib
import re
import time
from collections import Counter
from collections.abc import Awaitable
from statistics import quantiles
from typing import Any

from proofs.harness.caller import Caller, NoAnswer, Refused
from proofs.harness.controls import Control
from proofs.harness.mutations import Always, Swap
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import START_SECONDS, Proof, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.harness.vitals import forget_peak, peak_of
from proofs.limits.bombs import WITHIN, Bomb, Maker
from proofs.limits.floods import Flood, most_sent
from proofs.limits.slowly import Slow
from proofs.workload.company import Seat
from testing.raw_http import Reply, wire

_LINES = 4
# Of `size` bombs; the goals of the sheet are 500 slow clients and a body of 300 MiB. A small crowd of slow ones cannot
# hold anybody up, whatever the mistake.
_SLOW_PER_BOMB, _FEWEST_SLOW, _FLOODS_PER_BOMB, _FLOOD_BYTES = 40, 500, 1_000, 300 << 20
# A control that takes a flood in takes its time.
_CONTROL_FLOOD_BYTES, _CONTROL_SECONDS = 96 << 20, 15.0
# Slow clients are let go within these, so that a run does not wait for the seconds that are shipped.
_LIMITS = {"header_seconds": 6, "body_seconds": 8, "unread_seconds": 3, "inbox_unhandled": 10**9}
_MOST_GROWTH, _MOST_WAIT_SECONDS = 16 << 20, 0.25
# No single request waits so long, however few are measured and however busy the machine is.
_STARVED_SECONDS = 3.0
# Slow clients are there together while at least so many of them are: some of them are let go sooner than others.
_TOGETHER = 0.5
# Less than `body_seconds`, behind which a body is refused for its slowness.
_AT_ONCE_SECONDS, _CONTROL_AT_ONCE_SECONDS = 7.0, 2.0
# With fewer bombs a percentile says nothing.
_ENOUGH = 10_000
_NOTES = 5
LATE = "refused only after more than 1 MiB over the limit, or of an announced body"
TAKEN_IN = "bodies taken in after their refusal"
STARVED = "single ordinary requests waited more than 3 s"
WAITED = "ordinary requests waited more than 250 ms (99th percentile)"
WAITED_BESIDE = "ordinary requests beside slow clients waited more than 250 ms (99th percentile)"
ZEROS = (
    "taken though over a limit",
    "refused though within the limits",
    "refused under another name",
    LATE,
    TAKEN_IN,
    "no answer",
    "answers of 5xx",
    "slow clients not let go",
    "ordinary requests refused",
    "memory grew by more than 16 MiB",
    STARVED,
    WAITED,
    WAITED_BESIDE,
    "errors in the server's log",
    "ended by itself",
)


class Scene:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._server = ServerProcess(setting, _LIMITS)
        self._waits: list[float] = []
        self._waits_beside: list[float] = []
        """Those that were begun while the slow clients were there."""
        self._slow: list[Slow] = []
        self._kinds: Counter[str] = Counter()
        self._fair = 0
        self._flooded = 0
        self._grown = 0
        is_control = setting.package is not None
        self._flood_bytes = _CONTROL_FLOOD_BYTES if is_control else _FLOOD_BYTES
        self._patience = _CONTROL_SECONDS if is_control else START_SECONDS
        self._at_once = _CONTROL_AT_ONCE_SECONDS if is_control else _AT_ONCE_SECONDS
        self.zeros = dict.fromkeys(ZEROS, 0)
        self.notes: list[str] = []

    async def play(self) -> Verdict:
        """Everything, one kind of trouble after the other, and ordinary requests all the while."""
        try:
            await self._server.start()
            await self._found()
            ordinary = asyncio.create_task(self._ask_all_the_while())
            await self._flood()
            await self._throw()
            await self._dawdle()
            ordinary.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ordinary
            if await self._server.stop():
                self.zeros["ended by itself"] += 1
        finally:
            await self._server.kill()
        self.zeros["errors in the server's log"] = len(self._server.errors)
        self.zeros["ended by itself"] += self._server.ended_by_itself
        return Verdict(self._figures(), self.zeros, [*self.notes, *self._server.errors[:_NOTES]])

    def _figures(self) -> dict[str, Figure]:
        cuts, beside = (quantiles([0.0, 0.0, *waits], n=100) for waits in (self._waits, self._waits_beside))
        for zero, late in ((WAITED, cuts[98]), (WAITED_BESIDE, beside[98])):
            self.zeros[zero] = int(self._setting.size >= _ENOUGH and late > _MOST_WAIT_SECONDS)
        return {
            "bombs": sum(self._kinds.values()),
            **{f"of {name}": count for name, count in sorted(self._kinds.items())},
            "within the limits between": self._fair,
            "floods": self._setting.size // _FLOODS_PER_BOMB + 1,
            "MiB sent": self._flooded >> 20,
            "MiB grown": self._grown >> 20,
            "slow clients": len(self._slow),
            "ordinary requests": len(self._waits),
            "ms waited at most by half": round(cuts[49] * 1e3, 1),
            "ms waited at most by 99 of 100": round(cuts[98] * 1e3, 1),
            "ordinary requests beside slow clients": len(self._waits_beside),
            "ms waited beside them at most by 99 of 100": round(beside[98] * 1e3, 1),
        }

    async def _found(self) -> None:
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._seats = [Seat(await admin.post("/workspaces", {"name": f"Seat {n}"})) for n in range(3)]

    def _fault(self, what: str, note: str) -> None:
        self.zeros[what] += 1
        if len(self.notes) < 4 * _NOTES:
            self.notes.append(f"{what}: {note[:300]}")

    # -- ordinary people -----------------------------------------------------------------------------------------------

    async def _ask_all_the_while(self) -> None:
        """Writes a message and reads its own inbox, again and again."""
        seat, number = self._seats[2], 0
        async with Caller(self._server.port, seat.token) as api:
            while True:
                number += 1
                message = {"role": "user", "messageId": f"o-{number}", "parts": [{"kind": "text", "text": "hello"}]}
                body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
                await self._timed(api.post(f"/workspaces/{self._seats[1].id}/a2a", body, x_timeout="0"))
                await self._timed(api.get(f"/workspaces/{seat.id}/activity", limit=5))

    async def _timed(self, asking: Awaitable[Any]) -> None:
        """One ordinary request, and how long it takes."""
        is_beside = sum(each.is_here for each in self._slow) > len(self._slow) * _TOGETHER
        began = time.monotonic()
        try:
            await asking
        except (Refused, NoAnswer) as error:
            self._fault("ordinary requests refused", repr(error))
        finally:
            # One that still waits when all is over has waited too.
            waited = time.monotonic() - began
            if waited > _STARVED_SECONDS:
                self._fault(STARVED, f"{waited:.1f} s")
        self._waits.append(waited)
        if is_beside:
            self._waits_beside.append(waited)

    # -- trouble -------------------------------------------------------------------------------------------------------

    async def _flood(self) -> None:
        """Bodies without an end, announced or not; how much the server's memory grows meanwhile."""
        dice = self._setting.dice("floods")
        before = forget_peak(self._server.pid)
        for _ in range(self._setting.size // _FLOODS_PER_BOMB + 1):
            # What is announced is refused by its announcement, which no control touches.
            is_announced = dice.random() < 0.5 and self._setting.package is None
            async with wire(self._server.port) as connection:
                await self._flood_once(Flood(connection, self._flood_bytes, is_announced=is_announced))
        self._grown = peak_of(self._server.pid) - before
        if self._grown > _MOST_GROWTH:
            self._fault("memory grew by more than 16 MiB", f"{self._grown:,} bytes")

    async def _flood_once(self, flood: Flood) -> None:
        """It must be refused by what has been sent of it by then; and who sends on has it taken in no more."""
        try:
            await flood.begin(f"/workspaces/{self._seats[1].id}/a2a", self._seats[0].token)
            if not await flood.is_answered(self._at_once):
                self._fault(LATE, f"{flood.sent:,} bytes were sent")
            await flood.go_on()
            if (reply := await flood.reply(_PATIENCE)).status != 413:
                self._fault("taken though over a limit", str(reply))
        except (OSError, EOFError, TimeoutError) as error:
            self._fault("no answer", repr(error))
        self._flooded += flood.sent
        if flood.sent > most_sent():
            self._fault(TAKEN_IN, f"{flood.sent:,} bytes were sent")

    async def _throw(self) -> None:
        share = self._setting.size // _LINES
        await asyncio.gather(*(self._throw_some(n, share) for n in range(_LINES)))

    async def _throw_some(self, line: int, count: int) -> None:
        maker = Maker(self._seats[0], self._seats[1], self._setting.dice("bombs", line), line)
        for _ in range(count):
            bomb = maker.next()
            if bomb.is_fair:
                self._fair += 1
            else:
                self._kinds[bomb.name] += 1
            try:
                async with wire(self._server.port) as connection:
                    answering = asyncio.create_task(connection.reply(_PATIENCE))
                    with contextlib.suppress(ConnectionError):
                        await connection.send(bomb.data)
                    self._judge(bomb, await answering)
            except (OSError, EOFError, TimeoutError) as error:
                self._fault("no answer", f"{bomb.name}: {error!r}")

    def _judge(self, bomb: Bomb, reply: Reply) -> None:
        is_taken = reply.status < 300
        said = "" if is_taken else _code(reply)
        if reply.status >= 500:
            self._fault("answers of 5xx", f"{bomb.name}: {reply}")
        elif bomb.code == WITHIN and not is_taken:
            self._fault("refused though within the limits", f"{bomb.name}: {reply}")
        elif bomb.code != WITHIN and is_taken:
            self._fault("taken though over a limit", f"{bomb.name}: {reply}")
        elif bomb.code not in (WITHIN, said) and bomb.code:
            self._fault("refused under another name", f"{bomb.name}, not {bomb.code}: {reply}")

    async def _dawdle(self) -> None:
        dice, count = self._setting.dice("slow"), max(self._setting.size // _SLOW_PER_BOMB, _FEWEST_SLOW)
        self._slow = [Slow(self._server.port, self._seats[0], dice) for _ in range(count)]
        await asyncio.gather(*(each.bother(self._patience) for each in self._slow))
        for each in self._slow:
            if not each.ended:
                self._fault("slow clients not let go", each.kind)


# Longer than anything takes that a bomb asks for, also on a busy machine.
_PATIENCE = 30.0


def _code(reply: Reply) -> str:
    """The name of a refusal, in problem details or in JSON-RPC."""
    found = re.search(rb'"(?:code|reason)": ?"(\w+)"', reply.body)
    return found[1].decode().lower() if found else ""


async def run(setting: Setting) -> Verdict:
    """`setting.size` bombs, and floods and slow clients in their measure."""
    return await Scene(setting).play()


_CONTROLS = (
    Control(
        name="nobody counts brackets",
        marker="json-depth",
        change=Always(False),
        breaks="refused under another name",
    ),
    Control(
        name="a body is as long as it likes",
        marker="body-limit",
        change=Always(False),
        breaks="taken though over a limit",
    ),
    Control(
        name="a body is refused late",
        marker="body-limit",
        change=Swap(":", " + (4 << 20):"),
        breaks=LATE,
    ),
    Control(
        name="what was refused is read to its end",
        marker="refused-body-limit",
        change=Always(False),
        breaks=TAKEN_IN,
    ),
    Control(
        name="headers may take their time",
        marker="header-timeout",
        change=Swap("return $", "return 10**6"),
        breaks="slow clients not let go",
    ),
    Control(
        name="nobody looks who takes no answer",
        marker="unread-timeout",
        change=Swap("return $", "return 10**6"),
        breaks="slow clients not let go",
    ),
    Control(
        name="the document of the API is made for each who asks",
        marker="openapi-cached",
        change=Swap("@cached_property", "@property"),
        breaks=STARVED,
    ),
)

# Who asks one thing after the other, and is answered soon, asks often.
_DEMANDS = {"ordinary requests": 200, "ordinary requests beside slow clients": 200}

PROOF = Proof(
    name="limits",
    claim="Requests over a limit are refused by name, and slow or huge clients hold up no other request.",
    shows="A real `molecule serve` is sent bodies of 300 MiB, announced and in pieces; JSON that is too deep, of "
    "numbers of a million digits, of no numbers, of doubled keys and torn texts; texts, ids and lists just over "
    "their limit and just within it; heads that are too large or too many; texts that a careless pattern would try "
    "in all ways; and hundreds of clients at once that say a byte now and then, or nothing, or take no answer. Each "
    "request over a limit is refused under the name of that limit, or as no JSON if it is none (a long number that "
    "readers of JSON take after all, for what stands beside it), each within is taken. A body that is announced is "
    "refused before a byte of it is sent, one in pieces before 1 MiB more than the limit is; who sends on is cut "
    "off within `refused_bytes` and what the kernel holds. Slow clients are let go, memory stays while bodies flood "
    "in, and of single ordinary requests none waits for more than 3 s, and 99 of 100 at most 250 ms, all the while "
    "and while most of the slow ones are there.",
    engines=("sqlite",),
    unit="bombs",
    sizes={"sqlite": 20_000, "postgres": 20_000},
    control_sizes={"sqlite": 400, "postgres": 400},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    demands={"sqlite": _DEMANDS, "postgres": _DEMANDS},
    run=run,
    hostile=("bombs", "floods", "slow clients"),
)
