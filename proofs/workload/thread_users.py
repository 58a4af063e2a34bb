"""People and agents who start threads, speak to them, and close some; engines run what they say.

Each call is repeated under its own key until it has an answer, and now and then afterwards. Above: the proofs that
disturb the server. Below: engines, the people's way of asking (company.py), the model (spoken.py).
"""

import asyncio
from random import Random
from typing import Any

from proofs.harness.caller import Caller, Refused
from proofs.harness.ledger import Ledger
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure
from proofs.workload.company import Company, Seat
from proofs.workload.observations import Book
from proofs.workload.thread_engines import Engines
from proofs.workload.thread_model import Spoken, Talk, read_logs

_SEATS = 2
_AT_ONCE, _LINES, _MOST_QUEUED = 3, 4, 2
_REPEATS, _CLOSES = 0.35, 0.6


class Speakers:
    """For each seat one person and its own agent, who speak, and an engine."""

    def __init__(self, setting: Setting, server: Place, company: Company, book: Book) -> None:
        self._setting = setting
        self._server = server
        self._company = company
        self._book = book
        self.spoken = Spoken(book)
        self._engines = Engines(setting, server, company, book, self.spoken)
        self._seats: list[Seat] = []
        self._tokens: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def found(self) -> None:
        """Makes seats and a person."""
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._seats = [Seat(await admin.post("/workspaces", {"name": f"Thinker {n}"})) for n in range(_SEATS)]
            people = f"/orgs/{(await admin.get('/orgs'))[0]['id']}/people"
            person = await admin.post(people, {"name": "Speaks", "role": "operator"})
        self._tokens = [*(seat.token for seat in self._seats), *(person["auth_token"] for _ in self._seats)]

    def begin(self) -> None:
        """Everybody goes to work."""
        self._engines.begin(self._seats)
        self._tasks = [asyncio.create_task(self._speak(n)) for n in range(len(self._tokens))]

    async def kill_one(self, throw: int) -> None:
        """An engine dies in the middle of a turn."""
        await self._engines.kill_one(throw)

    async def finish(self, seconds: float) -> None:
        """Speakers end their last call (the book says `stopping`); then engines run all that was said."""
        await self._company.end(self._tasks, seconds)
        self._engines.closing.set()
        await self._company.end(self._engines.tasks, seconds, "ended")

    def figures(self) -> dict[str, Figure]:
        """How much of it there was."""
        spoken = self.spoken
        return {
            "threads": sum(talk.id is not None for talk in spoken.talks.values()),
            "agents spawned": len(spoken.spawned),
            "threads closed": sum(talk.is_closing for talk in spoken.talks.values()),
            "said to threads": sum(taken for _, taken in spoken.said.values()),
            "turns ended": len(spoken.ends),
            "letters between threads": len(spoken.letters),
            "engines overtaken": self._book.figures["engines overtaken"],
        }

    async def judge(self, _ledger: Ledger) -> dict[str, int]:
        """What they saw against what the store holds."""
        return self.spoken.judge(await read_logs(self._setting))

    # -- what they do --------------------------------------------------------------------------------------------------

    async def _speak(self, place: int) -> None:
        """A few threads at a time, each for a few lines."""
        dice, seat, number = self._setting.dice("speaker", place), self._seats[place % _SEATS], 0
        open_talks = list[Talk]()
        async with Caller(self._server.port, self._tokens[place]) as api:
            while not self._book.stopping.is_set():
                await self._company.let_others()
                if len(open_talks) < _AT_ONCE:
                    number += 1
                    key = f"h{place}-{number}"
                    talk = Talk(key, f"You are {key}. Go on.", dice.choice(("queue", "queue", "auto")))
                    open_talks.append(talk)
                    await self._start(api, seat, talk, dice)
                    continue
                talk = dice.choice(open_talks)
                if talk.id is None:
                    open_talks.remove(talk)
                elif talk.said > _LINES:
                    open_talks.remove(talk)
                    await self._leave(api, talk, dice)
                elif not await self._is_behind(api, talk):
                    await self._say(api, talk, dice)

    async def _start(self, api: Caller, seat: Seat, talk: Talk, dice: Random) -> None:
        text, self.spoken.talks[talk.key] = _next(talk), talk
        body = {"base_instructions": talk.base, "input": text, "key": talk.key, "nickname": talk.key}
        self.spoken.say(text, talk, taken=False)
        for _ in range(1 + (dice.random() < _REPEATS)):
            item = await self._post(api, f"/workspaces/{seat.id}/threads", body)
            if item is not None:
                self.spoken.start(talk, item["thread_id"])
                self.spoken.say(text, talk, taken=True)

    async def _say(self, api: Caller, talk: Talk, dice: Random) -> None:
        text = _next(talk)
        body = {"input": text, "mode": talk.mode, "key": text.replace(" ", "-")}
        self.spoken.say(text, talk, taken=False)
        for _ in range(1 + (dice.random() < _REPEATS)):
            if await self._post(api, f"/threads/{talk.id}/turns", body) is not None:
                self.spoken.say(text, talk, taken=True)

    async def _leave(self, api: Caller, talk: Talk, dice: Random) -> None:
        """Some are closed, whatever they are at; closed again changes nothing."""
        if dice.random() < _CLOSES:
            talk.is_closing = True
            for _ in range(1 + (dice.random() < _REPEATS)):
                await self._post(api, f"/threads/{talk.id}/close", {"descendants": "close"})

    async def _is_behind(self, api: Caller, talk: Talk) -> bool:
        """Whether a thread has enough to do; then some turn ends first."""
        try:
            view = await self._company.insist(lambda: api.get(f"/threads/{talk.id}"))
        except Refused as error:
            self._company.refused(error, f"look at {talk.key}")
            return True
        self.spoken.show(talk, view["base_instructions"])
        if len(view["queued"]) <= _MOST_QUEUED:
            return False
        await self._book.progress.after("ended", 1, seconds=1.0)
        return True

    async def _post(self, api: Caller, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        try:
            told: dict[str, Any] = await self._company.insist(lambda: api.post(path, body))
        except Refused as error:
            self._company.refused(error, path.rpartition("/")[2])
            return None
        return told


def _next(talk: Talk) -> str:
    """What is said to it next."""
    talk.said += 1
    return f"{talk.key} {talk.said}"
