"""Cursors of others, and cursors with something changed, at every place where a client hands one in."""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from proofs.isolation.apart import UNKNOWN
from proofs.isolation.judging import APART, BROKE, FOREIGN, STRANGE, TAKEN, Caller, Court
from proofs.isolation.model import Org, Seat
from testing.app_server_client import client
from testing.live_clients import channel
from testing.running_server import Running

CHANGED, LIVE = "changed cursors", "of them on live channels"
ALLOWED = (200, 404, 410, 422)
"""Statuses that a request may get; docs/reference/errors.md has 404 for what is missing or belongs to another org."""
# So many of a hundred go to a live channel, so many at once.
_LIVE_SHARE, _AT_ONCE = 0.08, 8
# Who asks for no more reads no more: what comes first is told by rows that are as good as the later ones.
_MOST_LINES, _SECONDS = 40, 30.0
_LONGEST = 500
_FLAWS = ("'", "%00", "..", "%2e%2e%2f", "-1", "0", "9" * 40, "%F0%9F%98%80", "null", "\x00", "a" * 5_000, "1e3", " ")
_LETTERS = "0123456789abcdef-zZ:"


class Door(Struct, frozen=True):
    """A place for a cursor. `kind`: of the things whose ids it takes; empty: it takes a number or a key."""

    path: str
    name: str
    kind: str
    by_person: bool = False
    query: tuple[tuple[str, Any], ...] = ()


DOORS = (
    Door("/workspaces/{id}/activity", "since_id", "activity", query=(("wait", 0),)),
    Door("/workspaces/{id}/chat-history", "before", "activity"),
    Door("/workspaces/{id}/chat-history", "after", "activity"),
    Door("/workspaces/{id}/approvals", "before", "approval"),
    Door("/workspaces/{id}/delegations", "before", "delegation"),
    Door("/workspaces/{id}/dead-letters", "before", "activity", by_person=True),
    Door("/workspaces/{id}/memories", "before", "memory", query=(("q", "note"),)),
    Door("/workspaces/{id}/memory", "after", ""),
    Door("/workspaces/{id}/obligations", "before", "activity"),
    Door("/workspaces/{id}/threads", "before", "thread"),
    Door("/workspaces/{id}/timeline", "before", ""),
    Door("/orgs/{org}/chains", "before", "activity", by_person=True, query=(("state", "all"),)),
    Door("/orgs/{org}/delegations", "before", "delegation", by_person=True),
    Door("/orgs/{org}/dead-letters", "before", "activity", by_person=True),
    Door("/orgs/{org}/obligations", "before", "activity", by_person=True),
    Door("/approvals/pending", "after", "approval", by_person=True),
    Door("/approvals", "before", "approval", by_person=True),
    Door("/workspaces", "after", "workspace", by_person=True, query=(("limit", 5),)),
    Door("/threads/{thread}/items", "after", ""),
)


class Cursors:
    """Hands them in, and judges what is answered."""

    def __init__(self, court: Court, dice: Random, server: Running, orgs: list[Org]) -> None:
        self._court = court
        self._dice = dice
        self._server = server
        self._orgs = orgs
        self._epoch = ""

    async def hand_in(self, count: int) -> None:
        """So many, some of them on live channels."""
        for kind in (CHANGED, LIVE):
            self._court.count(kind, 0)
        live = round(count * _LIVE_SHARE)
        for _ in range(count - live):
            await self._at_a_door()
        shares = [live // _AT_ONCE + (place < live % _AT_ONCE) for place in range(_AT_ONCE)]
        await asyncio.gather(*(self._some_live(share) for share in shares))

    # -- pages ---------------------------------------------------------------------------------------------------------

    async def _at_a_door(self) -> None:
        dice, door = self._dice, self._dice.choice(DOORS)
        own, other = dice.sample(self._orgs, 2)
        seat = dice.choice(own.seats)
        caller: Caller = own.people[0] if door.by_person else seat
        threads = [each.id for each in own.things.get("thread", ()) if seat.id in each.seats]
        path = door.path.format(id=seat.id, org=own.id, thread=dice.choice(threads) if threads else UNKNOWN)
        things = (other if dice.random() < 0.75 else own).things.get(door.kind, ())
        cursor = dice.choice(things).id if things else str(dice.randrange(10**4))
        if door.kind and other.things.get(door.kind) and dice.random() < 0.25:
            await self._compare(caller, door, path, dice.choice(other.things[door.kind]).id)
        else:
            await self._page(caller, door, path, changed(cursor, dice))

    async def _compare(self, caller: Caller, door: Door, path: str, cursor: str) -> None:
        """The id of a thing of others is as good as one of nothing."""
        (status, said), unknown = await self._page(caller, door, path, cursor), await self._ask(caller, door, path)
        if status != unknown[0]:
            self._court.fault(TAKEN, f"{path} {door.name}={cursor}: {status}, not {unknown[0]}")
        elif status != 200 and said.replace(cursor.encode(), UNKNOWN.encode()) != unknown[1]:
            self._court.fault(APART, f"{path} {door.name}={cursor}: {said[:90]!r}")

    async def _page(self, caller: Caller, door: Door, path: str, cursor: str) -> tuple[int, bytes]:
        self._court.count(CHANGED)
        status, said = await self._ask(caller, door, path, cursor)
        if status not in ALLOWED:
            self._court.fault(STRANGE, f"{path} {door.name}={cursor[:50]!a}: {status} {said[:80]!r}")
        if status == 200 and door.name == "since_id":
            rows: list[dict[str, Any]] = msgspec.json.decode(said)
            received = {row["target_id"] for row in rows if row["activity_type"] == "a2a_receive"}
            if isinstance(caller, Seat) and received - {caller.id}:
                self._court.fault(FOREIGN, f"{path} {cursor}")
        return status, said

    async def _ask(self, caller: Caller, door: Door, path: str, cursor: str = UNKNOWN) -> tuple[int, bytes]:
        return await self._court.ask(caller, "GET", path, extra=FOREIGN, **{**dict(door.query), door.name: cursor})

    # -- live channels -------------------------------------------------------------------------------------------------

    async def _some_live(self, count: int) -> None:
        ways: tuple[Callable[[Caller], Any], ...] = (self._stream, self._older_stream, self._socket, self._dialect)
        for _ in range(count):
            org = self._dice.choice(self._orgs)
            callers: list[Caller] = [*org.seats, *org.people]
            caller = self._dice.choice(callers)
            self._court.count(CHANGED)
            self._court.count(LIVE)
            async with asyncio.timeout(_SECONDS):
                await self._dice.choice(ways)(caller)

    def _place(self) -> tuple[str, str]:
        """(epoch, number), one of them or both not those of an event that the caller has heard."""
        dice, epoch = self._dice, self._epoch or UNKNOWN
        if dice.random() < 0.4:
            epoch = dice.choice((changed(epoch, dice), UNKNOWN, "", ":", "'"))
        number = dice.choice(
            (
                *(str(dice.randrange(1, 300)), str(dice.randrange(300, 10**5)), str(10**15), str(2**63 - 1)),
                *(str(2**63), str(2**64), changed(str(dice.randrange(10**4)), dice), dice.choice(_FLAWS)),
            )
        )
        # What no header can say, and frames that are too long or no JSON, are tried elsewhere.
        return epoch[:_LONGEST].translate(_UNSAYABLE), number[:_LONGEST].translate(_UNSAYABLE)

    async def _stream(self, caller: Caller, path: str = "/events/stream") -> None:
        epoch, number = self._place()
        last = f"{epoch}:{number}"
        reader, writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        try:
            head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._server.port}\r\nLast-Event-ID: {last}\r\n"
            writer.write(f"{head}Authorization: Bearer {caller.token}\r\n\r\n".encode())
            status = int((await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1])
            self._judge_status(status, f"{path} {last[:60]!a}")
            if status == 200:
                self._court.look(caller, await self._told(reader), f"{path} {last}", FOREIGN)
        finally:
            writer.transport.abort()

    async def _older_stream(self, caller: Caller) -> None:
        seat = caller if isinstance(caller, Seat) else self._orgs[caller.org].seats[0]
        await self._stream(caller, f"/workspaces/{seat.id}/events/stream")

    async def _told(self, reader: asyncio.StreamReader) -> bytes:
        """The first frame, which says from where it goes on, and the first of the events that it promises."""
        lines = list[bytes]()
        left = 1
        while left and (line := await reader.readline()):
            lines.append(line)
            left -= line == b"\n"
            if line.startswith(b"id: ") and not self._epoch:
                self._epoch = line[4:].decode().partition(":")[0]
            if line.startswith(b"data: ") and b'"type":"resumed"' in line:
                left += min(msgspec.json.decode(line[6:])["count"], _MOST_LINES)
        return b"".join(lines)

    def _judge_status(self, status: int, note: str) -> None:
        if status not in ALLOWED:
            self._court.fault(BROKE if status >= 500 else STRANGE, f"{note}: {status}")

    async def _socket(self, caller: Caller) -> None:
        epoch, number = self._place()
        after: Any = int(number) if number.isascii() and number.isdigit() else number
        async with channel(self._server, caller.token) as opened:
            await opened.subscribe(after, epoch)
            if isinstance(after, int) and after < 2**63:
                first = await opened.control()
                for _ in range(min(first.get("count", 0), _MOST_LINES)):
                    await opened.frame()
            else:
                await opened.pong()  # what is no number is left alone
            self._court.look(caller, msgspec.json.encode(opened.frames), f"/ws {number} {epoch}", FOREIGN)

    async def _dialect(self, caller: Caller) -> None:
        cursor = ":".join(self._place())
        async with client(self._server, caller.token) as opened:
            answer = await opened.asks("initialize", clientInfo={"name": "x"}, cursor=cursor)
            said = msgspec.json.encode([answer, *opened.told])
            self._court.look(caller, said, f"/threads/ws {cursor}", FOREIGN)


_UNSAYABLE = {ord(sign): "?" for sign in "\x00\r\n"}


def changed(cursor: str, dice: Random) -> str:
    """Another text than the cursor: one sign is another, is gone, is there twice, or nothing of it is left."""
    way, place = dice.random(), dice.randrange(len(cursor)) if cursor else 0
    if way < 0.15 or not cursor:
        return dice.choice(_FLAWS)
    if way < 0.25:
        return cursor[:place]
    if way < 0.35:
        return cursor + cursor[place:]
    sign = dice.choice([each for each in _LETTERS if each != cursor[place]])
    return cursor[:place] + sign + cursor[place + 1 :]
