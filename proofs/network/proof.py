"""`prove network`: the people of `prove kill9`, and some who watch live, over lines that are as bad as lines can be.

One bad line lies in front of the server, one in front of the agents that are pushed to. At the end the store is judged
against what the people saw, as if the lines had been good.
"""

import asyncio
import itertools
from collections.abc import Mapping

from proofs.harness.caller import Caller
from proofs.harness.controls import Control
from proofs.harness.ledger import read_ledger
from proofs.harness.mutations import Swap
from proofs.harness.serving import ADMIN_TOKEN, ServerProcess
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict, gaps
from proofs.network.debts import Debtor
from proofs.network.lines import Line
from proofs.network.watching import Watcher
from proofs.workload.company import Company
from proofs.workload.delegators import Givers
from proofs.workload.judge import STALL_SECONDS, judge_all, patience
from proofs.workload.noun_users import LIMITS, Nouns
from proofs.workload.observations import Book
from proofs.workload.shared_controls import KEY_AGAIN, MESSAGE_AGAIN
from testing.engines import ENGINES

SENDERS, AGENTS, INBOXES, WATCHERS = 8, 8, 4, 4
_MOMENTS = ("begun", "accepted", "handed", "answered", "acked", "told")
_MOST_PROGRESS = 16
# A line that was told to cut may carry nothing more: some cuts need a second try. The bound is for a broken product.
_MOST_TRIES = 2
# Of the cuts; the rest are between people and the server.
_PUSHES_CUT = 0.25
# A page that was away for long loads a snapshot; these watchers go on by their number, however far behind.
_LIMITS: Mapping[str, int] = {**LIMITS, "resume_events": 10**9}
_FAULTS = ("cuts", "delayed", "doubled", "half-closed", "overtaken")


class Street:
    """A server that is found behind a bad line. Keeps what `serving.Place` promises."""

    def __init__(self, server: ServerProcess, line: Line) -> None:
        self._server = server
        self._line = line
        self.port = 0
        self.up = server.up

    async def open(self) -> None:
        """Starts the server, and the line in front of it."""
        await self._server.start()
        self.port = await self._line.open(self._server.port)

    @property
    def kills(self) -> int:
        return self._server.kills

    @property
    def refused_starts(self) -> int:
        return self._server.refused_starts

    @property
    def ended_by_itself(self) -> int:
        return self._server.ended_by_itself

    @property
    def errors(self) -> list[str]:
        return self._server.errors


class Scene:
    """One run: who there is, and the lines between them."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._server, self.book = ServerProcess(setting, _LIMITS), Book()
        self._calls = Line(setting.dice("calls"), self.book.figures)
        self._pushes = Line(setting.dice("pushes"), self.book.figures)
        self.street = Street(self._server, self._calls)
        self._company = Company(setting, self.street, self.book)
        self.givers = Givers(setting, self.street, self._company, self.book, self._pushes.open)
        self.nouns = Nouns(setting, self.street, self.book)
        self.watchers: list[Watcher] = []
        self._watching: list[asyncio.Task[None]] = []
        """All who come on top of the crew: those who watch live, and those who look after what they owe."""

    async def play(self) -> None:
        """Everybody comes and works, the lines are cut, and everybody gets to the end."""
        try:
            await self.street.open()
            await self._begin()
            await self._disturb()
            seconds = patience(self._setting)
            people = (self._company.finish(STALL_SECONDS), self.givers.finish(seconds), self.nouns.finish(seconds))
            await asyncio.gather(*people)
            await self._watch_to_the_end()
            if code := await self._server.stop():
                self.book.fault("unclean ends", f"exit code {code}")
        finally:
            for task in self._watching:
                task.cancel()
            await asyncio.gather(*self._watching, return_exceptions=True)
            await self._server.kill()
            await self.givers.doers.close()
            await self._calls.close()
            await self._pushes.close()

    async def _begin(self) -> None:
        self._calls.is_fair = True  # who founds a company asks once
        await self._company.found(inboxes=INBOXES, senders=SENDERS)
        await self.givers.found()
        await self.nouns.found()
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            org_id = (await admin.get("/orgs"))[0]["id"]
            person = await admin.post(f"/orgs/{org_id}/people", {"name": "Looks on", "role": "viewer"})
        self.watchers = [Watcher(self.street.port, person["auth_token"], self.book) for _ in range(WATCHERS)]
        self._watching = [asyncio.create_task(each.watch()) for each in self.watchers]
        async with asyncio.timeout(STALL_SECONDS):
            await asyncio.gather(*(each.begun.wait() for each in self.watchers))
        debtors = [Debtor(seat, self.street, self._company, self.givers.doers) for seat in self.givers.doers.pushed]
        self._watching += [asyncio.create_task(each.look(self.book)) for each in debtors]
        self._calls.is_fair = False
        self._company.begin(agents=AGENTS)
        self.givers.begin()
        self.nouns.begin()

    async def _disturb(self) -> None:
        """Cuts, each after a random amount of random progress, until so many have come."""
        dice = self._setting.dice("cuts")
        for _ in range(self._setting.size * _MOST_TRIES):
            if self.book.figures["cuts"] >= self._setting.size:
                break
            moment, count = dice.choice(_MOMENTS), dice.randint(1, _MOST_PROGRESS)
            if not await self.book.progress.after(moment, count, seconds=STALL_SECONDS):
                self.book.fault("stalls", f"no {count} more {moment}")
            line = self._pushes if dice.random() < _PUSHES_CUT else self._calls
            if not line.cut_one():
                self._calls.cut_one()

    async def _watch_to_the_end(self) -> None:
        """The head is asked for past the line, and everybody must be told of it."""
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            org_id = (await admin.get("/orgs"))[0]["id"]
            head: int = (await admin.get(f"/orgs/{org_id}/snapshot"))["as_of"]
        for watcher in self.watchers:
            if not await watcher.upto(head, patience(self._setting)):
                self.book.fault("live watchers left behind", f"{watcher.told[-1]} of {head}")


async def run(setting: Setting) -> Verdict:
    """`setting.size` cuts, and all that goes wrong between them, then the judgement."""
    scene = Scene(setting)
    await scene.play()
    book, verdict = scene.book, await judge_all(setting, scene.book, scene.givers, scene.street, scene.nouns)
    for name in ("kills", "clients that died", "starts refused"):
        del verdict.figures[name]
    verdict.figures = {
        name: book.figures[name] for name in (*_FAULTS, "channels opened again", "pushes without an end")
    } | verdict.figures
    numbers = {fact.seq for facts in (await read_ledger(setting)).journals().values() for fact in facts}
    for name, count in {
        "live watchers without their place": book.faults["live watchers without their place"],
        "live watchers left behind": book.faults["live watchers left behind"],
        "live watchers skipped or saw twice": sum(_wrong(each.told) for each in scene.watchers),
        "told of what is not there": sum(len(set(each.told[1:]) - numbers) for each in scene.watchers),
        "faults that never came": sum(book.figures[name] == 0 for name in _FAULTS),
    }.items():
        verdict.zeros[name] = count
    return verdict


def _wrong(told: list[int]) -> int:
    """A person that watches is told of every number behind the first one, once, in order."""
    return gaps([number - told[0] + 1 for number in told]) + sum(
        later != earlier + 1 for earlier, later in itertools.pairwise(told)
    )


_CONTROLS = (
    MESSAGE_AGAIN,
    KEY_AGAIN,
    Control(
        name="who comes back live goes on at the head",
        marker="catch-up-cursor",
        change=Swap("($listener, $)", "($listener, head)"),
        breaks="live watchers skipped or saw twice",
    ),
)

PROOF = Proof(
    name="network",
    claim="Delayed, duplicated and cut connections change nothing that was accepted.",
    shows="The people of kill9 (eight senders, eight agents, four who follow a log, givers of tasks by four "
    "entrances, doers that poll and doers that are pushed to, those who remember, ask for leave and speak to "
    "threads) and four who watch the journal over WebSockets reach the server by a bad line, and the server reaches "
    "those it pushes to by another one: of all pieces of a stream a tenth comes up to two seconds late, so that "
    "requests and pushes overtake each other; of all whole requests one in twenty comes twice; one piece in twenty "
    "is the last one of its direction, which is closed by half; and connections are cut in the middle of a piece. "
    "Everybody asks again under the same id. In the end all is as if the lines had been good: nothing that was "
    "accepted is missing, doubled, altered or out of order, each delegation has ended once, all that kill9 counts of "
    "memories, approvals and threads is zero, and each who watched was told of every number of the journal once, in "
    "order.",
    engines=("sqlite",),
    unit="cuts",
    sizes={"sqlite": 500, "postgres": 500},
    control_sizes={"sqlite": 12, "postgres": 12},
    controls={"sqlite": _CONTROLS, "postgres": _CONTROLS},
    run=run,
    demands={engine: {"cuts": 500, "memories": 1, "approvals": 1, "threads": 1} for engine in ENGINES},
    faults=_FAULTS[:-1],  # who is overtaken is so by a delay, which counts
)
