"""Those who decide what others ask leave for: the agents above them, and persons who may be faster.

Each has one opinion of each request, however often it is asked. Above: askers. Below: the people's way of asking
(company.py), the model (rulings.py).
"""

import asyncio
from typing import Any

from proofs.harness.caller import Caller, Refused
from proofs.harness.serving import ADMIN_TOKEN, Place
from proofs.harness.settings import Setting
from proofs.workload.approval_model import PASSES, REQUEST, Rulings, approval_of
from proofs.workload.company import Company, Seat
from proofs.workload.observations import Book

_LEADS, _PERSONS = 2, 2
_OPINIONS = ("approve", "approve", "approve", "deny")
_ESCALATES = 0.2
# Persons leave the rest to the agents.
_MEDDLES = 0.5
_ENDED = {"approve": "approved", "deny": "denied"}


class Deciders:
    """A workspace at the top, some below it that are asked first, and persons."""

    def __init__(self, setting: Setting, server: Place, company: Company, book: Book, rulings: Rulings) -> None:
        self._setting = setting
        self._server = server
        self._company = company
        self._book = book
        self._rulings = rulings
        self.leads: list[Seat] = []
        self._persons: list[dict[str, Any]] = []
        self._seats: list[Seat] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def found(self) -> None:
        """Makes seats and persons; an agent that was never heard of would not be asked."""
        async with Caller(self._server.port, ADMIN_TOKEN) as admin:
            head = Seat(await admin.post("/workspaces", {"name": "Head"}))
            below = {"parent_id": head.id}
            self.leads = [Seat(await admin.post("/workspaces", {"name": f"Lead {n}", **below})) for n in range(_LEADS)]
            people = f"/orgs/{(await admin.get('/orgs'))[0]['id']}/people"
            wishes = [{"name": f"Decides {n}", "role": "operator"} for n in range(_PERSONS)]
            self._persons = [await admin.post(people, wish) for wish in wishes]
        self._seats = [head, *self.leads]
        for seat in self._seats:
            async with Caller(self._server.port, seat.token) as api:
                await api.post("/registry/heartbeat", {"workspace_id": seat.id})

    def begin(self) -> None:
        """Everybody goes to work."""
        self.tasks = [asyncio.create_task(self._work(seat)) for seat in self._seats]
        self.tasks += [asyncio.create_task(self._meddle(each)) for each in self._persons]

    async def kill_one(self, throw: int) -> None:
        """An agent dies in the middle of what it does; another takes its seat, knowing nothing."""
        place = throw % len(self._seats)
        await self._company.kill(self.tasks[place])
        self.tasks[place] = asyncio.create_task(self._work(self._seats[place]))

    # -- agents --------------------------------------------------------------------------------------------------------

    async def _work(self, seat: Seat) -> None:
        async with Caller(self._server.port, seat.token) as api:
            while True:
                for row in await self._company.claim(api, seat.id, self._rulings.hands, "requests"):
                    await self._answer(api, seat, row)

    async def _answer(self, api: Caller, seat: Seat, row: dict[str, Any]) -> None:
        item = await self._shown(api, seat, approval_of(row)) if row["kind"] == REQUEST else None
        if item is None or item["action"].startswith(PASSES):
            await acknowledge(self._company, self._rulings.hands, api, seat, row)
        elif await self._decide(
            api, seat.id, seat.id, item, self._opinion(seat.id, item, escalates=seat in self.leads)
        ):
            self._rulings.hands.handle(row["id"])

    async def _shown(self, api: Caller, seat: Seat, approval_id: str) -> dict[str, Any] | None:
        try:
            item: dict[str, Any] = await self._company.insist(
                lambda: api.get(f"/workspaces/{seat.id}/approvals/{approval_id}")
            )
        except Refused as error:
            self._company.refused(error, f"look at approval {approval_id}")
            return None
        return item

    # -- persons -------------------------------------------------------------------------------------------------------

    async def _meddle(self, person: dict[str, Any]) -> None:
        """Looks at what is open whenever somebody has asked, and decides some of it."""
        said = set[str]()
        async with Caller(self._server.port, person["auth_token"]) as api:
            while True:
                await self._book.progress.after("asked", 1, seconds=1.0)
                try:
                    page = await self._company.insist(lambda: api.get("/approvals/pending"))
                except Refused as error:
                    self._company.refused(error, "what is pending")
                    continue
                for item in page["approvals"]:
                    if item["approval_id"] not in said and not item["action"].startswith(PASSES):
                        said.add(item["approval_id"])
                        if self._setting.dice("meddles", person["id"], item["action"]).random() < _MEDDLES:
                            opinion = self._opinion(person["id"], item, escalates=False)
                            await self._decide(api, person["id"], item["workspace_id"], item, opinion)

    # -- both ----------------------------------------------------------------------------------------------------------

    def _opinion(self, decider: str, item: dict[str, Any], *, escalates: bool) -> str:
        dice = self._setting.dice("opinion", decider, item["action"])
        return "escalate" if escalates and dice.random() < _ESCALATES else dice.choice(_OPINIONS)

    async def _decide(self, api: Caller, decider: str, path_id: str, item: dict[str, Any], opinion: str) -> bool:
        """Whether it was taken; who comes too late is told so."""
        id_, shown = item["approval_id"], {name: item[name] for name in ("revision", "action_hash")}
        path, body = f"/workspaces/{path_id}/approvals/{id_}/decide", {"decision": opinion, **shown}
        try:
            told = await self._company.insist(lambda: api.post(path, body))
        except Refused as error:
            if error.code in ("already_decided", "approval_moved_on"):
                self._book.figures["decided too late"] += 1
            else:
                self._company.refused(error, f"{opinion} {id_}")
            return False
        if opinion == "escalate":
            self._book.figures["escalated"] += 1
            return True
        self._rulings.tell(id_, _ENDED[opinion], decider)
        if (told["status"], told["decided"]["by"]["id"]) != (_ENDED[opinion], decider):
            self._book.fault("decided by two", f"{id_}: {opinion} was taken, and it is {told['status']}")
        return True


async def acknowledge(company: Company, hands: Book, api: Caller, seat: Seat, row: dict[str, Any]) -> None:
    """A letter that asks for nothing, or for nothing any more, is done with."""
    handled = {"activity_id": row["id"], "attempt": row["attempt"]}
    try:
        await company.insist(lambda: api.post(f"/workspaces/{seat.id}/activity/ack", handled))
    except Refused as error:
        if error.code == "stale_attempt":  # handed out again meanwhile: that attempt will be acknowledged
            hands.figures["late acks refused"] += 1
        else:
            company.refused(error, f"ack {row['id']}")
    else:
        hands.handle(row["id"])
