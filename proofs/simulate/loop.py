"""An event loop without a clock, a socket or a thread: time jumps to the next timer, and chance says who is first.

Whatever is ready at one moment runs in an order that the seed draws; what would run in a thread runs here, a drawn time
later. What belongs to a life that has ended (a server process that died) never runs again: no `finally`, no farewell.
"""

import asyncio
import contextlib
import heapq
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar, copy_context
from random import Random
from typing import Any, TypeVar

from molecule_core.common.clock import SECOND
from molecule_core.messages.obligations.ledger import NeedsExclusiveGroup

T = TypeVar("T")
# A deed that would be done in a thread takes so long at most.
_LONGEST_DEED_SECONDS = 0.05
# And a turn of the loop takes so long: who looks at the clock again sees that it has moved.
_TURN_SECONDS = 0.000_001


class Deadlock(Exception):
    """Nothing is ready and nobody sleeps, though somebody waits."""


class Endless(Exception):
    """More was done than anybody needs: something goes round in circles."""


class Died(BaseException):
    """The process dies at this very place."""


class Life:
    """One server process, from its start to its death. What it begins is its own, and ends with it."""

    def __init__(self) -> None:
        self.is_over = False
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.trouble: list[str] = []

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begins something within this process."""
        context = copy_context()
        context.run(_LIFE.set, self)
        return asyncio.get_running_loop().create_task(work, context=context)

    def end(self) -> None:
        """Nothing of it runs any more, not even what it would do to end well."""
        self.is_over = True
        for task in list(self.tasks):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # Here and now, and not whenever memory is collected. One that runs at this moment cannot be closed; it has
            # `Died` before it.
            with contextlib.suppress(BaseException):
                task.get_coro().close()


_LIFE: ContextVar[Life | None] = ContextVar("life", default=None)


class SimulatedLoop(asyncio.BaseEventLoop):
    """Time in seconds from 0. `laziness`: how likely it is that what is ready has to wait for another turn.
    `on_step` is called before each step of a life, with that life, and may end it."""

    def __init__(self, dice: Random, most_steps: int, laziness: float = 0.0) -> None:
        super().__init__()
        self._laziness = laziness
        self.steps = 0
        self.on_step: Callable[[Life], None] = lambda _life: None
        self._dice = dice
        self._left = most_steps
        self._time = 0.0
        self.lives: list[Life] = []
        self.trouble: list[str] = []
        """What a task ended with that nobody heard of."""
        self.set_task_factory(_begun)
        self.set_exception_handler(self._hear)

    def time(self) -> float:
        return self._time

    def pass_time(self, seconds: float) -> None:
        """What is done just now takes so long."""
        self._time += seconds

    def _run_once(self) -> None:
        """All that is ready at this moment, in a drawn order; if nothing is, the next moment at which something is."""
        ready, sleeping = self._ready, self._scheduled  # type: ignore[attr-defined]
        self._time += _TURN_SECONDS
        while sleeping and (sleeping[0]._cancelled or _is_over(sleeping[0])):
            heapq.heappop(sleeping)._scheduled = False
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not sleeping:
                raise Deadlock
            self._time = max(self._time, sleeping[0]._when)
        while sleeping and sleeping[0]._when <= self._time:
            handle = heapq.heappop(sleeping)
            handle._scheduled = False
            ready.append(handle)
        now = [handle for handle in ready if not handle._cancelled and not _is_over(handle)]
        ready.clear()
        self._dice.shuffle(now)
        if self._laziness:
            ready.extend(handle for handle in now if self._dice.random() < self._laziness)
            late = set(map(id, ready))
            now = [handle for handle in now if id(handle) not in late]
        self._left -= len(now)
        if self._left < 0:
            raise Endless
        for handle in now:
            life = handle._context.get(_LIFE)
            if life is not None:
                self.steps += 1
                self.on_step(life)
                if life.is_over:
                    continue
            if not handle._cancelled:
                handle._run()

    def run_in_executor(self, _executor: Any, func: Callable[..., T], *args: Any) -> "asyncio.Future[T]":  # type: ignore[override]
        done: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:
                done.set_exception(error)

        self.call_later(self._dice.random() * _LONGEST_DEED_SECONDS, work)
        return done

    def _hear(self, _loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        error, task = about.get("exception"), about.get("task") or about.get("future")
        if isinstance(error, Died) or any(life.is_over and task in life.tasks for life in self.lives):
            return
        # Whoever tries once more when it is told this has died before it was.
        if isinstance(error, NeedsExclusiveGroup) and any(life.is_over for life in self.lives):
            return
        self.trouble.append(f"{about['message']}: {error!r}")

    # -- what a loop with sockets does, and this one has no need of ----------------------------------------------------

    def _timer_handle_cancelled(self, handle: events.TimerHandle) -> None:
        """It is passed over once its time comes."""

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nobody sleeps."""


async def passing(seconds: float) -> None:
    """Returns when so much time of the simulated clock has passed; nobody really waits."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    alarm = loop.call_later(seconds, _pass, over)
    try:
        await over
    finally:
        alarm.cancel()


def _pass(over: "asyncio.Future[None]") -> None:
    if not over.done():
        over.set_result(None)


def _is_over(handle: Any) -> bool:
    life = handle._context.get(_LIFE)
    return life is not None and life.is_over


def _begun(loop: asyncio.AbstractEventLoop, work: Any, context: Any = None) -> "asyncio.Task[Any]":
    task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
    life = _LIFE.get() if context is None else context.get(_LIFE)
    if life is not None:
        life.tasks[task] = None
        task.add_done_callback(lambda task: life.tasks.pop(task, None))
    return task


class SimulatedClock:
    """The clocks of a machine whose wall clock somebody sets while all goes on. `slowness`: so many seconds pass
    between two looks at the monotonic clock, as on a machine with a slow disk."""

    def __init__(self, loop: SimulatedLoop, start: int, slowness: float = 0.0) -> None:
        self._loop = loop
        self._start = start
        self._slowness = slowness
        self.set_by = 0
        """By how many microseconds the wall clock is wrong."""

    def now(self) -> int:
        return self._start + round(self._loop.time() * SECOND) + self.set_by

    def monotonic(self) -> float:
        if self._slowness:
            self._loop.pass_time(self._slowness)
        return self._loop.time()

    async def wait(self, signal: Awaitable[object], seconds: float) -> bool:
        try:
            async with asyncio.timeout(max(seconds, 0.0)):
                await signal
        except TimeoutError:
            return False
        return True
