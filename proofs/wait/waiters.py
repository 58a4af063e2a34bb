"""Agents that wait for each other on a whole server in this process: what `prove wait` starts.

Each game is a tree of its own: some of its agents end, some are closed, some are gone with all that was known of them,
the user may speak, and all of that happens while its root begins to wait, in an order that chance gives. Time stands
still until all is quiet: who has something to hear hears it then, and who has not hears it from the clock.
"""

import asyncio
import contextlib
from collections import Counter
from random import Random
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import yield_to_others
from molecule_core.store.queries import Params
from molecule_core.store.retention import deletion_command
from molecule_core.threads.retention import _DELETE_STATEMENTS
from proofs.harness.children import as_a_child
from proofs.harness.office import ADMIN_TOKEN, LIMITS, Office
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure, Verdict
from testing.clocks import FakeClock

_MANY = 10**9
# More turns of the loop than it takes a server that has just started to come to rest.
_MANY_TURNS = 1_000
_LIMITS = replace(LIMITS, thread_spawns_per_minute=_MANY, thread_lease_seconds=_MANY)
_SIDE_BY_SIDE = 50
_MOST_AGENTS, _MOST_PAUSES, _MOST_REFUSALS = 4, 12, 3
_SHORT = 5
# Within one request, over a whole tenth of a second, and longer than a request is held.
_WAIT_SECONDS = (8.0, 20.03, 30.27)
_LATE_SECONDS = 0.1
# Of agents that are at work: to end, to be closed, to be gone at once, or once all is quiet; the others go on working.
_ENDS, _CLOSES, _GOES, _LEAVES = 0.4, 0.5, 0.55, 0.6
# A wait that is rung answers at once; how long nobody would wait for it on a slow machine.
_STALL_SECONDS, _CONTROL_SECONDS = 60.0, 1.5
LOST, IDLE, EARLY, OPEN = (
    "lost wake-ups",
    "ended for nothing",
    "ended before the deadline",
    "open 100 ms behind the deadline",
)
TWICE, NO_END, OTHER, WRONG = (
    "two answers for one call",
    "ends that were none, or told before",
    "ends told as another end",
    "not the end that it had",
)
UNNAMED, NO_ERROR = "lost sources not named", "lost sources told as no error"
_OF_LOST = ("told of a lost one", "told of an error")
ZEROS = (LOST, IDLE, EARLY, OPEN, TWICE, NO_END, OTHER, WRONG, UNNAMED, NO_ERROR)

Item = dict[str, Any]


class Game:
    """One tree, and what happens in it."""

    def __init__(self, office: Office, clock: FakeClock, seat: tuple[str, str], dice: Random) -> None:
        self._office = office
        self._clock = clock
        self._seat, self._token = seat
        self.dice = dice
        self.root: Item = {}
        self.agents: list[Item] = []
        self.reported = set[str]()
        self.ended = set[str]()
        self.closed = set[str]()
        self.gone = set[str]()
        self._leaving: list[Item] = []
        self._gone_before = set[str]()
        self.is_heard = False
        self.mode = dice.choice(("any", "all"))
        self.seconds = dice.choice(_WAIT_SECONDS)
        self.targets: list[str] = []
        self.waiting: list[asyncio.Task[Item]] = []
        self.refusals: list[str] = []
        self.took = list[float]()

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
            lot = 1.0 if each["id"] in self.ended else self.dice.random()
            fates = ((_ENDS, self._ends), (_CLOSES, self._closes), (_GOES, self._goes), (_LEAVES, self._leaves))
            act = next((act for share, act in fates if lot < share), None)
            acts += [self._soon(act(each))] if act is not None else []
        acts += [self._soon(self._speaks())] if self.dice.random() < 0.2 else []
        self.dice.shuffle(acts)
        await asyncio.gather(*acts)

    async def _soon(self, work: Any) -> None:
        for _ in range(self.dice.randrange(_MOST_PAUSES)):
            await yield_to_others()
        await work

    async def _waits(self, call_id: str) -> Item:
        """Waits as an engine does: as long as it goes on, the same call again; also when it was told of an error."""
        for _ in range(self.dice.randrange(_MOST_PAUSES)):
            await yield_to_others()
        call = {"call_id": call_id, "targets": self.targets, "mode": self.mode, "timeout": self.seconds}
        where, began, refusals = f"/threads/{self.root['id']}/agents/wait", self._clock.monotonic(), 0
        while refusals < _MOST_REFUSALS:
            status, answer = await self._office.ask(self._token, "POST", where, call)
            if status >= 400:
                refusals += 1
                self.refusals.append(answer["code"])
            elif answer["call"]["status"] != "inProgress":
                self.took.append(self._clock.monotonic() - began)
                return dict(answer["call"])
        return {"status": "refused", "agents": []}

    async def _ends(self, agent: Item) -> None:
        where = f"/turns/{agent['turn']}/end"
        await self._post(agent, where, generation=agent["generation"], status="completed", final="found it")
        self.ended.add(agent["id"])

    async def _closes(self, agent: Item) -> None:
        await self._post(agent, "/close")
        self.ended.add(agent["id"])
        self.closed.add(agent["id"])

    async def _goes(self, agent: Item) -> None:
        """Everything that is known of it is taken, as retention takes it; nobody is rung by that."""
        rows: list[tuple[str, Params]] = [(name, {"thread_id": agent["id"]}) for name in _DELETE_STATEMENTS]
        await self._office.server.store.run(deletion_command("", rows))
        self.gone.add(agent["id"])

    async def _leaves(self, agent: Item) -> None:
        self._leaving.append(agent)

    async def go_on(self) -> None:
        """What happens while those sleep who have nothing to hear."""
        for agent in self._leaving:
            await self._goes(agent)
        self._leaving = []

    async def _speaks(self) -> None:
        await self._office.tell(ADMIN_TOKEN, "POST", f"/threads/{self.root['id']}/turns", {"input": "Listen"})
        self.is_heard = True

    # -- what should be ------------------------------------------------------------------------------------------------

    @property
    def news(self) -> set[str]:
        """Targets that have ended and of which the root has not heard."""
        return (self.ended & set(self.targets)) - self.reported

    @property
    def lost(self) -> set[str]:
        """Targets that are gone."""
        return self.gone & set(self.targets)

    @property
    def is_over(self) -> bool:
        """Whether nobody should wait any more. Who is gone rings nobody; a wait that begins behind that sees it."""
        return self.is_heard or self._is_enough(self.news | (self.lost & self._gone_before))

    @property
    def may_be_over(self) -> bool:
        """Whether a wait may have ended: it sees who is gone when something else lets it look."""
        return self.is_heard or self._is_enough(self.news | self.lost)

    @property
    def at_rest(self) -> set[str]:
        """Targets whose end the root has heard of; none of them works again."""
        return self.ended & self.reported & set(self.targets)

    def _is_enough(self, done: set[str]) -> bool:
        """Return whether a wait ends: by one end for any, or when no target is at work."""
        return (self.mode == "any" and bool(done)) or done | self.at_rest == set(self.targets)

    def _repeatable(self, ends: set[str]) -> set[str]:
        """Return the ends that may be reported again: all, if no target is at work and no end is new."""
        return self.at_rest if not self.news and ends == self.at_rest == set(self.targets) else set()

    def forget(self) -> None:
        """What was seen of the first wait, before the second."""
        self.mode, self.is_heard = "any", False
        self.refusals, self.took, self._gone_before = [], [], {*self.gone}

    def judge(self, told: list[Item]) -> Counter[str]:
        """What is wrong with the answers of a wait, which are one."""
        found, first = Counter[str](), told[0]
        found[TWICE] += sum(each != first for each in told)
        said = {each["thread_id"]: each for each in first["agents"]}
        ends = {name for name, each in said.items() if each.get("outcome") in ("ended", "interrupted")}
        lost = {name for name, each in said.items() if each.get("outcome") in ("source_lost", "unknown")}
        again = self._repeatable(ends)
        found[NO_END] += len(ends - self.news - again)
        found[OTHER] += sum(not self._is_told_right(said[name]) for name in ends & (self.news | again))
        found[UNNAMED] += len(lost - self.lost)
        if first["status"] == "failed" or self.refusals:
            found[NO_ERROR] += not self._is_told_as_error(first)
        else:
            found[NO_ERROR] += self._is_of_one(lost)
            found[WRONG] += not self._is_its_end(first, ends | lost)
            # At its deadline all was quiet for long: what had come of each was to be seen.
            found[UNNAMED] += len(self.lost - lost) if first.get("timed_out") else 0
            found[NO_END] += len(self.news - ends) if first.get("timed_out") else 0
        self.reported |= ends
        return found

    def _is_told_right(self, said: Item) -> bool:
        """Whether what is said of an end is how that agent ended."""
        is_closed = said["thread_id"] in self.closed
        meant = ("ended", "shutdown", None) if is_closed else ("ended", "completed", "found it")
        return (said["outcome"], said["status"], said.get("message")) == meant

    def _is_told_as_error(self, first: Item) -> bool:
        """Who waited for one alone, and it is gone: one was refused, and the call stands in the log as failed."""
        codes = {"no_such_agent"} if self._gone_before else {"no_such_agent", "source_lost"}
        is_refused = bool(self.refusals) and set(self.refusals) <= codes
        return is_refused and first["status"] == "failed" and self._is_of_one(self.lost)

    def _is_of_one(self, lost: set[str]) -> bool:
        """Whether one agent alone was waited for, and it is lost."""
        return len(self.targets) == 1 and lost == {*self.targets}

    def _is_its_end(self, first: Item, done: set[str]) -> bool:
        is_enough = self._is_enough(done)
        meant = "interrupted" if self.is_heard and not is_enough else "completed"
        is_late = not is_enough and not self.is_heard
        return first["status"] == meant and first.get("timed_out", False) is is_late

    async def waits_again(self) -> Item:
        """Begin another wait of the root, which has read the new input."""
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
            dices = [self._setting.dice("game", each) for each in numbers]
            await self._play([Game(self._office, self._clock, seat, dice) for dice in dices])
        await self._office.server.close()
        shown = ("games", "woken", "timed out", "interrupted by the user", "told of the closing of one", *_OF_LOST)
        figures: dict[str, Figure] = {
            name: self.counts[name] for name in (*shown, "blocked though one was told before")
        }
        return Verdict(figures, {name: self.faults[name] for name in ZEROS})

    async def _play(self, games: list[Game]) -> None:
        await asyncio.gather(*(each.set_up() for each in games))
        await asyncio.gather(*(each.play() for each in games))
        whole = await self._come_to_their_end(games)
        for each in whole:
            self._count(each)
            self.faults += each.judge([task.result() for task in each.waiting])
        for each in whole:
            each.forget()
            each.waiting = [asyncio.ensure_future(each.waits_again())]
        for each in await self._come_to_their_end(whole):
            self.faults += each.judge([task.result() for task in each.waiting])

    def _count(self, game: Game) -> None:
        told = game.waiting[0].result()
        self.counts["games"] += 1
        self.counts["woken"] += told["status"] == "completed" and not told.get("timed_out")
        self.counts["timed out"] += bool(told.get("timed_out"))
        self.counts["interrupted by the user"] += told["status"] == "interrupted"
        self.counts["told of the closing of one"] += any(each["status"] == "shutdown" for each in told["agents"])
        self.counts["told of a lost one"] += any(each.get("outcome") == "source_lost" for each in told["agents"])
        self.counts["told of an error"] += "source_lost" in game.refusals
        known = game.reported & set(game.targets)
        self.counts["blocked though one was told before"] += bool(known) and not game.news

    async def _come_to_their_end(self, games: list[Game]) -> list[Game]:
        """Those that have something to hear hear it now; the clock tells the others. Those that came to an end."""
        rung = [task for each in games if each.is_over for task in each.waiting]
        _, lost = await asyncio.wait(rung, timeout=self._patience) if rung else (set(), set())
        self.faults[LOST] += len(lost)
        still = {task: each for each in games if not each.is_over for task in each.waiting}
        await self._asleep([*still, *lost])
        self.faults[IDLE] += sum(task.done() and not each.may_be_over for task, each in still.items())
        await asyncio.gather(*(each.go_on() for each in games))
        quiet = self._clock.monotonic()
        for seconds in _WAIT_SECONDS:
            due = {task for each in games if each.seconds == seconds for task in each.waiting if not task.done()}
            await self._pass_until(quiet + seconds + _LATE_SECONDS)
            # From here on the clock stands still: who is open has nothing more to wait for.
            _, late = await asyncio.wait(due, timeout=self._patience) if due else (set(), set())
            self.faults[OPEN] += len(late)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        whole = [each for each in games if not any(task.cancelled() for task in each.waiting)]
        idle = [each for each in whole if not each.may_be_over]
        self.faults[EARLY] += sum(0 < took < each.seconds for each in idle for took in each.took)
        return whole

    async def _pass_until(self, end: float) -> None:
        """Lets time pass, second by second: whatever else is due meanwhile comes in its turn."""
        while (left := round(end - self._clock.monotonic(), 3)) > 0:
            await self._clock.advance(min(left, 1.0))

    async def _come_to_rest(self) -> None:
        """How many of the server's own workers sleep when nothing is to be done."""
        for _ in range(_MANY_TURNS):
            await yield_to_others()
        self._workers = self._office.server.wakeups.sleeping

    async def _asleep(self, tasks: list[asyncio.Task[Item]]) -> None:
        """Until those that go on wait beside the server's own workers, or for so long that they never will."""
        wakeups = self._office.server.wakeups
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                while wakeups.sleeping < self._workers + sum(not task.done() for task in tasks):
                    await yield_to_others()


async def run(setting: Setting) -> Verdict:
    """One run over `setting.size` games."""
    return await Waiters(setting).run()


if __name__ == "__main__":
    as_a_child(run)
