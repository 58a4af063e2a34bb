"""Engines that run the threads of their seats: they speak, spawn agents, write letters, and may die.

What an engine does in a turn hangs on the turn alone: so the next life of it makes the same calls again, under the same
names. Above: speakers. Below: the people's way of asking (company.py), the model (spoken.py).
"""

import asyncio
from typing import Any

from proofs.harness.caller import Caller, Refused
from proofs.harness.serving import Place
from proofs.harness.settings import Setting
from proofs.workload.company import WAIT_SECONDS, Company, Seat
from proofs.workload.observations import Book
from proofs.workload.thread_model import Spoken

_SPAWNS, _REPEATS, _RELEASES = 0.4, 0.2, 0.1
_LETTERS = 2
# Somebody has ended the turn or closed the thread meanwhile; or a call of an earlier life has come late.
_OVERTAKEN = ("stale_generation", "thread_owned", "thread_closed", "turn_not_open", "thread_busy")
_QUIET = 2
"""So often in a row there is nothing to run before an engine believes that nothing comes any more."""


class _Overtaken(Exception):
    """There is nothing more to do in this turn."""


class Engines:
    """One engine for each seat, whatever life it is in."""

    def __init__(self, setting: Setting, server: Place, company: Company, book: Book, spoken: Spoken) -> None:
        self._setting = setting
        self._server = server
        self._company = company
        self._book = book
        self._spoken = spoken
        self._seats: list[Seat] = []
        self.closing = asyncio.Event()
        """Nothing new will be said."""
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, seats: list[Seat]) -> None:
        """Everybody goes to work."""
        self._seats = seats
        self.tasks = [asyncio.create_task(self._run(seat)) for seat in seats]

    async def kill_one(self, throw: int) -> None:
        """One dies in the middle of a turn; its next life goes on with that."""
        place = throw % len(self.tasks)
        await self._company.kill(self.tasks[place])
        self.tasks[place] = asyncio.create_task(self._run(self._seats[place]))

    async def _run(self, seat: Seat) -> None:
        wish = {"owner": f"engine of {seat.id}", "own_too": 1, "wait": WAIT_SECONDS}
        path, quiet = f"/workspaces/{seat.id}/threads/work", 0
        async with Caller(self._server.port, seat.token) as api:
            while quiet < _QUIET:
                was_closing = self.closing.is_set()
                try:
                    work = await self._company.insist(lambda: api.get(path, **wish))
                except Refused as error:
                    self._company.refused(error, "ask for work")
                    continue
                quiet = quiet + 1 if was_closing and not work["threads"] else 0
                for each in work["threads"]:
                    try:
                        await self._turn(api, each["thread_id"], str(wish["owner"]))
                    except _Overtaken:
                        self._book.figures["engines overtaken"] += 1

    async def _post(self, api: Caller, path: str, body: dict[str, Any], *also: str) -> dict[str, Any]:
        """Raises _Overtaken."""
        try:
            told: dict[str, Any] = await self._company.insist(lambda: api.post(path, body))
        except Refused as error:
            if error.code not in (*_OVERTAKEN, *also):
                self._company.refused(error, path.rpartition("/")[2])
            raise _Overtaken from error
        return told

    async def _turn(self, api: Caller, thread_id: str, owner: str) -> None:
        at = f"/threads/{thread_id}"
        claim = await self._post(api, f"{at}/claim", {"owner": owner})
        own, turn = {"generation": claim["generation"]}, claim["open_turn"]
        if turn is None:
            await self._post(api, f"{at}/release", own)
            return
        id_, dice = turn["turn_id"], self._setting.dice("turn", turn["turn_id"])
        if (await self._post(api, f"{at}/turns/{id_}/begin", own))["stop"] is not None:
            raise _Overtaken
        for _ in range(1 + (dice.random() < _REPEATS)):
            await self._speak(api, at, own, id_)
        if turn["trigger"] == "user" and dice.random() < _SPAWNS:
            for _ in range(1 + (dice.random() < _REPEATS)):
                await self._share(api, thread_id, own, id_)
        elif turn["trigger"] == "message":
            await self._write(api, thread_id, own, "send", f"up-{id_}", "..")
        seen = await self._post(api, f"{at}/entries", {**own, "turn_id": id_})
        end = {**own, "status": "completed", "final": f"end of {id_}", "seen": seen["last_ordinal"]}
        if seen["stop"] is None:
            await self._post(api, f"{at}/turns/{id_}/end", end)
            self._spoken.end(id_, str(end["final"]))
        if dice.random() < _RELEASES:
            await self._post(api, f"{at}/release", own)

    async def _speak(self, api: Caller, at: str, own: dict[str, Any], turn_id: str) -> None:
        """One line of the log, under a key."""
        text = f"said in {turn_id}"
        self._spoken.lines.setdefault(text, False)
        entries = [{"type": "agent_message", "text": text}]
        body = {**own, "turn_id": turn_id, "key": f"say-{turn_id}", "entries": entries}
        if (await self._post(api, f"{at}/entries", body))["stop"] is not None:
            raise _Overtaken
        self._spoken.lines[text] = True

    async def _share(self, api: Caller, thread_id: str, own: dict[str, Any], turn_id: str) -> None:
        """An agent is spawned, hears more, and is given more to do."""
        name = f"t{turn_id.replace('-', '')}"
        call = {**own, "call_id": f"spawn-{turn_id}", "task_name": name, "message": f"spawn-{turn_id}"}
        told = await self._post(api, f"/threads/{thread_id}/agents/spawn", call, "thread_limit")
        if told["call"]["status"] != "completed":
            return
        child = told["call"]["new_thread_id"]
        self._spoken.spawn(str(call["call_id"]), child)
        self._spoken.letters[str(call["message"])] = thread_id
        for number in range(_LETTERS):
            await self._write(api, thread_id, own, "send", f"send{number}-{turn_id}", child)
        await self._write(api, thread_id, own, "followup", f"more-{turn_id}", child)

    async def _write(
        self, api: Caller, thread_id: str, own: dict[str, Any], verb: str, call_id: str, target: str
    ) -> None:
        call = {**own, "call_id": call_id, "target": target, "message": call_id}
        told = await self._post(api, f"/threads/{thread_id}/agents/{verb}", call, "thread_limit")
        if told["call"]["status"] == "completed":
            self._spoken.letters[call_id] = thread_id
