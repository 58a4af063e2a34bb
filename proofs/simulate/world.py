"""What a scene happens in: a server that dies and comes back, callers whose calls are cut, and the net to push agents.

Above: the scene. Below: the loop, and the server as it is shipped, whole, without its sockets.
"""

import asyncio
import os
import shutil
from collections import Counter
from contextvars import copy_context
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlencode

import apsw
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from molecule_core.api.application import InternalRequest
from molecule_core.api.routing import Request
from molecule_core.common import crash_points
from molecule_core.common.clock import HOUR, SECOND
from molecule_core.common.errors import FetchFailed
from molecule_core.common.net.safe_fetch import Fetcher, FetchResult
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from proofs.harness.office import ADMIN_TOKEN, LIMITS
from proofs.simulate.loop import Died, Life, SimulatedClock, SimulatedLoop, passing
from testing.clocks import START, SeededRandomness

Item = dict[str, Any]
# Everything that has a deadline meets it within minutes; what only makes a quiet hour dearer comes seldom.
SIM_LIMITS = replace(
    LIMITS,
    wait_seconds=300,
    sweep_seconds=60,
    silence_seconds=900,
    reply_seconds=40,
    reply_work_seconds=60,
    push_seconds=10,
    patience_seconds=5,
    circuit_seconds=20,
    delegation_unknown_seconds=60,
    delegation_seconds=600,
    approval_level_seconds=40,
    thread_lease_seconds=30,
    thread_engine_seconds=1800,
)
_LONGEST_RESTART_SECONDS = 5.0
_MOST_NOTES = 5
_JUMP = HOUR


class Cut(Exception):
    """No answer came: what was asked may or may not have been done."""


class HungUp(Cut):
    """The caller did not wait any longer."""


class Chance(Struct, frozen=True):
    """What is drawn for a whole game: how often what goes wrong."""

    cuts: float
    """Of calls, before or after they were done."""
    lost_rings: float
    deaths: int
    jumps: tuple[tuple[float, int], ...]
    """When the wall clock is set, and by how much it is wrong from then on."""
    slowness: float

    @classmethod
    def drawn(cls, dice: Random) -> "Chance":
        """A third of all games are quiet in each respect, so that one fault is seen without the others."""
        jumps = list[tuple[float, int]]()
        for _ in range(dice.choice((0, 0, 1, 2))):
            at, by = dice.uniform(1, 200), dice.choice((-_JUMP, _JUMP))
            jumps.append((at, by))
            if dice.random() < 0.85:  # somebody sets it right again
                jumps.append((at + dice.uniform(5, 120), -by))
        return cls(
            cuts=dice.choice((0.0, 0.02, 0.1)),
            lost_rings=dice.choice((0.0, 0.5, 0.5)),
            deaths=dice.choice((0, 1, 1, 2, 3)),
            jumps=tuple(sorted(jumps)),
            slowness=0.025 if dice.random() < 0.1 else 0.0,
        )


class World:
    """One game's. `falls`: a point at which the server dies, and at which pass; chance kills it nowhere then."""

    def __init__(
        self, folder: Path, dice: Random, chance: Chance, loop: SimulatedLoop, falls: tuple[str, int] | None = None
    ) -> None:
        self.dice, self.chance, self.loop = dice, chance, loop
        self._outside = copy_context()
        self.clock = SimulatedClock(loop, START + 60 * SECOND, chance.slowness)
        self.counts: Counter[str] = Counter()
        self.points: Counter[str] = Counter()
        self.died_at: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.notes: list[str] = []
        self.net = Net(self)
        self.up = asyncio.Event()
        self.deaths_left = chance.deaths
        self.fell_at: list[float] = []
        self.is_dying = False
        self._folder = folder
        self._life = Life()
        self._server: Server | None = None
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._steps_left, self._points_left = -1, -1
        self._falls_at, self._falls_after = falls or ("", 0)
        loop.on_step = self._step
        crash_points.set_watcher(self._reached)
        for at, by in chance.jumps:
            loop.call_later(at, self._jump, by)

    def fault(self, what: str, note: str) -> None:
        """Something that must not be."""
        self.faults[what] += 1
        if self.faults[what] <= _MOST_NOTES:
            self.notes.append(f"{what}: {note[:300]}")

    @property
    def is_dead(self) -> bool:
        """Whether there is no process at this moment, or one that is just dying."""
        return self.is_dying or self._life.is_over

    @property
    def now(self) -> float:
        """Seconds since the game began."""
        return self.loop.time()

    # -- lives of the server -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """A new process on the same file."""
        self._life = life = Life()
        self.loop.lives.append(life)
        randomness = SeededRandomness(self.dice.getrandbits(64))
        settings = Settings(state_dir=str(self._folder), limits=SIM_LIMITS)
        self._server = server = Server(
            settings, admin_token=ADMIN_TOKEN, clock=self.clock, randomness=randomness, fetcher=self.net
        )
        self.counts["lives"] += 1
        opening = life.begin(server.open())
        opening.add_done_callback(lambda done: self._opened(life, done))
        if self.deaths_left:
            # By a step: soon after the start, or at any time; by a named point, where the product has any.
            by_point = bool(self.points) and self.dice.random() < 0.5
            steps = self.dice.choice((self.dice.randrange(1, 60), self.dice.randrange(1, 6000)))
            self._points_left = self.dice.randrange(1, 2000) if by_point else -1
            self._steps_left = -1 if by_point else steps

    def _opened(self, life: Life, done: "asyncio.Task[None]") -> None:
        if life.is_over or done.cancelled():
            return
        if (error := done.exception()) is not None:
            self.fault("did not start", repr(error))
            return
        self.up.set()

    def _step(self, life: Life) -> None:
        if life is self._life and self._steps_left > 0:
            self._steps_left -= 1
            if not self._steps_left:
                self.died_at["between two steps"] += 1
                self._die()

    def _reached(self, point: str) -> None:
        """A named point. Raises Died if the process dies there."""
        self.points[point] += 1
        if point == self._falls_at and not self._life.is_over:
            self._falls_after -= 1
            if not self._falls_after:
                self._falls_at, self.deaths_left = "", 1
                self.died_at[point] += 1
                self._die()
                raise Died
        if self._points_left > 0 and not self._life.is_over:
            self._points_left -= 1
            if not self._points_left:
                self.died_at[point] += 1
                self._die()
                raise Died

    def _die(self) -> None:
        """The process is gone: what it had in memory, what it had not committed, and every answer under way."""
        life, self.deaths_left, self.is_dying = self._life, self.deaths_left - 1, True
        self._steps_left = self._points_left = -1
        self.up.clear()
        if self._server is not None:
            bury(self._server)
        life.end()
        for answer in list(self._calls):
            if not answer.done():
                answer.set_exception(Cut())
        self.is_dying = False
        self.fell_at.append(self.now)
        self.counts["deaths"] += 1
        # Not as a part of the life that ends here, which would end it too.
        delay = self.dice.uniform(0.1, _LONGEST_RESTART_SECONDS)
        self.loop.call_later(delay, self.start, context=self._outside)

    async def end(self) -> None:
        """The last process ends as it should."""
        self.deaths_left = 0
        self._steps_left = self._points_left = -1
        while not self.up.is_set():
            await self.up.wait()
        if self._server is not None:
            await self._life.begin(self._server.close())
            await passing(1)
        crash_points.set_watcher(None)
        for task in self._life.tasks:
            self.fault("left behind by a server that was closed", repr(task.get_coro()))
        self._life.end()

    def bury(self) -> None:
        """Whatever is left of a game that broke down."""
        crash_points.set_watcher(None)
        if self._server is not None and not self._life.is_over:
            bury(self._server)
            self._life.end()

    def _jump(self, by: int) -> None:
        self.counts["clock jumps"] += 1
        self.clock.set_by += by

    def loses(self) -> bool:
        """Whether a ring gets lost."""
        is_lost = self.chance.lost_rings > 0 and self.dice.random() < self.chance.lost_rings
        self.counts["rings lost"] += is_lost
        return is_lost

    # -- calls ---------------------------------------------------------------------------------------------------------

    async def ask(
        self,
        token: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = None,
        patience: float | None = None,
        **query: Any,
    ) -> tuple[int, Any]:
        """Status and body of one call, for which its caller waits so many seconds. Raises Cut."""
        while not self.up.is_set():  # it may be gone again before this one has its turn
            await self.up.wait()
        self.counts["calls"] += 1
        if self._cuts("calls never made"):
            raise Cut
        own = {} if key is None else {b"idempotency-key": key.encode()}
        encoded = b"" if body is None else msgspec.json.encode(body)
        wish = InternalRequest(method, path, urlencode(query).encode() if query else b"", encoded, own)
        headers = {b"authorization": f"Bearer {token}".encode()}
        server = self._server
        if server is None:
            raise Cut
        app = server.app
        task = self._life.begin(
            app.call_internally(Request(server.routes.routes[0], {}, headers, b"", SIM_LIMITS), wish)
        )
        answer: asyncio.Future[Any] = self.loop.create_future()
        self._calls[answer] = None

        def tell(done: "asyncio.Task[Any]") -> None:
            if not answer.done() and not done.cancelled():
                if (error := done.exception()) is None:
                    answer.set_result(done.result())
                elif isinstance(error, Died):
                    answer.set_exception(Cut())
                else:
                    answer.set_exception(error)

        def hang_up() -> None:
            if not answer.done() and not task.done():
                self.counts["hung up"] += 1
                answer.set_exception(HungUp())

        task.add_done_callback(tell)
        if patience is not None:
            self.loop.call_later(patience, hang_up)
        try:
            found = await answer
        finally:
            del self._calls[answer]
            if not task.done():
                task.cancel()  # the caller is gone, and its connection with it
        if self._cuts("answers cut"):
            raise Cut
        # An agent that refuses what it is pushed makes it a dead letter: whoever waits is told so, and by no mistake.
        is_dead = found.status == 502 and b'"code":"not_taken"' in found.body
        if found.status >= 500 and found.status != 503 and not is_dead:
            self.fault("answers of 5xx", f"{method} {path}: {found.status} {found.body!r}")
        return found.status, msgspec.json.decode(found.body) if found.body else None

    def _cuts(self, name: str) -> bool:
        is_cut = self.chance.cuts > 0 and self.dice.random() < self.chance.cuts / 2
        self.counts[name] += is_cut
        return is_cut


class Net(Fetcher):
    """The way to agents that are pushed to: slow, lossy, and now and then it brings the same twice. An agent answers,
    has no time, refuses, says nothing of use, or only takes the task."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.came: Counter[str] = Counter()
        """How often each message came, by its activity id."""
        self.said: dict[str, bytes] = {}
        """What an agent has answered to it: the same to the same."""
        self.fails = 0.3

    async def post(
        self, url: str, headers: dict[str, str], body: bytes, *, timeout_seconds: float, max_bytes: int
    ) -> FetchResult:
        world, dice = self._world, self._world.dice
        world.counts["pushes"] += 1
        lot = dice.random() if dice.random() < self.fails else 1.0
        if lot < 0.25:
            world.counts["pushes failed"] += 1
            raise FetchFailed(reason="nobody there", sent=False, status=None)
        delay = dice.choice((0.0, 0.1, dice.uniform(0, 3)))
        if lot < 0.35:
            delay = timeout_seconds + 1
        if delay > timeout_seconds:
            world.counts["pushes failed"] += 1
            if dice.random() < 0.5:
                self._bring(headers, dice)
            await passing(timeout_seconds)
            raise FetchFailed(reason="no answer in time", sent=True, status=None)
        await passing(delay)
        if lot < 0.55:
            world.counts["pushes failed"] += 1
            status = dice.choice((500, 503, 429, 429, 404))
            return FetchResult(status, {"retry-after": str(dice.randint(1, 8))} if status == 429 else {}, b"")
        if dice.random() < 0.05:
            world.counts["pushes doubled"] += 1
            self._bring(headers, dice)
        return FetchResult(200, {"content-type": "application/json"}, self._bring(headers, dice))

    def _bring(self, headers: dict[str, str], dice: Random) -> bytes:
        id_ = headers["X-Molecule-Activity"]
        self.came[id_] += 1
        words = {"message": {"role": "agent", "parts": [{"kind": "text", "text": f"done: {id_}"}]}}
        every: list[Item] = [
            {"jsonrpc": "2.0", "id": 1, "result": words},
            {"jsonrpc": "2.0", "id": 1, "result": words},
            {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "I cannot"}},
            {"status": "queued"},
            {},
        ]
        return self.said.setdefault(id_, msgspec.json.encode(dice.choice(every)))

    async def get(self, url: str, headers: dict[str, str], *, timeout_seconds: float, max_bytes: int) -> FetchResult:
        raise FetchFailed(reason="nobody there", sent=False, status=None)

    async def check_url(self, url: str) -> None:
        """Every address is fine here."""


class _Gone:
    """What was a connection of a process that died: whoever still reaches for it, to tidy up, is as dead."""

    def __getattr__(self, _name: str) -> Any:
        raise Died


def bury(server: Server) -> None:
    """What the kernel does for a process that died: its files and locks are let go, nothing is written any more. (The
    log of the database stays as it is, for the next process to find.)"""
    store: Any = server.store
    for name in ("_write_connection", "_read_connection"):
        connection = getattr(store, name, None)
        if connection is not None:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            connection.close(True)
            setattr(store, name, _Gone())
    if store._lock_handle is not None:
        os.close(store._lock_handle)
        store._lock_handle = None
    server.messages.file_writer._blobs.close()


def copied(template: Path, folder: Path) -> Path:
    """A game begins with the same company."""
    folder.mkdir(mode=0o700)
    shutil.copyfile(template / "molecule.db", folder / "molecule.db")
    return folder
