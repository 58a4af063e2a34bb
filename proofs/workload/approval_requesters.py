"""Agents that ask for leave, act once when they have it, take some of it back, and let some of it pass.

Each call is repeated under its own key until it has an answer, and now and then afterwards. Above: the proofs that
disturb the server. Below: deciders, the people's way of asking (company.py), the model (rulings.py).
"""

import asyncio
from random import Random
from typing import Any

from proofs.harness.caller import Caller, Refused
from proofs.harness.ledger import Ledger
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Figure
from proofs.workload.approval_deciders import Deciders, acknowledge
from proofs.workload.approval_model import DECISION, PASSES, Ask, Rulings, approval_of, read_files
from proofs.workload.company import Company, Seat
from proofs.workload.observations import Book

_EACH = 2
"""Askers below one lead."""
_MOST_OPEN = 4
_REPEATS, _WITHDRAWS, _IN_VAIN = 0.25, 0.3, 0.08
_PASSES_SECONDS = 2
_USES, _RIVALS = 0.9, 0.6


class Askers:
    """Workspaces that ask for leave; each has an agent that asks, and one that reads what comes of it."""

    def __init__(self, setting: Setting, server: Place, company: Company, book: Book) -> None:
        self._setting = setting
        self._server = server
        self._company = company
        self._book = book
        self.rulings = Rulings(book)
        self._deciders = Deciders(setting, server, company, book, self.rulings)
        self._seats: list[Seat] = []
        self._asking: list[asyncio.Task[None]] = []
        self._reading: list[asyncio.Task[None]] = []

    async def found(self) -> None:
        """Makes the seats, and who is above them."""
        await self._deciders.found()
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            for number in range(_EACH * len(self._deciders.leads)):
                wish = {"name": f"Asker {number}", "parent_id": self._deciders.leads[number // _EACH].id}
                self._seats.append(Seat(await admin.post("/workspaces", wish)))

    def begin(self) -> None:
        """Everybody goes to work."""
        self._deciders.begin()
        self._asking = [asyncio.create_task(self._ask(n)) for n in range(len(self._seats))]
        self._reading = [asyncio.create_task(self._read(seat)) for seat in self._seats]

    async def kill_one(self, throw: int) -> None:
        """An agent that decides, or one that reads, dies in the middle of what it does; another takes its seat."""
        place = throw % (2 * len(self._reading))
        if place >= len(self._reading):
            await self._deciders.kill_one(throw)
            return
        await self._company.kill(self._reading[place])
        self._reading[place] = asyncio.create_task(self._read(self._seats[place]))

    async def finish(self, seconds: float) -> None:
        """Askers end their last call (the book says `stopping`); then all that was asked comes to its end."""
        await self._company.end(self._asking, seconds)
        while any(self.rulings.open_of(seat.id) for seat in self._seats):
            if not await self._book.progress.after("heard", 1, seconds=seconds):
                break
        every = [*self._reading, *self._deciders.tasks]
        for task in every:
            task.cancel()
        await self._company.end(every, seconds)

    def figures(self) -> dict[str, Figure]:
        """How much of it there was."""
        ends, shown = [status for status, _ in self.rulings.ends.values()], self._book.figures
        passed = sum(ask.action.startswith(PASSES) for ask in self.rulings.accepted.values())
        return {
            "approvals": len(self.rulings.accepted),
            **{status: ends.count(status) for status in ("approved", "denied", "withdrawn")},
            "left to expire": passed,
            **{name: shown[name] for name in ("escalated", "decided too late")},
            "used": sum(self.rulings.uses.values()),
            "used again and refused": shown["used again and refused"],
        }

    async def judge(self, ledger: Ledger) -> dict[str, int]:
        """What they saw against what the store holds."""
        self._book.notes += self.rulings.hands.notes
        return self.rulings.judge(await read_files(self._setting), ledger)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _ask(self, place: int) -> None:
        dice, seat, mine = self._setting.dice("asker", place), self._seats[place], list[Ask]()
        async with Caller(self._server.port, seat.token) as api:
            while not self._book.stopping.is_set():
                if len(self.rulings.open_of(seat.id)) >= _MOST_OPEN:
                    await self._book.progress.after("heard", 1, seconds=1.0)
                    continue
                await self._company.let_others()
                key = f"a{place}-{len(mine)}"
                ask = Ask(key, seat.id, f"{PASSES if dice.random() < _IN_VAIN else ''}{key} is to be done")
                mine.append(ask)
                self.rulings.all[ask.action] = ask
                await self._put(api, seat, ask)
                await self._afterwards(api, seat, mine, dice)

    async def _afterwards(self, api: Caller, seat: Seat, mine: list[Ask], dice: Random) -> None:
        """Asks again, or takes something back, decided or not."""
        if dice.random() < _REPEATS:
            self._book.figures["asked again"] += 1
            await self._put(api, seat, dice.choice(mine))
        waits = [each for each in self.rulings.open_of(seat.id) if not each.action.startswith(PASSES)]
        if waits and dice.random() < _WITHDRAWS:
            await self._withdraw(api, seat, dice.choice(waits))

    async def _put(self, api: Caller, seat: Seat, ask: Ask) -> None:
        body: dict[str, Any] = {"action": ask.action, "reason": "so", "details": {"key": ask.key}}
        if ask.action.startswith(PASSES):
            body["expires_in"] = _PASSES_SECONDS
        path = f"/workspaces/{seat.id}/approvals"
        try:
            item = await self._company.insist(lambda: api.post(path, body, idempotency_key=ask.key))
        except Refused as error:
            self._company.refused(error, f"ask {ask.key}")
        else:
            self.rulings.accept(ask, item["approval_id"])

    async def _withdraw(self, api: Caller, seat: Seat, ask: Ask) -> None:
        """What was decided meanwhile stays as it is."""
        id_ = str(ask.id)
        path = f"/workspaces/{seat.id}/approvals/{id_}/withdraw"
        try:
            await self._company.insist(lambda: api.post(path, {}))
        except Refused as error:
            if error.code != "approval_ended":
                self._company.refused(error, f"withdraw {id_}")
            return
        self.rulings.tell(id_, "withdrawn", seat.id)
        self.rulings.hear(id_)

    # -- what becomes of it --------------------------------------------------------------------------------------------

    async def _read(self, seat: Seat) -> None:
        """Claims what was decided, acts if it may, and acknowledges."""
        hands = self.rulings.hands
        async with Caller(self._server.port, seat.token) as api, Caller(self._server.port, seat.token) as rival:
            while True:
                for row in await self._company.claim(api, seat.id, hands, "decisions"):
                    await self._act(api, rival, seat, row)
                    await acknowledge(self._company, hands, api, seat, row)
                    self.rulings.hear(approval_of(row))

    async def _act(self, api: Caller, rival: Caller, seat: Seat, row: dict[str, Any]) -> None:
        """It uses what was approved, now and then with two hands at once: one of them may act."""
        if row["kind"] != DECISION:
            self._book.fault("refused", f"no decision: {row}")
            return
        about, id_ = row["request_body"]["params"]["message"]["metadata"], approval_of(row)
        dice = self._setting.dice("use", id_)
        if about["status"] == "approved" and dice.random() < _USES:
            hands = [api, rival] if dice.random() < _RIVALS else [api]
            was_begun = id_ in self.rulings.uses
            self.rulings.uses.setdefault(id_, False)
            cuts = await asyncio.gather(*(self._use(each, seat, id_, about["action_hash"]) for each in hands))
            if not (was_begun or any(cuts) or self.rulings.uses[id_]):
                self._book.fault("used otherwise than told", f"{id_}: nobody may act, and nobody has")

    async def _use(self, api: Caller, seat: Seat, id_: str, hashed: str) -> bool:
        """Whether a call for it was cut off: then it may have used it without being told."""
        path, cuts = f"/workspaces/{seat.id}/approvals/{id_}/use", list[bool]()
        try:
            await self._company.insist(lambda: api.post(path, {"action_hash": hashed}), lambda: cuts.append(True))
        except Refused as error:
            if error.code != "approval_used":
                self._company.refused(error, f"use {id_}")
            self._book.figures["used again and refused"] += 1
        else:
            self.rulings.use(id_)
        return bool(cuts)
