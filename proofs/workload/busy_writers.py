"""People who write without a pause on a server in this process, and what a store may hold of it at any moment.

Each does one thing after the other, under names that count up: so what a copy, or a disk after a power cut, holds of
one of them must be a beginning of what it did, and at least what it was told is done.
"""

import asyncio
from collections.abc import Awaitable, Callable
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
_ANSWERED = 0.1
_SECONDS = 60.0


MISSING = "accepted before and not in it"
NEVER = "in it and never done"
TORN = "a later one without an earlier one"
NUMBERS = "numbers missing"
EVENTS = "rows without exactly one event"
OWED = "answered and still owed, or the other way round"
MOMENT = (MISSING, NEVER, TORN, NUMBERS, EVENTS, OWED)
TABLES = (
    "SELECT id, request_body FROM activities WHERE inbound_no IS NOT NULL AND kind = 'peer_agent'",
    "SELECT task, status = 'cancelled' FROM delegations",
    "SELECT reason, status = 'withdrawn' FROM approvals",
    "SELECT input, closed > 0 FROM thread_turns JOIN threads USING (thread_id)",
    "SELECT content FROM memories",
    "SELECT key, value FROM memory_keys",
    "SELECT answer_id FROM obligations WHERE state = 'answered'",
    "SELECT workspace_id, acked_seq FROM inboxes",
    "SELECT workspace_id, seq, id FROM activities ORDER BY workspace_id, seq",
    "SELECT org_id, seq, entity_kind, entity_id FROM events ORDER BY org_id, seq",
)


END = "e"
"""Behind the name of somebody: what it ended of what it began."""
_KINDS = {
    "s": "messages",
    "a": "answers",
    "d": "delegations",
    "d" + END: "cancelled",
    "l": "approvals",
    "l" + END: "withdrawn",
    "t": "threads",
    "t" + END: "closed",
    "n": "memories",
    "m": "values",
}
ACTS = tuple(_KINDS.values())


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

    def acts(self) -> dict[str, int]:
        """How much was done, by what it is."""
        acts = dict.fromkeys(_KINDS.values(), 0)
        for name, deeds in self.deeds.items():
            acts[_KINDS[name.rstrip("0123456789")]] += deeds.done
        return acts

    def so_far(self) -> "tuple[dict[str, int], dict[str, int]]":
        """What is done of each, and what is handled."""
        return {name: deeds.done for name, deeds in self.deeds.items()}, dict(self.handled)


class Busy:
    """Senders, agents who answer some, one who gives work, one who asks for leave, one who begins threads, and two who
    remember. Who ends again what it began has a second name for that: its own with `END` behind it."""

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
            *(asyncio.create_task(self._handle(f"a{n}", seat)) for n, seat in enumerate(self.inboxes)),
            asyncio.create_task(self._remember("m", self.inboxes[0])),
            asyncio.create_task(self._note("n", self.inboxes[0])),
            asyncio.create_task(self._ask("l", self.inboxes[1])),
            asyncio.create_task(self._think("t", self.inboxes[1])),
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

    async def _handle(self, name: str, seat: Seat) -> None:
        """Takes and acknowledges all that comes, and answers some of it."""
        path, deeds = f"/workspaces/{seat.id}/activity", self._book.deeds.setdefault(name, Deeds())
        while not self._stopping:
            rows = await self._office.tell(seat.token, "GET", path, claim=_LEASE_SECONDS, wait=0, limit=20)
            if not rows:
                await self._book.progress.after("done", 1, seconds=_SECONDS)
                continue
            for row in rows:
                if row["kind"] == "peer_agent" and self._dice.random() < _ANSWERED:
                    deeds.begun += 1
                    answer = spoken(f"{name}-{deeds.begun}", deeds.begun, in_reply_to=row["id"])
                    await self._office.tell(seat.token, "POST", f"/workspaces/{row['source_id']}/a2a", answer)
                    self._book.did(deeds)
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

    async def _note(self, name: str, seat: Seat) -> None:
        """A memory after the other."""
        deeds = self._book.deeds.setdefault(name, Deeds())
        while not self._stopping:
            deeds.begun += 1
            memory = {"content": f"{name}-{deeds.begun}", "scope": "LOCAL"}
            await self._office.tell(seat.token, "POST", f"/workspaces/{seat.id}/memories", memory)
            self._book.did(deeds)

    async def _ask(self, name: str, seat: Seat) -> None:
        path = f"/workspaces/{seat.id}/approvals"

        async def ask(words: str) -> str:
            asked = await self._office.tell(
                seat.token, "POST", path, {"action": "deploy", "reason": words, "details": {}}
            )
            return f"{path}/{asked['approval_id']}/withdraw"

        await self._begin_and_end(name, seat, ask, {})

    async def _think(self, name: str, seat: Seat) -> None:
        async def start(words: str) -> str:
            wish = {"input": words, "base_instructions": "Think."}
            begun = await self._office.tell(seat.token, "POST", f"/workspaces/{seat.id}/threads", wish)
            return f"/threads/{begun['thread_id']}/close"

        await self._begin_and_end(name, seat, start, {"descendants": "close"})

    async def _give(self, name: str, seat: Seat, other: Seat) -> None:
        path = f"/workspaces/{seat.id}"

        async def give(words: str) -> str:
            given = await self._office.tell(
                seat.token, "POST", f"{path}/delegate", {"target_id": other.id, "task": words}
            )
            return f"{path}/delegations/{given['delegation_id']}/cancel"

        await self._begin_and_end(name, seat, give, {})

    async def _begin_and_end(
        self, name: str, seat: Seat, begin: Callable[[str], Awaitable[str]], end: dict[str, str]
    ) -> None:
        """`begin`: begins something with these words, and returns where it is ended."""
        deeds = self._book.deeds.setdefault(name, Deeds())
        ends = self._book.deeds.setdefault(name + END, Deeds())
        while not self._stopping:
            deeds.begun += 1
            path = await begin(f"{name}-{deeds.begun}")
            self._book.did(deeds)
            ends.begun += 1
            await self._office.tell(seat.token, "POST", path, end)
            self._book.did(ends)


def spoken(text: str, number: int, **metadata: str) -> dict[str, Any]:
    """A message as JSON-RPC."""
    message: dict[str, Any] = {
        "role": "user",
        "messageId": text.partition(" ")[0],
        "parts": [{"kind": "text", "text": text}],
    }
    message |= {"metadata": metadata} if metadata else {}
    return {"jsonrpc": "2.0", "id": number, "method": "message/send", "params": {"message": message}}


def judge_moment(
    tables: list[list[tuple[Any, ...]]], book: Book, before: dict[str, int], handled: dict[str, int]
) -> dict[str, int]:
    """What is wrong with a store as of one moment: `tables` as `TABLES` find them; `before` and `handled` were done
    by then."""
    bodies, tasks, reasons, turns, notes, values, answered, inboxes, rows, events = tables
    said = {id_: _text_of(body).partition(" ")[0] for id_, body in bodies}
    names = [*said.values(), *(name for (name,) in notes)]
    for name, is_over in (*tasks, *reasons, *((_only(text), is_over) for text, is_over in turns)):
        who, _, number = name.partition("-")
        names += [name, f"{who}{END}-{number}"][: 1 + bool(is_over)]
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
    answers = {id_ for id_, name in said.items() if name.startswith("a")}
    zeros[OWED] = len(answers ^ {id_ for (id_,) in answered})
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


def _only(given: str) -> str:
    """The one text that a turn was given."""
    (text,) = msgspec.json.decode(given)
    return str(text["text"])
