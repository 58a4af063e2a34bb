"""Agents that wait for each other on a whole server in this process: what `prove wait` starts.

Each game is a tree of its own: some of its agents end, some are closed, the user may speak, and all of that happens
while its root begins to wait, in an order that chance gives. Time stands still until all is quiet: who has something to
hear hears it then, and who has not hears it from the clock.
"""

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any

from msgspec.structs import replace

from molecule_core.ground.clock import others_first
from proofs.harness.children import as_a_child
from proofs.harness.office import ADMIN_TOKEN, LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from tests.clocks import FakeClock

_MANY = 10**9
# More turns of the loop than it takes a server that has just started to come to rest.
_MANY_TURNS = 1_000
_LIMITS = replace(LIMITS, thread_spawns_per_minute=_MANY, thread_lease_seconds=_MANY)
_SIDE_BY_SIDE = 50
_MOST_AGENTS, _MOST_PAUSES, _MOST_NOTES = 4, 12, 5
_SHORT, _LONG = 5, 20
# A wait that is rung answers at once; how long nobody would wait for it on a slow machine.
_STALL_SECONDS, _CONTROL_SECONDS = 60.0, 1.5
_LATER = 10

Item = dict[str, Any]


class Game:
    """One tree, and what happens in it."""

    def __init__(self, office: Office, seat: tuple[str, str], dice: Random) -> None:
        self._office = office
        self._seat, self._token = seat
        self.dice = dice
        self.root: Item = {}
        self.agents: list[Item] = []
        self.reported = set[str]()
        self.ended = set[str]()
        self.is_heard = False
        self.mode = dice.choice(("any", "all"))
        self.targets: list[str] = []
        self.waiting: list[asyncio.Task[Item]] = []
        self.notes: list[str] = []

    async def _post(self, thread: Item, path: str, **body: Any) -> Item:
        found: Item = await self._office.tell(self._token, "POST", f"/threads/{thread['id']}{path}", body)
        return found

    async def _works(self, thread_id: str) -> Item:
        """An engine has a thread in hand, and runs its turn."""
        claim = await self._post({"id": thread_id}, "/claim", owner="engine")
        thread = {"id": thread_id, "generation": claim["generation"], "turn": claim["open_turn"]["turn_id"]}
        seen = await self._post(thread, f"/turns/{thread['turn']}/begin", generation=thread["generation"])
        return {**thread, "seen": seen["last_ordinal"]}

    async def set_up(self) -> None:
        """The root and its agents are at work. One of them may have ended, and the root may have heard of that."""
        started = {"base_instructions": "Wait.", "input": "Go"}
        root = await self._office.tell(self._token, "POST", f"/workspaces/{self._seat}/threads", started)
        self.root = await self._works(root["thread_id"])
        for number in range(self.dice.randint(1, _MOST_AGENTS)):
            call: Item = {"call_id": f"s{number}", "task_name": f"t{number}", "message": "Dig."}
            made = await self._post(self.root, "/agents/spawn", **call)
            self.agents.append(await self._works(made["call"]["new_thread_id"]))
        if self.dice.random() < 0.5:
            first = self.agents[0]
            await self._ends(first)
            wait: Item = {"call_id": "first", "targets": [first["id"]], "timeout": _SHORT}
            told = await self._post(self.root, "/agents/wait", **wait)
            self.reported = {each["thread_id"] for each in told["call"]["agents"] if each["outcome"] == "ended"}
        every = [each["id"] for each in self.agents]
        self.targets = self.dice.sample(every, self.dice.randint(1, len(every)))

    async def play(self) -> None:
        """All that happens at once; the waits go on behind it."""
        names = [1, 1] if self.dice.random() < 0.3 else [1]
        self.waiting = [asyncio.ensure_future(self._waits(f"w{name}")) for name in names]
        acts = []
        for each in self.agents:
            lot = self.dice.random()
            if each["id"] not in self.ended and lot < 0.5:
                acts.append(self._soon(self._ends(each) if lot < 0.4 else self._closes(each)))
        acts += [self._soon(self._speaks())] if self.dice.random() < 0.2 else []
        self.dice.shuffle(acts)
        await asyncio.gather(*acts)

    async def _soon(self, work: Any) -> None:
        for _ in range(self.dice.randrange(_MOST_PAUSES)):
            await others_first()
        await work

    async def _waits(self, call_id: str) -> Item:
        """Waits as an engine does: as long as it goes on, the same call again."""
        for _ in range(self.dice.randrange(_MOST_PAUSES)):
            await others_first()
        call = {"call_id": call_id, "targets": self.targets, "mode": self.mode, "timeout": _LONG}
        while True:
            told: Item = (await self._post(self.root, "/agents/wait", **call))["call"]
            if told["status"] != "inProgress":
                return told

    async def _ends(self, agent: Item) -> None:
        where = f"/turns/{agent['turn']}/end"
        await self._post(agent, where, generation=agent["generation"], status="completed", final="found it")
        self.ended.add(agent["id"])

    async def _closes(self, agent: Item) -> None:
        await self._post(agent, "/close")
        self.ended.add(agent["id"])

    async def _speaks(self) -> None:
        await self._office.tell(ADMIN_TOKEN, "POST", f"/threads/{self.root['id']}/turns", {"input": "Listen"})
        self.is_heard = True

    # -- what should be ------------------------------------------------------------------------------------------------

    @property
    def news(self) -> set[str]:
        """Targets that have ended and of which the root has not heard."""
        return (self.ended & set(self.targets)) - self.reported

    @property
    def is_over(self) -> bool:
        """Whether nobody should wait any more."""
        return self.is_heard or (bool(self.news) if self.mode == "any" else self.news == set(self.targets))

    def judge(self, told: list[Item]) -> Counter[str]:
        """What is wrong with the answers of the first wait, which are one."""
        found, first = Counter[str](), told[0]
        found["two answers for one call"] += sum(each != first for each in told)
        ends = {each["thread_id"] for each in first["agents"] if each.get("outcome") in ("ended", "interrupted")}
        found["ends that were none, or told before"] += len(ends - self.news)
        found["not the end that it had"] += first["status"] != self._meant(ends) or (
            first.get("timed_out", False) is not (not ends and not self.is_heard)
            and not (self.mode == "all" and not self.is_over)
        )
        self.reported |= ends
        return found

    def _meant(self, ends: set[str]) -> str:
        enough = bool(ends) if self.mode == "any" else ends == set(self.targets)
        return "interrupted" if self.is_heard and not enough else "completed"

    async def waits_again(self) -> Item:
        """Another wait of the root, which has read what the user has said: no end is told twice."""
        read = await self._office.tell(self._token, "GET", f"/threads/{self.root['id']}")
        await self._post(
            self.root,
            "/entries",
            generation=self.root["generation"],
            turn_id=self.root["turn"],
            seen=read["last_ordinal"],
        )
        return await self._waits("again")


class Waiters:
    """One run over all games."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._clock = FakeClock()
        self._office = Office(setting, self._clock, _LIMITS)
        self._patience = _STALL_SECONDS if setting.package is None else _CONTROL_SECONDS
        self._workers = 0
        self.counts: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    async def run(self) -> Verdict:
        """All games, so many at once."""
        await self._office.server.open()
        await self._come_to_rest()
        made = await self._office.tell(ADMIN_TOKEN, "POST", "/workspaces", {"name": "Ops"})
        seat = made["id"], made["connection"]["auth_token"]
        for first in range(0, self._setting.size, _SIDE_BY_SIDE):
            numbers = range(first, min(first + _SIDE_BY_SIDE, self._setting.size))
            await self._play([Game(self._office, seat, self._setting.dice("game", each)) for each in numbers])
        await self._office.server.close()
        zeros = ("lost wake-ups", "ended for nothing", "open behind the deadline", "two answers for one call")
        more = ("ends that were none, or told before", "not the end that it had")
        shown = ("games", "woken", "timed out", "interrupted by the user", "blocked though one was told before")
        return Verdict(
            {name: self.counts[name] for name in shown}, {name: self.faults[name] for name in (*zeros, *more)}
        )

    async def _play(self, games: list[Game]) -> None:
        await asyncio.gather(*(each.set_up() for each in games))
        await asyncio.gather(*(each.play() for each in games))
        whole = await self._come_to_their_end(games)
        for each in whole:
            self._count(each)
            self.faults += each.judge([task.result() for task in each.waiting])
        for each in whole:
            each.mode, each.is_heard = "any", False
            each.waiting = [asyncio.ensure_future(each.waits_again())]
        for each in await self._come_to_their_end(whole):
            self.faults += each.judge([task.result() for task in each.waiting])

    def _count(self, game: Game) -> None:
        told = game.waiting[0].result()
        self.counts["games"] += 1
        self.counts["woken"] += told["status"] == "completed" and not told.get("timed_out")
        self.counts["timed out"] += bool(told.get("timed_out"))
        self.counts["interrupted by the user"] += told["status"] == "interrupted"
        known = game.reported & set(game.targets)
        self.counts["blocked though one was told before"] += bool(known) and not game.news

    async def _come_to_their_end(self, games: list[Game]) -> list[Game]:
        """Those that have something to hear hear it now; the clock tells the others. Those that came to an end."""
        rung = [task for each in games if each.is_over for task in each.waiting]
        _, lost = await asyncio.wait(rung, timeout=self._patience) if rung else (set(), set())
        self.faults["lost wake-ups"] += len(lost)
        still = [task for each in games if not each.is_over for task in each.waiting]
        await self._asleep(len(still) + len(lost))
        self.faults["ended for nothing"] += sum(task.done() for task in still)
        for _ in range(_LONG + 1):
            await self._clock.advance(1)
        late = [task for task in (*still, *lost) if not task.done()]
        open_still = set(late)
        # Who is looking while the clock is moved sleeps until a little later; no clock stands still behind it.
        for _ in range(_LATER):
            if open_still:
                _, open_still = await asyncio.wait(open_still, timeout=self._patience / _LATER)
                await self._clock.advance(1)
        self.faults["open behind the deadline"] += len(open_still)
        for task in open_still:
            task.cancel()
        await asyncio.gather(*open_still, return_exceptions=True)
        return [each for each in games if not any(task in open_still for task in each.waiting)]

    async def _come_to_rest(self) -> None:
        """How many of the server's own workers sleep when nothing is to be done."""
        for _ in range(_MANY_TURNS):
            await others_first()
        self._workers = self._office.server.wakeups.asleep

    async def _asleep(self, count: int) -> None:
        """Until so many wait beside the server's own workers, or for so long that they never will."""
        wakeups = self._office.server.wakeups
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while wakeups.asleep < self._workers + count:
                    await others_first()


async def run(setting: Setting) -> Verdict:
    """One run over `setting.size` games."""
    return await Waiters(setting).run()


if __name__ == "__main__":
    as_a_child(run)
