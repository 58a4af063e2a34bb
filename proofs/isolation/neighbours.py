"""Twenty organisations at work on one server in this process, and listeners in each: what `prove isolation` starts."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from molecule_core.ground.clock import SystemClock
from proofs.harness.children import as_a_child
from proofs.harness.ledger import read_tables
from proofs.harness.office import Desk
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.isolation.listening import Listener
from proofs.isolation.model import Model, Org, Person, Seat
from tests.running import ADMIN_TOKEN, running

ORGS, SEATS = 20, 10
UNKNOWN = "01900000-0000-7000-8000-00000000beef"
_MOST_NOTES = 5
_SECONDS = 120.0
# What a control has broken stays so: nobody waits for it as long.
_CONTROL_SECONDS = 10.0
_LEASE_SECONDS = 3_600
# So many acts go to another organisation.
_ABROAD = 0.3
_ROWS = "SELECT org_id, workspace_id, id FROM activities"
_FLAWS = ("'", "%00", "..", "%2e%2e%2f", "-1", "0", "9" * 40, "%F0%9F%98%80", "null")

EXTRA = "shown to whom it is not for"
HEARD = "told live to whom it is not for"
MISSED = "not told live to whom it is for"
APART = "ids of others told apart from unknown ones"
TAKEN = "cursors of others taken"
FOREIGN = "rows of others behind a changed cursor"
STRANGE = "answers to a changed cursor but 200, 410 and 422"
BROKE = "answered 5xx"
ZEROS = (EXTRA, HEARD, MISSED, APART, TAKEN, FOREIGN, STRANGE, BROKE)

Caller = Seat | Person


class Neighbours:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._dice: Random = setting.dice("acts")
        self._model = Model()
        self._orgs: list[Org] = []
        self._acts: Counter[str] = Counter()
        self.verdict = Verdict(zeros=dict.fromkeys(ZEROS, 0))

    async def run(self) -> Verdict:
        """`setting.size` acts, then what the listeners heard."""
        place = self._setting.database or str(self._setting.folder / "molecule.db")
        async with running(self._setting.engine, place, self._setting.folder, clock=SystemClock()) as server:
            self._desk = Desk(server.server)
            for number in range(ORGS):
                self._orgs.append(await self._found(number))
            ears = [Listener(each, self._model) for org in self._orgs for each in _listening(org)]
            await asyncio.gather(*(each.begin(server.port) for each in ears))
            for _ in range(self._setting.size):
                await self._act()
            patience = _SECONDS if self._setting.package is None else _CONTROL_SECONDS
            last = [await self._last_words(org) for org in self._orgs]
            await asyncio.gather(*(each.end(last[each.caller.org][each.caller.token], patience) for each in ears))
        await self._judge(ears)
        kinds = {f"of them {kind}": count for kind, count in sorted(self._acts.items())}
        heard = sum(len(each.heard) for each in ears)
        self.verdict.figures = {"acts": self._setting.size, **kinds, "listeners": len(ears), "told live": heard}
        return self.verdict

    async def _found(self, number: int) -> Org:
        """An organisation: a lead, two below it, and the others below those."""
        tell = self._desk.tell
        made = await tell(ADMIN_TOKEN, "POST", "/orgs", {"name": f"Org {number}"})
        org = Org(number, made["id"], [], [], {})
        for place in range(SEATS):
            above = [] if place == 0 else [org.seats[(place - 1) // 4], *org.seats[(place - 1) // 4].above]
            body = {"name": f"Seat {place}", "org_id": org.id, "parent_id": above[0].id if above else None}
            seat = await tell(ADMIN_TOKEN, "POST", "/workspaces", body)
            org.seats.append(Seat(number, seat["id"], seat["connection"]["auth_token"], above))
        person = await tell(ADMIN_TOKEN, "POST", f"/orgs/{org.id}/people", {"name": "Op", "role": "operator"})
        org.people.append(Person(number, person["auth_token"]))
        return org

    # -- acts ----------------------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        dice = self._dice
        own = dice.choice(self._orgs)
        caller: Caller = dice.choice(_people(own))
        other = dice.choice(self._orgs) if dice.random() < _ABROAD else own
        verb = dice.choice(VERBS)
        self._acts[verb.__name__.strip("_")] += 1
        await verb(self, caller, own, other, dice.choice(other.seats))

    async def _ask(self, caller: Caller, method: str, path: str, body: Any = None, **query: Any) -> tuple[int, bytes]:
        """What somebody is answered; nothing of it may be for others."""
        status, said = await self._desk.bytes_of(caller.token, method, path, body, **query)
        for mark in self._model.leaks(caller, said):
            self._fault(EXTRA, f"{method} {path}: {mark.decode()}")
        if status >= 500:
            self._fault(BROKE, f"{method} {path}: {status}")
        return status, said

    async def _written(
        self, org: Org, kind: str, name: str, seats: tuple[Seat, ...], asking: Awaitable[tuple[int, bytes]]
    ) -> None:
        """Something may have been made: its id is known to those who may see it."""
        status, said = await asking
        if status < 300 and (id_ := _field(said, name)):
            org.things.setdefault(kind, []).append((id_, frozenset(seat.id for seat in seats)))

    async def _send(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        seats = (target, caller) if isinstance(caller, Seat) else (target,)
        text = self._model.mark(own.number, *(seat for seat in seats if seat.org == own.number))
        message = {"role": "user", "messageId": text, "parts": [{"kind": "text", "text": text}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        asking = self._ask(caller, "POST", f"/workspaces/{target.id}/a2a", body)
        await self._written(own, "activity", "activity_id", seats, asking)

    async def _delegate(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        if isinstance(caller, Seat):
            seats = tuple(seat for seat in (caller, target) if seat.org == own.number)
            body = {"target_id": target.id, "task": self._model.mark(own.number, *seats)}
            asking = self._ask(caller, "POST", f"/workspaces/{caller.id}/delegate", body)
            await self._written(own, "delegation", "delegation_id", seats, asking)

    async def _ask_leave(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        if isinstance(caller, Seat):
            seats = (caller, *caller.above)
            mark = self._model.mark(own.number, *seats)
            body = {"action": "deploy", "reason": mark, "details": {"what": mark}}
            asking = self._ask(caller, "POST", f"/workspaces/{caller.id}/approvals", body)
            await self._written(own, "approval", "approval_id", seats, asking)

    async def _remember(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        if isinstance(caller, Seat):
            mark = self._model.mark(own.number, caller)
            if self._dice.random() < 0.5:
                body = {"key": f"k{self._dice.randrange(50)}", "value": mark}
                await self._ask(caller, "POST", f"/workspaces/{caller.id}/memory", body)
            else:
                asking = self._ask(caller, "POST", f"/workspaces/{caller.id}/memories", {"content": f"note {mark}"})
                await self._written(own, "memory", "id", (caller,), asking)

    async def _begin_thread(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        if isinstance(caller, Seat):
            mark = self._model.mark(own.number, caller)
            body = {"base_instructions": f"You are {mark}.", "input": mark}
            asking = self._ask(caller, "POST", f"/workspaces/{caller.id}/threads", body)
            await self._written(own, "thread", "thread_id", (caller,), asking)

    async def _claim(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        path = f"/workspaces/{target.id}/activity"
        _, said = await self._ask(caller, "GET", path, claim=_LEASE_SECONDS, wait=0, limit=20)
        seqs = [row["seq"] for row in _rows(said)]
        if seqs:
            await self._ask(caller, "POST", f"{path}/ack", {"acked_seq": max(seqs)})

    async def _read(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        path = self._dice.choice(_READS).format(id=target.id, org=other.id)
        query = {"q": "note"} if path.endswith("/memories") else {}
        await self._ask(caller, "GET", path, **query)

    async def _look_at(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        """A thing of another organisation answers as one that is not there."""
        kind = self._dice.choice(tuple(_THINGS))
        if other is own or not other.things.get(kind):
            return
        thing, _ = self._dice.choice(other.things[kind])
        place = self._dice.choice((caller.id if isinstance(caller, Seat) else own.seats[0].id, target.id))
        for method, path in _THINGS[kind]:
            body: dict[str, Any] | None = {} if method == "POST" else None
            found = [
                await self._ask(caller, method, path.format(id=place, thing=each), body) for each in (thing, UNKNOWN)
            ]
            if found[0][0] != found[1][0] or found[0][1].replace(thing.encode(), UNKNOWN.encode()) != found[1][1]:
                self._fault(APART, f"{method} {path}: {found}")

    async def _follow(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        """A cursor that was changed: no row of others, and no other answer than those that are promised."""
        dice, seat = self._dice, caller if isinstance(caller, Seat) else self._dice.choice(own.seats)
        things = other.things.get("activity")
        cursor, seats = dice.choice(things) if things else (UNKNOWN, frozenset())
        is_foreign = seat.id not in seats
        if dice.random() < 0.6:
            place = dice.randrange(len(cursor))
            cursor = cursor[:place] + dice.choice("0123456789abcdef-zZ") + cursor[place + 1 :]
        elif dice.random() < 0.3:
            cursor = dice.choice(_FLAWS)
        status, said = await self._ask(caller, "GET", f"/workspaces/{seat.id}/activity", since_id=cursor, wait=0)
        if status not in (200, 410, 422):
            self._fault(STRANGE, f"{status} {said[:80]!r}")
        if status == 200 and is_foreign:
            self._fault(TAKEN, cursor)
        received = {row["target_id"] for row in _rows(said) if row["activity_type"] == "a2a_receive"}
        if received - {seat.id}:
            self._fault(FOREIGN, cursor)

    async def _last_words(self, org: Org) -> dict[str, str]:
        """A person's message to each workspace that listens: when it is heard, all before it was. By listener."""
        found = dict[str, str]()
        for seat in (org.seats[0], org.seats[5]):
            text = self._model.mark(org.number, seat)
            message = {"role": "user", "messageId": text, "parts": [{"kind": "text", "text": text}]}
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
            await self._desk.tell(org.people[0].token, "POST", f"/workspaces/{seat.id}/a2a", body)
            found[seat.token] = found[org.people[0].token] = text
        return found

    # -- what was heard ------------------------------------------------------------------------------------------------

    async def _judge(self, ears: list[Listener]) -> None:
        (rows,), _ = await read_tables(self._setting, (_ROWS,))
        for each in ears:
            org = self._orgs[each.caller.org]
            caller = each.caller
            due = {id_ for org_id, seat_id, id_ in rows if org_id == org.id and caller_hears(caller, seat_id)}
            missed = due - each.heard - each.before
            self._fault(MISSED, f"{len(missed)} of {len(due)}", len(missed))
            self._fault(
                HEARD, f"{each.leaks[:3]} {list(each.heard - due)[:3]}", len(each.leaks) + len(each.heard - due)
            )

    def _fault(self, what: str, note: str, count: int = 1) -> None:
        self.verdict.zeros[what] += count
        if count and len(self.verdict.notes) < _MOST_NOTES:
            self.verdict.notes.append(f"{what}: {note[:250]}")


def _listening(org: Org) -> list[Caller]:
    return [org.seats[0], org.seats[5], *org.people]


def _people(org: Org) -> list[Caller]:
    return [*org.seats, *org.people]


def caller_hears(caller: Caller, seat_id: str) -> bool:
    """Whether rows of a workspace's log are told to somebody of its organisation."""
    return isinstance(caller, Person) or caller.id == seat_id


def _field(said: bytes, name: str) -> str:
    found = msgspec.json.decode(said)
    return str(found.get(name, "")) if isinstance(found, dict) else ""


def _rows(said: bytes) -> list[dict[str, Any]]:
    found = msgspec.json.decode(said)
    return found if isinstance(found, list) else []


VERBS: tuple[Callable[..., Awaitable[None]], ...] = (
    Neighbours._send,
    Neighbours._send,
    Neighbours._delegate,
    Neighbours._ask_leave,
    Neighbours._remember,
    Neighbours._begin_thread,
    Neighbours._claim,
    Neighbours._claim,
    Neighbours._read,
    Neighbours._read,
    Neighbours._look_at,
    Neighbours._follow,
    Neighbours._follow,
)
_READS = (
    *(
        f"/workspaces/{{id}}/{each}"
        for each in (
            *("activity", "activities", "chat-history", "delegations", "approvals", "memory", "memories", "threads"),
            *("timeline", "obligations", "waiting", "dead-letters"),
        )
    ),
    *(f"/orgs/{{org}}/{each}" for each in ("snapshot", "tree", "delegations", "obligations", "dead-letters", "chains")),
    "/approvals",
    "/approvals/pending",
    "/workspaces",
    "/registry/{id}/peers",
)
_THINGS = {
    "activity": (
        ("GET", "/workspaces/{id}/a2a/queue/{thing}"),
        ("GET", "/workspaces/{id}/messages/{thing}/ticks"),
        ("POST", "/workspaces/{id}/dead-letters/{thing}/requeue"),
    ),
    "delegation": (
        ("GET", "/delegations/{thing}"),
        ("POST", "/workspaces/{id}/delegations/{thing}/cancel"),
        ("POST", "/delegations/{thing}/status"),
    ),
    "approval": (
        ("GET", "/workspaces/{id}/approvals/{thing}"),
        ("POST", "/workspaces/{id}/approvals/{thing}/withdraw"),
    ),
    "memory": (("DELETE", "/workspaces/{id}/memories/{thing}"),),
    "thread": (
        ("GET", "/threads/{thing}"),
        ("GET", "/threads/{thing}/items"),
        ("GET", "/threads/{thing}/tree"),
        ("POST", "/threads/{thing}/close"),
        ("POST", "/threads/{thing}/turns"),
    ),
}


async def run(setting: Setting) -> Verdict:
    """One run."""
    return await Neighbours(setting).run()


if __name__ == "__main__":
    as_a_child(run)
