"""People who write without a pause on a server in this process, and what a store may hold of it at any moment.

Each does one thing after the other, under names that count up: so what a copy, or a disk after a power cut, holds of
one of them must be a beginning of what it did, and at least what it was told is done.
"""

import asyncio
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from proofs.harness.office import ADMIN_TOKEN, Office
from proofs.harness.progress import Progress
from proofs.harness.verdicts import gaps

SENDERS, INBOXES = 6, 3
_LEASE_SECONDS = 3_600
_LONGEST = 2_000
_SECONDS = 60.0


MISSING = "accepted before and not in it"
NEVER = "in it and never done"
TORN = "a later one without an earlier one"
NUMBERS = "numbers missing"
EVENTS = "rows without exactly one event"
MOMENT = (MISSING, NEVER, TORN, NUMBERS, EVENTS)
TABLES = (
    "SELECT request_body FROM activities WHERE inbound_no IS NOT NULL AND kind = 'peer_agent'",
    "SELECT task FROM delegations",
    "SELECT reason FROM approvals",
    "SELECT key, value FROM memory_keys",
    "SELECT workspace_id, acked_seq FROM inboxes",
    "SELECT workspace_id, seq, id FROM activities ORDER BY workspace_id, seq",
    "SELECT org_id, seq, entity_kind, entity_id FROM events ORDER BY org_id, seq",
)


class Seat(Struct):
    """A workspace: its id and its token."""

    id: str
    token: str


class Deeds(Struct):
    """What one of them did: how often it began to do it, and how often it was told that it is done."""

    begun: int = 0
    done: int = 0


class Book:
    """Who did what. `handled`: the highest place of each inbox whose acknowledgement was taken."""

    def __init__(self) -> None:
        self.progress = Progress()
        self.deeds: dict[str, Deeds] = {}
        self.handled: dict[str, int] = {}
        self.last_rows: dict[str, str] = {}
        """The last message that was accepted for each inbox."""

    def did(self, deeds: Deeds) -> None:
        """One thing is done."""
        deeds.done += 1
        self.progress.note("done")

    def so_far(self) -> "tuple[dict[str, int], dict[str, int]]":
        """What is done of each, and what is handled."""
        return {name: deeds.done for name, deeds in self.deeds.items()}, dict(self.handled)


class Busy:
    """Senders, agents, one who gives work, one who asks for leave, one who remembers."""

    def __init__(self, office: Office, book: Book, dice: Random) -> None:
        self._office = office
        self._book = book
        self._dice = dice
        self._stopping = False
        self.inboxes: list[Seat] = []
        self.senders: list[Seat] = []
        self.org_id = ""
        self._tasks: list[asyncio.Task[None]] = []

    async def found(self) -> None:
        """Makes the seats."""
        self.inboxes = [await self._seat(f"Inbox {n}") for n in range(INBOXES)]
        self.senders = [await self._seat(f"Sender {n}") for n in range(SENDERS)]
        self.org_id = (await self._office.tell(ADMIN_TOKEN, "GET", "/orgs"))[0]["id"]

    async def _seat(self, name: str) -> Seat:
        made = await self._office.tell(ADMIN_TOKEN, "POST", "/workspaces", {"name": name})
        return Seat(made["id"], made["connection"]["auth_token"])

    def begin(self) -> None:
        """Everybody goes to work."""
        others = self.senders[0]
        self._tasks = [
            *(asyncio.create_task(self._send(f"s{n}", seat)) for n, seat in enumerate(self.senders)),
            *(asyncio.create_task(self._handle(seat)) for seat in self.inboxes),
            asyncio.create_task(self._remember("m", self.inboxes[0])),
            asyncio.create_task(self._ask("l", self.inboxes[1])),
            asyncio.create_task(self._give("d", self.inboxes[2], others)),
        ]

    async def end(self) -> None:
        """Everybody ends what it is at."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def _send(self, name: str, seat: Seat) -> None:
        deeds = self._book.deeds.setdefault(name, Deeds())
        while not self._stopping:
            deeds.begun += 1
            inbox = self._dice.choice(self.inboxes)
            text = f"{name}-{deeds.begun} {'x' * self._dice.randrange(_LONGEST)}"
            done = await self._office.tell(seat.token, "POST", f"/workspaces/{inbox.id}/a2a", spoken(text, deeds.begun))
            self._book.did(deeds)
            self._book.last_rows[inbox.id] = done["activity_id"]

    async def _handle(self, seat: Seat) -> None:
        """Takes and acknowledges all that comes."""
        path = f"/workspaces/{seat.id}/activity"
        while not self._stopping:
            rows = await self._office.tell(seat.token, "GET", path, claim=_LEASE_SECONDS, wait=0, limit=20)
            if not rows:
                await self._book.progress.after("done", 1, seconds=_SECONDS)
            else:
                upto = rows[-1]["seq"]
                await self._office.tell(seat.token, "POST", f"{path}/ack", {"acked_seq": upto})
                self._book.handled[seat.id] = max(upto, self._book.handled.get(seat.id, 0))

    async def _remember(self, name: str, seat: Seat) -> None:
        """Under one key, ever higher."""
        deeds = self._book.deeds.setdefault(name, Deeds())
        while not self._stopping:
            deeds.begun += 1
            value = {"key": name, "value": deeds.begun}
            await self._office.tell(seat.token, "POST", f"/workspaces/{seat.id}/memory", value)
            self._book.did(deeds)

    async def _ask(self, name: str, seat: Seat) -> None:
        deeds, path = self._book.deeds.setdefault(name, Deeds()), f"/workspaces/{seat.id}/approvals"
        while not self._stopping:
            deeds.begun += 1
            wish = {"action": "deploy", "reason": f"{name}-{deeds.begun}", "details": {}}
            asked = await self._office.tell(seat.token, "POST", path, wish)
            self._book.did(deeds)
            await self._office.tell(seat.token, "POST", f"{path}/{asked['approval_id']}/withdraw", {})

    async def _give(self, name: str, seat: Seat, other: Seat) -> None:
        deeds, path = self._book.deeds.setdefault(name, Deeds()), f"/workspaces/{seat.id}"
        while not self._stopping:
            deeds.begun += 1
            wish = {"target_id": other.id, "task": f"{name}-{deeds.begun}"}
            given = await self._office.tell(seat.token, "POST", f"{path}/delegate", wish)
            self._book.did(deeds)
            await self._office.tell(seat.token, "POST", f"{path}/delegations/{given['delegation_id']}/cancel", {})


def spoken(text: str, number: int) -> dict[str, Any]:
    """A message as JSON-RPC."""
    message = {"role": "user", "messageId": text.partition(" ")[0], "parts": [{"kind": "text", "text": text}]}
    return {"jsonrpc": "2.0", "id": number, "method": "message/send", "params": {"message": message}}


def judge_moment(
    tables: list[list[tuple[Any, ...]]], book: Book, before: dict[str, int], handled: dict[str, int]
) -> dict[str, int]:
    """What is wrong with a store as of one moment: `tables` as `TABLES` find them; `before` and `handled` were done
    by then."""
    bodies, tasks, reasons, values, inboxes, rows, events = tables
    names = [_text_of(body).partition(" ")[0] for (body,) in bodies]
    names += [name for column in (tasks, reasons) for (name,) in column]
    names += [f"{key}-{number}" for key, value in values for number in range(1, int(value) + 1)]
    held: dict[str, list[int]] = {}
    for name in names:
        who, _, number = name.partition("-")
        if who in book.deeds:
            held.setdefault(who, []).append(int(number))
    floors, zeros = dict(inboxes), dict.fromkeys(MOMENT, 0)
    for who, deeds in book.deeds.items():
        numbers = held.get(who, [])
        zeros[TORN] += gaps(numbers)
        zeros[MISSING] += max(0, before.get(who, 0) - max(numbers, default=0))
        zeros[NEVER] += sum(number > deeds.begun for number in numbers)
    zeros[MISSING] += sum(floors.get(inbox, 0) < seq for inbox, seq in handled.items())
    zeros[NUMBERS] = _unnumbered(rows) + _unnumbered(events)
    told = [entity for _, _, kind, entity in events if kind == "activity"]
    zeros[EVENTS] = len(set(told) ^ {row[2] for row in rows}) + len(told) - len(set(told))
    return zeros


def _unnumbered(rows: list[tuple[Any, ...]]) -> int:
    numbers: dict[str, list[int]] = {}
    for row in rows:
        numbers.setdefault(row[0], []).append(row[1])
    return sum(map(gaps, numbers.values()))


def _text_of(body: str) -> str:
    parts = msgspec.json.decode(body)["params"]["message"]["parts"]
    return str(parts[0].get("text", "")) if parts else ""
