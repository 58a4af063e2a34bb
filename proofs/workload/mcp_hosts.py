"""Agents behind real processes of `molecule mcp`, which are killed and started again.

Persons write to their seats. Above: the proof that kills. Below: the models and their processes (minds.py), what they
were shown (shown.py), the people's way of asking (company.py).
"""

import asyncio

from proofs.harness.caller import Caller
from proofs.harness.ledger import Ledger
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import START_SECONDS, Setting
from proofs.harness.verdicts import Verdict
from proofs.workload.company import Company, Seat
from proofs.workload.host_model import Shown
from proofs.workload.observations import Book, Message
from proofs.workload.scripted_models import Acknowledging, Answering, Listening, Mind

_MANNERS: tuple[tuple[type[Mind], int], ...] = ((Acknowledging, 2), (Answering, 1), (Listening, 1))
"""How each works, and in how many workspaces it sits."""
_TURNS = (0, 1, 0, 2)
"""In which order they are killed: first who keeps most in its folder."""
# A process whose model is at work is killed after so much of one kind of what it does, or after so long, and a little
# later: at once after a message was shown, or long before it is handled. While there is no server, what counts is what
# it has handled alone.
_MOMENTS, _ALONE = ("shown", "handled", "called"), ("handled",)
_MOST_PROGRESS, _MOMENT_SECONDS, _LATER_SECONDS, _AT_WORK_SECONDS = 4, 0.5, 0.2, 5.0
# Some are killed once more while they begin.
_TWICE, _BEGINS_SECONDS = 0.25, 0.8
_BURST, _REPEATS, _LONGEST_FILLER = 8, 0.1, 300


class Hosts:
    """Seats, the agents in them, and who writes to them. They have a book of their own, as the other nouns have."""

    def __init__(self, setting: Setting, server: Place, book: Book) -> None:
        """`book` is that of those who send messages and delegate."""
        self._setting = setting
        self._server = server
        self._book = Book()
        self._book.stopping = book.stopping
        self._company = Company(setting, server, self._book, book)
        self._shown = Shown(self._book)
        self._dice = setting.dice("kills of agents")
        self._minds: list[Mind] = []
        self._writers: list[tuple[str, Seat, int]] = []
        """The token of each, whom it writes to, and how much of it may wait for an answer."""
        self._writing: list[asyncio.Task[None]] = []

    async def found(self) -> None:
        """Makes the seats and a person for each."""
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            persons = f"/orgs/{(await admin.get('/orgs'))[0]['id']}/people"
            for place, (manner, count) in enumerate(_MANNERS):
                names = [{"name": f"Hosted {place}.{number}"} for number in range(count)]
                seats = [Seat(await admin.post("/workspaces", name)) for name in names]
                mind = manner(place, seats, self._setting, self._server, self._book, self._shown)
                self._minds.append(mind)
                for seat in seats:
                    wish = {"name": f"Writes to {seat.id}", "role": "operator"}
                    token = (await admin.post(persons, wish))["auth_token"]
                    self._writers.append((token, seat, mind.most_open))
                    self._shown.inboxes.add(seat.id)

    async def begin(self) -> None:
        """Everybody goes to work."""
        for mind in self._minds:
            await mind.start()
        self._writing = [asyncio.create_task(self._write(n)) for n in range(len(self._writers))]

    def _of(self, turn: int) -> Mind:
        return self._minds[_TURNS[turn % len(_TURNS)]]

    async def at_work(self, turn: int) -> None:
        """Waits for a while until the one whose turn it is has got a message or a few."""
        moment = f"shown {self._of(turn).place}"
        await self._book.progress.after(moment, self._dice.randint(1, _MOST_PROGRESS), seconds=_AT_WORK_SECONDS)

    async def kill_one(self, turn: int) -> None:
        """Kills the process of the one whose turn it is at a random moment, and starts it again; now and then twice."""
        mind, dice = self._of(turn), self._dice
        moment = f"{dice.choice(_MOMENTS if self._server.up.is_set() else _ALONE)} {mind.place}"
        await self._book.progress.after(moment, dice.randint(1, _MOST_PROGRESS), seconds=_MOMENT_SECONDS)
        delays = [_LATER_SECONDS, *([_BEGINS_SECONDS] if dice.random() < _TWICE else [])]
        for seconds in delays:
            await self._book.progress.after("nothing", 1, seconds=dice.uniform(0, seconds))
            await mind.kill()
            await mind.start()

    async def finish(self, seconds: float) -> None:
        """Writers end their last message (the book says `stopping`); then all of it is answered."""
        await self._company.end(self._writing, seconds)
        while any(not self._shown.is_done(id_) for id_ in self._book.accepted) or any(
            each.owes for each in self._minds
        ):
            if not await self._book.progress.after("answered", 1, seconds=seconds):
                break
        for mind in self._minds:
            await mind.leave(START_SECONDS)

    async def close(self) -> None:
        """Ends whatever process still runs."""
        for mind in self._minds:
            await mind.close()

    async def judge(self, verdict: Verdict, ledger: Ledger) -> None:
        """Adds to the judgement of the others."""
        shown, told = self._shown, self._book.figures
        verdict.figures |= {
            "agent kills": shown.kills,
            "messages to these agents": len(self._book.accepted),
            "repeats to models": shown.repeats,
            "calls of tools cut": told["calls of tools cut"],
        }
        verdict.zeros |= shown.judge(ledger)
        verdict.notes += self._book.notes
        for kept, of in (("refused", "refused"), ("stalls", "stuck people"), ("ended by itself", "unclean ends")):
            verdict.zeros[kept] += self._book.faults[of]
        verdict.zeros["two receipts"] += self._book.faults["two receipts"]

    async def _write(self, place: int) -> None:
        """A few messages, then others come first; never more than may wait."""
        token, seat, most = self._writers[place]
        dice, mine, waiting = self._setting.dice("writer", place), list[Message](), list[Message]()
        async with Caller(self._server.port, token) as api:
            while not self._book.stopping.is_set():
                waiting = [each for each in waiting if not self._shown.is_done(each.receipt or "")]
                if len(waiting) >= most:
                    await self._book.progress.after("answered", 1, seconds=1.0)
                    continue
                if len(mine) % _BURST == 0:
                    await self._company.let_others()
                message = self._new_message(place, len(mine), seat, dice.randrange(_LONGEST_FILLER))
                mine.append(message)
                waiting.append(message)
                await self._company.put(api, message)
                if dice.random() < _REPEATS:
                    await self._company.put(api, dice.choice(mine))

    def _new_message(self, place: int, number: int, seat: Seat, length: int) -> Message:
        id_ = f"h{place}-{number}"
        text = f"{id_} {'x' * length}."
        message = self._book.messages[id_] = Message(id_, f"h{place}", number, seat.id, text)
        return message
