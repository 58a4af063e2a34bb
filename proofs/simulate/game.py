"""One game: a seed, a company, and what becomes of both."""

import asyncio
import logging
from collections import Counter
from pathlib import Path
from random import Random

from msgspec import Struct
from msgspec.structs import replace

from molecule_core.store.wakeups import Notifier
from proofs.simulate.cells import Cells
from proofs.simulate.company import Company
from proofs.simulate.engines import Engine
from proofs.simulate.judge import judge, open_things
from proofs.simulate.loop import Deadlock, Endless, SimulatedLoop, passing
from proofs.simulate.people import Agent, Book, Person
from proofs.simulate.world import Chance, World, copied

# Everything has a deadline within minutes; a wall clock that is set back an hour makes an hour of one.
_HORIZON_SECONDS = 3 * 3600.0
_MOST_STEPS = 120_000


class Outcome(Struct):
    """What a game came to. `journal`: the hash over all rows of the journal."""

    journal: str
    counts: Counter[str]
    faults: Counter[str]
    points: Counter[str]
    died_at: Counter[str]
    notes: list[str]


class Game:
    """One seed. `falls`: where the server dies, and at which pass; a point that is passed so often nowhere kills
    nobody."""

    def __init__(
        self,
        seed: str,
        company: Company,
        template: Path,
        folder: Path,
        cells: Cells | None = None,
        falls: tuple[str, int] | None = None,
    ) -> None:
        self._seed, self._cells = seed, cells
        self._company = company
        self._folder = copied(template, folder)
        self._file = folder / "molecule.db"
        laziness = self._dice("laziness").choice((0.0, 0.0, 0.5, 0.8))
        self._loop = SimulatedLoop(self._dice("loop"), _MOST_STEPS, laziness)
        dice = self._dice("world")
        chance = Chance.drawn(dice)
        if falls is not None:
            chance = replace(chance, deaths=0)
        self.world = World(self._folder, dice, chance, self._loop, falls)
        self.book = Book()
        self._is_over = self._is_late = False

    def _dice(self, *names: object) -> Random:
        return Random(f"{self._seed} {names}")

    def play(self) -> Outcome:
        """Plays to the end, and judges."""
        world, loop = self.world, self._loop
        asyncio.set_event_loop(loop)
        watch = _Errors(world)
        log = logging.getLogger("molecule")
        log.addHandler(watch)
        log.propagate = False
        real = Notifier.notify

        def ring(self: Notifier, keys: object) -> None:
            real(self, [key for key in keys if self.closing or not world.loses()])  # type: ignore[attr-defined]

        Notifier.notify = ring  # type: ignore[method-assign]
        try:
            loop.run_until_complete(self._play())
        except Deadlock:
            world.fault("deadlocks", self._seed)
        except Endless:
            world.fault("never at rest", self._seed)
        finally:
            Notifier.notify = real  # type: ignore[method-assign]
            log.removeHandler(watch)
            world.bury()
            asyncio.set_event_loop(None)
            loop.close()
        for each in loop.trouble:
            world.fault("tasks that ended with an error", each)
        journal = judge(self._file, world, self._company, self.book, self._cells)
        return Outcome(journal, world.counts, world.faults, world.points, world.died_at, world.notes)

    async def _play(self) -> None:
        world, company, book = self.world, self._company, self.book
        world.start()
        agents = [Agent(world, company, book, self._dice("agent", seat.number), seat) for seat in company.polled]
        persons = [Person(world, company, book, self._dice("person", n), t) for n, t in enumerate(company.persons)]
        pushed = [Agent(world, company, book, self._dice("pushed"), seat) for seat in company.seats if seat.is_pushed]
        await asyncio.gather(*(agent.arrive() for agent in (*agents, *pushed)))
        staying = [self._stay(agent) for agent in agents]
        staying += [asyncio.ensure_future(each.look_after(lambda: self._is_over)) for each in persons]
        seat = company.seats[3]
        engines = [Engine(world, company, book, self._dice(name), seat, name) for name in ("eve", "eli")]
        for engine in engines:
            engine.is_idle = lambda: self._is_late
            staying.append(asyncio.ensure_future(engine.run(lambda: self._is_over)))
        leads = agents[:3]
        acts = [each.speak(f"person{n}", company.seats, 18) for n, each in enumerate(persons)]
        for each in agents:
            peers = [company.seats[number] for number in each.seat.peers]
            acts.append(each.speak(f"agent{each.seat.number}", peers, 4))
        acts += [each.give(2) for each in leads]
        acts.append(self._dice("recorder").choice(agents[1:]).record(1))
        acts += [each.ask_leave(1) for each in self._dice("askers").sample(agents[1:], 4)]
        acts.append(engines[0].start(2))
        await asyncio.gather(*acts)
        self._is_late = True
        await self._quiet()
        self._is_over = True
        await asyncio.wait(staying, timeout=4000)
        for task in staying:
            if task.done():
                task.result()
            else:
                world.fault("waits that never came back", repr(task.get_coro()))
                task.cancel()
        await world.end()

    def _stay(self, agent: Agent) -> "asyncio.Task[None]":
        agent.is_idle = lambda: self._is_late
        return asyncio.ensure_future(agent.work(lambda: self._is_over))

    async def _quiet(self) -> None:
        """Until nothing is open any more, or for so long that it never will be."""
        world = self.world
        still: dict[str, int] = {}
        last = max((at for at, _ in world.chance.jumps), default=0.0)
        while world.now < _HORIZON_SECONDS:
            await passing(20)
            if world.now < last + 10:
                continue
            still = open_things(self._file)
            if not any(still.values()):
                return
        for what, many in still.items():
            if many:
                world.fault("open for ever", f"{many} {what}")
            world.faults["open for ever"] += max(0, many - 1)


class _Errors(logging.Handler):
    """What the server says went wrong within it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if not self._world.is_dead:
            error = record.exc_info[1] if record.exc_info else ""
            self._world.fault("errors in the server's log", f"{record.getMessage()} {error!r}")
