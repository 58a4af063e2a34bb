"""Agents that remember: two of a workspace share its keys, write only over what they have seen, and note sentences.

Each call is repeated until it has an answer; who was cut off and is then told that the version is another one looks
again. Above: the proofs that disturb the server. Below: the people's way of asking (company.py), the model (kept.py).
"""

import asyncio
from random import Random

from proofs.harness.caller import Caller, Refused
from proofs.harness.ledger import Ledger
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure
from proofs.workload.company import Company, Seat
from proofs.workload.memory_model import NOT_THERE, Kept, Sentence, read_shelf
from proofs.workload.observations import Book

_SEATS, _HANDS = 2, 2
_KEYS = ("lock", "plan", "notes/today")
_PUTS, _REMOVALS, _LOOKS = 0.6, 0.1, 0.5
_REPEATS, _RECALLS, _FORGETS = 0.5, 0.3, 0.2
_SCOPES = ("LOCAL", "TEAM", "GLOBAL")


class Keepers:
    """Workspaces with a memory, and two agents in each."""

    def __init__(self, setting: Setting, server: Place, company: Company, book: Book) -> None:
        self._setting = setting
        self._server = server
        self._company = company
        self._book = book
        self._seats: list[Seat] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._lives = 0
        self.kept = Kept(book)

    async def found(self) -> None:
        """Makes the seats."""
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            self._seats = [Seat(await admin.post("/workspaces", {"name": f"Keeper {n}"})) for n in range(_SEATS)]

    def begin(self) -> None:
        """Everybody goes to work."""
        self._tasks = [asyncio.create_task(self._keep(n, 0)) for n in range(_SEATS * _HANDS)]

    async def kill_one(self, throw: int) -> None:
        """One of them dies in the middle of what it does, and another takes its seat, knowing nothing."""
        place = throw % len(self._tasks)
        self._lives += 1
        await self._company.kill(self._tasks[place])
        self._tasks[place] = asyncio.create_task(self._keep(place, self._lives))

    async def finish(self, seconds: float) -> None:
        """They end their last call (the book says `stopping`)."""
        await self._company.end(self._tasks, seconds)

    def figures(self) -> dict[str, Figure]:
        """How much of it there was."""
        return {
            "values put": sum(map(len, self.kept.versions.values())),
            "values put too late": self._book.figures["values put too late"],
            "values removed": sum(self.kept.removals.values()),
            "memories": sum(each.id is not None for each in self.kept.sentences.values()),
            "forgotten": sum(each.is_gone for each in self.kept.sentences.values()),
        }

    async def judge(self, ledger: Ledger) -> dict[str, int]:
        """What they saw against what the store holds."""
        return self.kept.judge(await read_shelf(self._setting), ledger)

    # -- what they do --------------------------------------------------------------------------------------------------

    async def _keep(self, place: int, life: int) -> None:
        dice, seat = self._setting.dice("keeper", place, life), self._seats[place % _SEATS]
        mine, seen, number = list[Sentence](), dict[str, int](), 0
        async with Caller(self._server.port, seat.token) as api:
            while not self._book.stopping.is_set():
                await self._company.let_others()
                number += 1
                name, lot = f"m{place}x{life}x{number:05}", dice.random()
                if lot < _PUTS:
                    key = dice.choice(_KEYS)
                    if key not in seen or dice.random() < _LOOKS:
                        seen[key] = await self._look(api, seat, key)
                    seen[key] = await self._put(api, seat, key, name, seen[key])
                elif lot < _PUTS + _REMOVALS:
                    await self._remove(api, seat, dice.choice(_KEYS))
                else:
                    await self._remember(api, seat, name, mine, dice)

    async def _look(self, api: Caller, seat: Seat, key: str) -> int:
        """The version that stands under a key."""
        place = (seat.id, key)
        before, version = self.kept.newest(place), NOT_THERE
        try:
            entry = await self._company.insist(lambda: api.get(f"/workspaces/{seat.id}/memory/{key}"))
        except Refused as error:
            if error.status != 404:
                self._company.refused(error, f"look at {key}")
                return before
        else:
            version = int(entry["version"])
            self.kept.saw(place, version, entry["value"]["id"])
        self.kept.read(place, version, before)
        return version

    async def _put(self, api: Caller, seat: Seat, key: str, name: str, named: int) -> int:
        """Over what it has last seen there, or not at all; the version that it has seen then."""
        place = (seat.id, key)
        self.kept.begin(name, place, named)
        body = {"key": key, "value": {"id": name}, "if_match_version": named}
        try:
            entry = await self._company.insist(lambda: api.post(f"/workspaces/{seat.id}/memory", body))
        except Refused as error:
            self._too_late(error, f"put {key}", "version_mismatch")
            return await self._look(api, seat, key)
        self.kept.saw(place, int(entry["version"]), name)
        self._book.progress.note("accepted")
        return int(entry["version"])

    async def _remove(self, api: Caller, seat: Seat, key: str) -> None:
        """What it has just seen there, and nothing else."""
        place, named = (seat.id, key), await self._look(api, seat, key)
        if named == NOT_THERE:
            return
        self.kept.removals.setdefault((place, named), False)
        path = f"/workspaces/{seat.id}/memory/{key}?if_match_version={named}"
        try:
            await self._company.insist(lambda: api.call("DELETE", path))
        except Refused as error:
            self._too_late(error, f"remove {key}", "version_mismatch", "not_found")
        else:
            self.kept.removals[place, named] = True

    def _too_late(self, error: Refused, what: str, *codes: str) -> None:
        """Somebody else was faster, or it was itself, and was cut off."""
        if error.code in codes:
            self._book.figures["values put too late"] += 1
        else:
            self._company.refused(error, what)

    async def _remember(self, api: Caller, seat: Seat, word: str, mine: list[Sentence], dice: Random) -> None:
        sentence = Sentence(word, seat.id, f"{word} is what {seat.id} wants to know next time")
        self.kept.sentences[word] = sentence
        scope = dice.choice(_SCOPES)
        for _ in range(1 + (dice.random() < _REPEATS)):
            await self._write_down(api, sentence, scope)
        if sentence.id is None:
            return
        mine.append(sentence)
        if dice.random() < _FORGETS:
            await self._forget(api, dice.choice(mine))
        if dice.random() < _RECALLS:
            await self._recall(api, dice.choice(mine))

    async def _write_down(self, api: Caller, sentence: Sentence, scope: str) -> None:
        path, body = f"/workspaces/{sentence.workspace_id}/memories", {"content": sentence.content, "scope": scope}
        try:
            told = await self._company.insist(lambda: api.post(path, body))
        except Refused as error:
            self._company.refused(error, f"remember {sentence.word}")
        else:
            self.kept.accept(sentence, told["id"])
            self._book.progress.note("accepted")

    async def _recall(self, api: Caller, sentence: Sentence) -> None:
        path = f"/workspaces/{sentence.workspace_id}/memories"
        try:
            rows = await self._company.insist(lambda: api.get(path, q=sentence.word))
        except Refused as error:
            self._company.refused(error, f"recall {sentence.word}")
        else:
            self.kept.recalled(sentence, rows)

    async def _forget(self, api: Caller, sentence: Sentence) -> None:
        """What it was told to have forgotten before, or on a call that was cut off, is not there any more."""
        path, was_going = f"/workspaces/{sentence.workspace_id}/memories/{sentence.id}", sentence.is_going
        cuts: list[bool] = []
        sentence.is_going = True
        try:
            await self._company.insist(lambda: api.call("DELETE", path), lambda: cuts.append(True))
        except Refused as error:
            if error.status != 404 or not (cuts or was_going):
                self._company.refused(error, f"forget {sentence.word}")
                return
        sentence.is_gone = True
