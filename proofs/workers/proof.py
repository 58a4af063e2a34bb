"""`prove workers`: three servers on one PostgreSQL, killed and frozen at random moments, and nobody can tell.

The people of `prove kill9` use all three: each connection goes to any of them, also to one that is frozen at that
moment. A frozen server is a zombie: when it thaws it still holds what it held, and knows nothing of the time between.
"""

import asyncio
from collections.abc import Callable
from random import Random

from proofs.harness.controls import Control
from proofs.harness.mutations import Swap
from proofs.harness.serving import ServerProcess
from proofs.harness.settings import Proof, Setting
from proofs.harness.verdicts import Verdict
from proofs.workload.company import Company
from proofs.workload.delegators import Givers
from proofs.workload.judge import judge_all, patience
from proofs.workload.noun_users import LIMITS, Nouns
from proofs.workload.observations import Book
from proofs.workload.shared_controls import POSTGRES_ANSWERS_FIRST, STALE_ACK

SERVERS, SENDERS, AGENTS, INBOXES = 3, 8, 8, 4
# Longer than a lease: what a zombie had handed out has come again elsewhere by the time it thaws.
FROZEN_SECONDS = 5.0
_MOMENTS = ("begun", "accepted", "handed", "answered", "acked")
_MOST_PROGRESS = 120
_STALL_SECONDS = 60.0


class Fleet:
    """Several servers of one store. Keeps what `serving.Place` promises."""

    def __init__(self, setting: Setting) -> None:
        self.servers = [ServerProcess(setting, LIMITS) for _ in range(SERVERS)]
        self.up = asyncio.Event()
        self.freezes = 0
        self._dice = setting.dice("ways")
        self._busy: set[ServerProcess] = set()
        """Those that are being killed or are frozen."""
        self._free = asyncio.Condition()

    @property
    def port(self) -> Callable[[], int]:
        """Any of those that listen, frozen or not."""
        return self._any_port

    def _any_port(self) -> int:
        listening = [server.port for server in self.servers if server.up.is_set()]
        return self._dice.choice(listening or [server.port for server in self.servers])

    async def start(self) -> None:
        """All at once, on an empty database."""
        await asyncio.gather(*(server.start() for server in self.servers))
        self.up.set()

    async def kill_one(self, dice: Random) -> None:
        """Kills one, and starts it again."""
        server = await self._take(dice)
        await server.kill()
        await server.start()
        await self._give_back(server)

    async def freeze_one(self, dice: Random, book: Book) -> None:
        """Freezes one for a while."""
        server = await self._take(dice)
        server.freeze()
        await book.progress.after("nothing", 1, seconds=FROZEN_SECONDS)
        server.thaw()
        self.freezes += 1
        await self._give_back(server)

    async def _take(self, dice: Random) -> ServerProcess:
        """One that nobody kills or has frozen; one is always left for the people."""
        async with self._free:
            await self._free.wait_for(lambda: len(self._busy) < SERVERS - 1)
            server = dice.choice([each for each in self.servers if each not in self._busy])
            self._busy.add(server)
            return server

    async def _give_back(self, server: ServerProcess) -> None:
        async with self._free:
            self._busy.discard(server)
            self._free.notify_all()

    async def stop(self) -> list[int]:
        """Ends all of them; their exit codes."""
        return list(await asyncio.gather(*(server.stop() for server in self.servers)))

    async def kill(self) -> None:
        """Whatever still runs."""
        await asyncio.gather(*(server.kill() for server in self.servers), return_exceptions=True)

    @property
    def kills(self) -> int:
        return sum(server.kills for server in self.servers)

    @property
    def refused_starts(self) -> int:
        return sum(server.refused_starts for server in self.servers)

    @property
    def ended_by_itself(self) -> int:
        return sum(server.ended_by_itself for server in self.servers)

    @property
    def errors(self) -> list[str]:
        return [error for server in self.servers for error in server.errors]


async def run(setting: Setting) -> Verdict:
    """`setting.size` kills and half as many freezes, then the judgement of `prove kill9`."""
    fleet, book = Fleet(setting), Book()
    company = Company(setting, fleet, book)
    givers = Givers(setting, fleet, company, book)
    nouns = Nouns(setting, fleet, book)
    try:
        await fleet.start()
        await company.found(inboxes=INBOXES, senders=SENDERS)
        await givers.found()
        await nouns.found()
        company.begin(agents=AGENTS)
        givers.begin()
        nouns.begin()
        await asyncio.gather(_kill(setting, fleet, company, givers, nouns, book), _freeze(setting, fleet, book))
        seconds = patience(setting)
        await asyncio.gather(company.finish(_STALL_SECONDS), givers.finish(seconds), nouns.finish(seconds))
        codes = await fleet.stop()
    finally:
        await fleet.kill()
        await givers.doers.close()
    if any(codes):
        book.fault("unclean ends", f"exit codes {codes}")
    verdict = await judge_all(setting, book, givers, fleet, nouns)
    verdict.figures = {"servers": SERVERS, "freezes": fleet.freezes, **verdict.figures}
    return verdict


async def _kill(setting: Setting, fleet: Fleet, company: Company, givers: Givers, nouns: Nouns, book: Book) -> None:
    dice = setting.dice("kills")
    for number in range(setting.size):
        if dice.random() < 0.5:
            await _moment(book, "begun", dice.randint(1, _MOST_PROGRESS))
            await company.kill_agent(dice.randrange(AGENTS), number + 1)
            await givers.kill_doer(dice.randrange(1 << 16))
            await nouns.kill_one(dice.randrange(1 << 16))
        await _moment(book, dice.choice(_MOMENTS), dice.randint(1, _MOST_PROGRESS))
        await fleet.kill_one(dice)


async def _freeze(setting: Setting, fleet: Fleet, book: Book) -> None:
    dice = setting.dice("freezes")
    for _ in range(setting.size // 2):
        await _moment(book, dice.choice(_MOMENTS), dice.randint(1, _MOST_PROGRESS))
        await fleet.freeze_one(dice, book)


async def _moment(book: Book, kind: str, count: int) -> None:
    """Waits until a kind of progress has happened so often; a stall is a fault, and the run goes on."""
    if not await book.progress.after(kind, count, seconds=_STALL_SECONDS):
        book.fault("stalls", f"no {count} more {kind}")


PROOF = Proof(
    name="workers",
    claim="Three servers on one PostgreSQL lose and duplicate nothing when they are killed or frozen beyond "
    "their leases.",
    shows="Three `molecule serve` on one PostgreSQL, started at once on an empty database; eight senders, eight "
    "agents on four inboxes and four watchers, four givers of tasks and four agents that do them, and those of "
    "`kill9` who remember, ask for leave and speak to threads, use all three, each connection any of them. Servers "
    "are killed with SIGKILL at random moments and started again, and others are frozen for five seconds (longer "
    "than a lease) and thawed, so that zombies go on with what they held. All that `kill9` counts holds: nothing "
    "accepted is missing, doubled or out of order; each claim is handed out once under each attempt and never "
    "while its lease runs; an ack of an earlier attempt is refused, whether it comes late by itself or is sent on "
    "purpose by whoever was handed a message again; each task is acted on once under each attempt, and ends once.",
    engines=("postgres",),
    unit="kills",
    sizes={"postgres": 100},
    control_sizes={"postgres": 8},
    controls={
        "postgres": (
            Control(
                name="no lock: processes decide on one inbox side by side",
                marker="org-lock",
                change=Swap("pg_advisory_xact_lock(n)", "n"),
                breaks="handed twice under one attempt",
            ),
            STALE_ACK,
            Control(
                name="a lease protects nothing",
                marker="claimable",
                change=Swap(
                    "(h.seq IS NULL OR (h.acked_at IS NULL AND h.lease_until <= :now))",
                    "(h.seq IS NULL OR h.acked_at IS NULL OR h.lease_until <= :now)",
                ),
                breaks="handed on while it was held",
            ),
            POSTGRES_ANSWERS_FIRST,
        ),
    },
    run=run,
    demands={"postgres": {"late acks refused": 100}},
    faults=("kills", "freezes", "clients that died"),
)
