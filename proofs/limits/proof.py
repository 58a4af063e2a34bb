"""`prove limits`: what is too large, too deep or too slow is refused by its own name, and costs others little.

Bombs (bombs.py) come over four connections, floods of hundreds of megabytes over others, slow clients (slowly.py) by
the hundred; somebody asks for ordinary things all the while, and measures how long that takes.
"""

import asyncio
import contextlib
import re
import time
from collections import Counter
from random import Random
from statistics import quantiles

from anyio.lowlevel import checkpoint

from proofs.crew.company import Seat
from proofs.harness.caller import Caller, NoAnswer, Refused
from proofs.harness.controls import Control
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import START_SECONDS, Proof, Setting
from proofs.harness.verdicts import Figure, Verdict
from proofs.harness.vitals import forget_peak, peak_of
from proofs.limits.bombs import WITHIN, Bomb, Maker
from proofs.limits.slowly import Slow
from tests.journeys.rawhttp import Reply, chunk, request, wire

_LINES = 4
# Of `size` bombs; the goals of the sheet are 500 slow clients and a body of 300 MiB.
_SLOW_PER_BOMB, _FLOODS_PER_BOMB, _FLOOD_BYTES = 40, 1_000, 300 << 20
# A control that takes a flood in takes its time.
_CONTROL_FLOOD_BYTES, _CONTROL_SECONDS = 48 << 20, 15.0
_PIECE = 1 << 16
# Slow clients are let go within these, so that a run does not wait for the seconds that are shipped.
_LIMITS = {"header_seconds": 6, "body_seconds": 8, "unread_seconds": 3, "inbox_unhandled": 10**9}
_MOST_GROWTH, _MOST_WAIT_SECONDS = 16 << 20, 0.25
# With fewer bombs a percentile says nothing.
_ENOUGH = 10_000
_NOTES = 5
ZEROS = (
    "taken though over a limit",
    "refused though within the limits",
    "refused under another name",
    "no answer",
    "answers of 5xx",
    "slow clients not let go",
    "ordinary requests refused",
    "memory grew by more than 16 MiB",
    "ordinary requests waited more than 250 ms (99th percentile)",
    "errors in the server's log",
    "ended by itself",
)


class Scene:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._server = ServerProcess(setting, _LIMITS)
        self._waits: list[float] = []
        self._kinds: Counter[str] = Counter()
        self._flooded = 0
        self._grown = 0
        is_control = setting.package is not None
        self._flood_bytes = _CONTROL_FLOOD_BYTES if is_control else _FLOOD_BYTES
        self._patience = _CONTROL_SECONDS if is_control else START_SECONDS
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
            slow = await self._dawdle()
            ordinary.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await ordinary
            if await self._server.stop():
                self.zeros["ended by itself"] += 1
        finally:
            await self._server.kill()
        self.zeros["errors in the server's log"] = len(self._server.errors)
        self.zeros["ended by itself"] += self._server.ended_by_itself
        return Verdict(self._figures(slow), self.zeros, [*self.notes, *self._server.errors[:_NOTES]])

    def _figures(self, slow: int) -> dict[str, Figure]:
        cuts = quantiles(self._waits, n=100)
        if self._setting.size >= _ENOUGH and cuts[98] > _MOST_WAIT_SECONDS:
            self.zeros["ordinary requests waited more than 250 ms (99th percentile)"] = 1
        return {
            "bombs": sum(self._kinds.values()),
            **{f"of {name}": count for name, count in sorted(self._kinds.items())},
            "floods": self._setting.size // _FLOODS_PER_BOMB + 1,
            "MiB sent": self._flooded >> 20,
            "MiB grown": self._grown >> 20,
            "slow clients": slow,
            "ordinary requests": len(self._waits),
            "ms waited at most by half": round(cuts[49] * 1e3, 1),
            "ms waited at most by 99 of 100": round(cuts[98] * 1e3, 1),
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
                began = time.monotonic()
                try:
                    await api.post(f"/workspaces/{self._seats[1].id}/a2a", body, x_timeout="0")
                    await api.get(f"/workspaces/{seat.id}/activity", limit=5)
                except (Refused, NoAnswer) as error:
                    self._fault("ordinary requests refused", repr(error))
                self._waits.append((time.monotonic() - began) / 2)

    # -- trouble -------------------------------------------------------------------------------------------------------

    async def _flood(self) -> None:
        """Bodies without an end, announced or not; how much the server's memory grows meanwhile."""
        dice = self._setting.dice("floods")
        before = forget_peak(self._server.pid)
        for _ in range(self._setting.size // _FLOODS_PER_BOMB + 1):
            await self._flood_once(dice)
        self._grown = peak_of(self._server.pid) - before
        if self._grown > _MOST_GROWTH:
            self._fault("memory grew by more than 16 MiB", f"{self._grown:,} bytes")

    async def _flood_once(self, dice: Random) -> None:
        # What is announced is refused by its announcement, which no control touches.
        is_announced = dice.random() < 0.5 and self._setting.package is None
        headers = {"Content-Length": str(self._flood_bytes)} if is_announced else {"Transfer-Encoding": "chunked"}
        piece = b" " * _PIECE if is_announced else chunk(b" " * _PIECE)
        path = f"/workspaces/{self._seats[1].id}/a2a"
        async with wire(self._server.port) as connection:
            answering = asyncio.create_task(connection.reply(_PATIENCE))
            try:
                await connection.send(request("POST", path, token=self._seats[0].token, headers=headers))
                for _ in range(self._flood_bytes // _PIECE):
                    await connection.send(piece)
                    self._flooded += _PIECE
                    # Who never reads while it sends finds no answer, only the end of the connection.
                    await checkpoint()
                if not is_announced:
                    await connection.send(chunk(b""))
            except ConnectionError:
                pass
            await self._judge_flood(answering)

    async def _judge_flood(self, answering: "asyncio.Task[Reply]") -> None:
        try:
            reply = await answering
        except (OSError, EOFError, TimeoutError) as error:
            self._fault("no answer", repr(error))
            return
        if reply.status != 413:
            self._fault("taken though over a limit", str(reply))

    async def _throw(self) -> None:
        share = self._setting.size // _LINES
        await asyncio.gather(*(self._throw_some(n, share) for n in range(_LINES)))

    async def _throw_some(self, line: int, count: int) -> None:
        maker = Maker(self._seats[0], self._seats[1], self._setting.dice("bombs", line), line)
        for _ in range(count):
            bomb = maker.next()
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

    async def _dawdle(self) -> int:
        dice = self._setting.dice("slow")
        slow = [Slow(self._server.port, self._seats[0], dice) for _ in range(self._setting.size // _SLOW_PER_BOMB)]
        await asyncio.gather(*(each.bother(self._patience) for each in slow))
        for each in slow:
            if not each.ended:
                self._fault("slow clients not let go", each.kind)
        return len(slow)


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
        file="wire/strictjson.py",
        line='if body.count(b"{") + body.count(b"[") > max_depth and _deeper_than(value, max_depth):',
        by="if False:",
        breaks="refused under another name",
    ),
    Control(
        name="a body is as long as it likes",
        file="edges/protocol.py",
        line="elif exchange.size > limit:",
        by="elif False:",
        breaks="taken though over a limit",
    ),
    Control(
        name="headers may take their time",
        file="edges/protocol.py",
        line="return self.limits.header_seconds",
        by="return 10**6",
        breaks="slow clients not let go",
    ),
    Control(
        name="nobody looks who takes no answer",
        file="edges/protocol.py",
        line="return self.limits.unread_seconds",
        by="return 10**6",
        breaks="slow clients not let go",
    ),
)

PROOF = Proof(
    name="limits",
    shows="A real `molecule serve` is sent bodies of 300 MiB, announced and in pieces; JSON that is too deep, of "
    "numbers of a million digits, of no numbers, of doubled keys and torn texts; texts, ids and lists just over "
    "their limit and just within it; heads that are too large or too many; texts that a careless pattern would "
    "try in all ways; and hundreds of clients at once that say a byte now and then, or nothing, or take no answer. "
    "Each request over a limit is refused under the name of that limit, each within is taken, slow clients are let "
    "go, memory stays, and who asks for ordinary things meanwhile is answered as if they were not there.",
    engines=("sqlite",),
    unit="bombs",
    sizes={"sqlite": 20_000, "postgres": 20_000},
    control_sizes={"sqlite": 400, "postgres": 400},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    hostile=("bombs", "floods", "slow clients"),
)
