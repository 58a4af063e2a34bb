"""The five storms: requests from the document, good ones bent, broken calls of JSON-RPC, broken agent cards, and broken
WebSocket frames."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from proofs.harness.caller import Caller
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.http.bending import bent
from proofs.http.cards import PATHS as CARD_PATHS
from proofs.http.cards import broken_card
from proofs.http.contract import Operation, flaw_of, flaw_of_rpc, operations_of
from proofs.http.frames import SOCKETS, Socket, broken_frame, broken_rpc
from proofs.http.lines import Garbled, Line, Unanswered
from proofs.http.made import Made, made_for
from proofs.http.scene import Scene, Who
from testing.raw_http import Reply, ask, request

T = TypeVar("T")
MADE, BENT, CALLS, FRAMES = "requests made", "requests bent", "broken calls of JSON-RPC", "broken WebSocket frames"
CARDS, UNFIT = "mutated agent cards", "of them unfit for the document"
_SHARES = {MADE: 30, BENT: 20, CALLS: 5, CARDS: 10, FRAMES: 2}
WITHOUT, BROKE, BREAKS, MISSED, STUCK, ERRORS, UNCLEAN = (
    "left without an answer",
    "answered 5xx",
    "contract breaks",
    "valid requests answered otherwise",
    "stuck tasks and connections",
    "errors in the log",
    "unclean ends",
)
ZEROS = (BROKE, BREAKS, WITHOUT, MISSED, STUCK, ERRORS, UNCLEAN)
_LINES, _SOCKETS, _MOST_GOOD, _MOST_NOTES = 24, 6, 3, 8
# How often somebody asks whose kind of credential the route takes.
_FITTING = 0.75
# So often somebody asks as one should.
_BETWEEN = 25
# What must be as it was once everybody has gone; the worker of timers and the like wait before and after.
_GAUGES = "long_polls waits live_listeners mcp_channels store_queue process_open_files".split()
_GAUGE = re.compile(rf"^molecule_({'|'.join(_GAUGES)})(?:{{.*}})? (\d+)", re.MULTILINE)
# Open files move by a few: a connection of the scrape, and up to seven more readers of PostgreSQL than at the start.
_FILES_SLACK = 8
# What was held ends after a second; on a busy machine it takes a few.
_SETTLE_SECONDS = 15.0
# What is held for long elsewhere ends soon here, so that everything that was begun has also ended.
_LIMITS = {
    "live_seconds": 600,  # no sign of life finds out by chance that somebody has gone
    "wait_seconds": 1,
    "thread_wait_seconds": 1,
    "thread_wait_most_seconds": 1,
    "patience_seconds": 1,
    "patience_most_seconds": 1,
    "header_seconds": 1,
    "body_seconds": 1,
    "logins_per_minute": 10**9,
}


class Storm:
    """One run on one server."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._server = ServerProcess(setting, _LIMITS)
        self._dice = setting.dice("storm")
        self._scene = Scene(setting.dice("scene"))
        self._operations: dict[tuple[str, str], Operation] = {}
        self._good: dict[str, list[bytes]] = {}
        self._answers = Counter[str]()
        self._reached = set[str]()
        self._asked = 0
        self.verdict = Verdict(dict.fromkeys((MADE, UNFIT, BENT, CALLS, CARDS, FRAMES), 0), dict.fromkeys(ZEROS, 0))

    async def play(self) -> Verdict:
        """All five, then the look at what is left."""
        server = self._server
        try:
            await server.start()
            await self._scene.found(server.port)
            async with Caller(server.port, ADMIN_TOKEN) as admin:
                document = await admin.get("/openapi.json")
            self._operations = operations_of(document)
            before = await self._gauges()
            await self._ask_what_was_made(document)
            await self._crowd(self._bend, range(self._share(BENT)))
            await self._crowd(self._call, range(self._share(CALLS)))
            await self._crowd(self._say_card, range(self._share(CARDS)))
            await self._break_frames()
            await self._settled(before)
            for _ in self._scene.callers:
                await self._ask_as_one_should()
            self.verdict.zeros[UNCLEAN] = int(await server.stop() != 0) + server.ended_by_itself
        finally:
            await server.kill()
        self.verdict.zeros[ERRORS] = len(server.errors)
        self.verdict.notes += server.errors[:_MOST_NOTES]
        figures = {"routes": len(self._operations), "of them done": len(self._reached)}
        names = ("done", "refused", "hung up on", "sockets closed", "valid requests between")
        self.verdict.figures |= figures | {name: self._answers[name] for name in names}
        return self.verdict

    def _share(self, what: str) -> int:
        return self._setting.size * _SHARES[what] // sum(_SHARES.values())

    async def _crowd(self, act: Callable[[Line, T], Awaitable[None]], things: Iterable[T]) -> None:
        """Each thing is done once, on any of some lines."""
        left = iter(things)

        async def one() -> None:
            line = Line(self._server.port)
            try:
                for thing in left:
                    await act(line, thing)
                    await self._now_and_then()
            finally:
                line.hang_up()

        async with asyncio.TaskGroup() as crowd:
            for _ in range(_LINES):
                crowd.create_task(one())

    async def _now_and_then(self) -> None:
        self._asked += 1
        if self._asked % _BETWEEN == 0:
            await self._ask_as_one_should()

    async def _ask_as_one_should(self) -> None:
        self._answers["valid requests between"] += 1
        if wrong := await self._scene.still_answered(self._server.port):
            self._fault(MISSED, wrong)

    # -- storms --------------------------------------------------------------------------------------------------------

    async def _ask_what_was_made(self, document: dict[str, Any]) -> None:
        for some in made_for(document, self._share(MADE), self._setting.seed):
            await self._crowd(self._ask, some)

    async def _ask(self, line: Line, made: Made) -> None:
        who = self._who(made.method, made.path)
        data = self._scene.written(made, who)
        self._count(MADE)
        name = f"{made.method} {made.path} ({who.name})"
        if (reply := await self._reply(line, data, name)) is None:
            return
        # What the scene mended before it was written is taken, and was not hostile.
        self._count(UNFIT, int(not made.fits and reply.status >= 400))
        if (wrong := self._operations[made.method, made.path].break_of(reply) or flaw_of(reply)) is not None:
            self._fault(BREAKS, f"{name}: {wrong}")
        self._scene.knows.learn(made.path, reply)
        good = self._good.setdefault(f"{made.method} {made.path}", [])
        if reply.status < 400:
            self._reached.add(f"{made.method} {made.path}")
        if reply.status < 400 or not good:
            good[:] = [*good, data][-_MOST_GOOD:]

    def _who(self, method: str, path: str) -> Who:
        """Mostly somebody whose kind of credential the route takes."""
        takes, callers = self._operations[method, path].takes, self._scene.callers
        fitting = [each for each in callers if each.kind in takes]
        return self._dice.choice(fitting if fitting and self._dice.random() < _FITTING else callers)

    async def _bend(self, line: Line, _number: int) -> None:
        names = sorted(self._good)
        data = bent(self._dice.choice(self._good[self._dice.choice(names)]), self._dice)
        self._count(BENT)
        reply = await self._reply(line, data, "bent", gives_up=True)
        if reply is not None and not data.startswith(b"HEAD") and (wrong := flaw_of(reply)) is not None:
            self._fault(BREAKS, f"{data[:200]!r}: {wrong}")

    async def _call(self, line: Line, _number: int) -> None:
        who = self._dice.choice(self._scene.callers)
        path = self._dice.choice(("/workspaces/{id}/a2a", "/workspaces/{id}/mcp", "/mcp"))
        if path != "/workspaces/{id}/a2a":
            who = self._dice.choice(self._scene.callers[-2:])
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        body = broken_rpc(path, self._dice)
        data = request("POST", path.replace("{id}", who.seat), body, token=who.token, headers=headers)
        self._count(CALLS)
        if (reply := await self._reply(line, data, path)) is None:
            return
        if reply.status < 400:
            self._reached.add(f"POST {path}")
        wrong = self._operations["POST", path].break_of(reply) or flaw_of(reply)
        if wrong is None and reply.status == 200 and reply.headers.get("content-type") == "application/json":
            wrong = flaw_of_rpc(reply.json)
        if wrong is not None:
            self._fault(BREAKS, f"{path} {body[:200]!r}: {wrong}")

    async def _say_card(self, line: Line, _number: int) -> None:
        """An agent says of itself what no agent should: it is kept, or refused."""
        who, path = self._dice.choice(self._scene.callers[-2:]), self._dice.choice([*CARD_PATHS])
        body = broken_card(path, who.seat, self._dice)
        headers = {"Content-Type": "application/json"}
        self._count(CARDS)
        if (
            reply := await self._reply(line, request("POST", path, body, token=who.token, headers=headers), path)
        ) is None:
            return
        if (wrong := self._operations["POST", path].break_of(reply) or flaw_of(reply)) is not None:
            self._fault(BREAKS, f"{path} {body[:200]!r}: {wrong}")

    async def _break_frames(self) -> None:
        left = iter(range(self._share(FRAMES)))

        async def one(number: int) -> None:
            path = tuple(SOCKETS)[number % len(SOCKETS)]
            who = self._scene.callers[1 + number // 2 % (len(self._scene.callers) - 1)]
            socket = Socket(self._server.port, path, who.token or "")
            for _ in left:
                self._count(FRAMES)
                try:
                    wrong = await socket.send(broken_frame(path, self._dice))
                except Unanswered as error:
                    self._fault(WITHOUT, str(error))
                else:
                    self._reached.add(f"GET {path}")
                    if wrong is not None:
                        self._fault(BREAKS, f"{path}: {wrong}")
                await self._now_and_then()
            self._answers["sockets closed"] += socket.closes
            socket.hang_up()

        async with asyncio.TaskGroup() as crowd:
            for number in range(_SOCKETS):
                crowd.create_task(one(number))

    async def _reply(self, line: Line, data: bytes, name: str, *, gives_up: bool = False) -> Reply | None:
        """What comes back; whatever is wrong with any answer at all is noted here."""
        try:
            reply = await line.ask(data, gives_up=gives_up)
        except Unanswered as error:
            self._fault(WITHOUT, f"{name}: {error}")
            return None
        except Garbled as error:
            self._fault(BREAKS, f"{name}: {error}")
            return None
        if reply is None:
            self._answers["hung up on"] += 1
            if not gives_up:
                self._fault(WITHOUT, f"{name}: hung up on: {data[:200]!r}")
            return None
        self._answers["done" if reply.status < 400 else "refused"] += 1
        if reply.status >= 500:
            self._fault(BROKE, f"{name}: {data[:300]!r}: {reply.status} {reply.body[:200]!r}")
        return reply

    # -- what is left --------------------------------------------------------------------------------------------------

    async def _gauges(self) -> Counter[str]:
        """What the server says of its own state."""
        reply = await ask(self._server.port, "GET", "/metrics", token=ADMIN_TOKEN)
        found = Counter[str]()
        for name, count in _GAUGE.findall(reply.body.decode()):
            found[name] += int(count)
        return found

    async def _settled(self, before: Counter[str]) -> None:
        """Everybody has hung up: what was begun for them ends."""
        before["process_open_files"] += _FILES_SLACK
        left = Counter[str]()
        end = asyncio.get_running_loop().time() + _SETTLE_SECONDS
        while asyncio.get_running_loop().time() < end:
            left = await self._gauges() - before
            if not left:
                return
            await self._ask_as_one_should()
        self.verdict.zeros[STUCK] += sum(left.values())
        self.verdict.notes.append(f"{STUCK}: {dict(left)}")

    def _count(self, what: str, more: int = 1) -> None:
        self.verdict.figures[what] = int(self.verdict.figures[what]) + more

    def _fault(self, what: str, note: str) -> None:
        self.verdict.zeros[what] += 1
        if len(self.verdict.notes) < _MOST_NOTES:
            self.verdict.notes.append(f"{what}: {note[:500]}")
