"""Twenty organisations at work on one server in this process, and listeners in each: what `prove isolation` starts."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import msgspec

from molecule_core.common.clock import SystemClock
from proofs.harness.children import as_a_child
from proofs.harness.ledger import read_tables
from proofs.harness.office import Desk
from proofs.harness.settings import Setting
from proofs.harness.verdicts import Verdict
from proofs.isolation.apart import Apart
from proofs.isolation.cursors import Cursors
from proofs.isolation.judging import HEARD, MISSED, Caller, Court
from proofs.isolation.listening import Listener
from proofs.isolation.model import Model, Org, Person, Seat, Thing
from testing.running_server import ADMIN_TOKEN, running

ORGS, SEATS = 20, 10
_SECONDS = 120.0
# What a control has broken stays so: nobody waits for it as long.
_CONTROL_SECONDS = 10.0
_LEASE_SECONDS = 3_600
# So many acts go to another organisation. The others are enough for all listeners to have something to be told.
_ABROAD = 0.75
# For each act so many cursors that were changed are handed in.
_CURSORS = 0.5
_ROWS = "SELECT org_id, workspace_id, id FROM activities"
ABROAD = "of them abroad"


class Neighbours:
    """One run."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._dice: Random = setting.dice("acts")
        self._model = Model()
        self._orgs: list[Org] = []
        self._acts: Counter[str] = Counter()
        self._court = Court(self._model)
        self._apart = Apart(self._court, setting.dice("apart"))

    async def run(self) -> Verdict:
        """`setting.size` acts, then what the listeners heard."""
        place = self._setting.database or str(self._setting.folder / "molecule.db")
        async with running(self._setting.engine, place, self._setting.folder, clock=SystemClock()) as server:
            self._desk = self._court.desk = Desk(server.server)
            for number in range(ORGS):
                self._orgs.append(await self._found(number))
            ears = [Listener(each, self._model) for org in self._orgs for each in _listening(org)]
            await asyncio.gather(*(each.begin(server.port) for each in ears))
            for _ in range(self._setting.size):
                await self._act()
            cursors = Cursors(self._court, self._setting.dice("cursors"), server, self._orgs)
            await cursors.hand_in(round(self._setting.size * _CURSORS))
            patience = _SECONDS if self._setting.package is None else _CONTROL_SECONDS
            last = [await self._last_words(org) for org in self._orgs]
            await asyncio.gather(*(each.end(last[each.caller.org][each.caller.token], patience) for each in ears))
        await self._judge(ears)
        self._apart.judge()
        verdict, heard = self._court.verdict, sum(len(each.heard) for each in ears)
        kinds = {f"of them {kind}": count for kind, count in sorted(self._acts.items())}
        acts = {"acts": self._setting.size, **kinds, "listeners": len(ears), "told live": heard}
        verdict.figures = {**acts, **verdict.figures}
        return verdict

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
            org.things.setdefault("workspace", []).append(Thing(seat["id"], seat["id"], frozenset((seat["id"],))))
        person = await tell(ADMIN_TOKEN, "POST", f"/orgs/{org.id}/people", {"name": "Op", "role": "operator"})
        org.people.append(Person(number, person["auth_token"]))
        return org

    # -- acts ----------------------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        """One of the acts: at home, or on somebody of another organisation, which then must come to nothing."""
        dice = self._dice
        own, other = dice.sample(self._orgs, 2)
        caller: Caller = dice.choice(_people(own))
        if dice.random() < _ABROAD:
            self._acts["abroad"] += 1
        else:
            other = own
        verb = dice.choice(VERBS)
        self._acts[verb.__name__.strip("_")] += 1
        await verb(self, caller, own, other, dice.choice(other.seats))

    async def _written(
        self, org: Org, kind: str, name: str, seats: tuple[Seat, ...], asking: Awaitable[tuple[int, bytes]]
    ) -> None:
        """Something may have been made: its id is known to those who may see it."""
        status, said = await asking
        if status < 300 and (id_ := _field(said, name)):
            thing = Thing(id_, seats[0].id, frozenset(seat.id for seat in seats))
            org.things.setdefault(kind, []).append(thing)

    def _writer(self, caller: Caller, own: Org) -> Seat:
        """Who does what only workspaces do."""
        return caller if isinstance(caller, Seat) else self._dice.choice(own.seats)

    async def _send(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        seats = (target, caller) if isinstance(caller, Seat) else (target,)
        text = self._model.mark(own.number, *(seat for seat in seats if seat.org == own.number))
        message = {"role": "user", "messageId": text, "parts": [{"kind": "text", "text": text}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
        asking = self._court.ask(caller, "POST", f"/workspaces/{target.id}/a2a", body)
        await self._written(own, "activity", "activity_id", seats, asking)

    async def _delegate(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        """Work for somebody; abroad, in its own name or in that of another's agent."""
        writer = self._writer(caller, own)
        seats = tuple(seat for seat in (writer, target) if seat.org == own.number)
        giver = writer if other is own or self._dice.random() < 0.5 else self._dice.choice(other.seats)
        body = {"target_id": target.id, "task": self._model.mark(own.number, *seats)}
        asking = self._court.ask(writer, "POST", f"/workspaces/{giver.id}/delegate", body)
        await self._written(own, "delegation", "delegation_id", seats, asking)

    async def _ask_leave(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        writer = self._writer(caller, own)
        seats = (writer, *writer.above)
        mark = self._model.mark(own.number, *seats)
        body = {"action": "deploy", "reason": mark, "details": {"what": mark}}
        path = f"/workspaces/{(writer if other is own else target).id}/approvals"
        await self._written(own, "approval", "approval_id", seats, self._court.ask(writer, "POST", path, body))

    async def _remember(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        writer = self._writer(caller, own)
        mark = self._model.mark(own.number, writer)
        path = f"/workspaces/{(writer if other is own else target).id}"
        if self._dice.random() < 0.5:
            body = {"key": f"k{self._dice.randrange(50)}", "value": mark}
            await self._court.ask(writer, "POST", f"{path}/memory", body)
        else:
            asking = self._court.ask(writer, "POST", f"{path}/memories", {"content": f"note {mark}"})
            await self._written(own, "memory", "id", (writer,), asking)

    async def _begin_thread(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        writer = self._writer(caller, own)
        mark = self._model.mark(own.number, writer)
        body = {"base_instructions": f"You are {mark}.", "input": mark}
        path = f"/workspaces/{(writer if other is own else target).id}/threads"
        await self._written(own, "thread", "thread_id", (writer,), self._court.ask(writer, "POST", path, body))

    async def _claim(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        path = f"/workspaces/{target.id}/activity"
        _, said = await self._court.ask(caller, "GET", path, claim=_LEASE_SECONDS, wait=0, limit=20)
        seqs = [row["seq"] for row in _rows(said)]
        if seqs or other is not own:
            await self._court.ask(caller, "POST", f"{path}/ack", {"acked_seq": max(seqs, default=1)})

    async def _read(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        path = self._dice.choice(_READS if other is own else _READS_OF).format(id=target.id, org=other.id)
        query = {"q": "note"} if path.endswith("/memories") else {}
        await self._court.ask(caller, "GET", path, **query)

    async def _look_at(self, caller: Caller, own: Org, other: Org, target: Seat) -> None:
        if other is own:
            await self._apart.look_at_own(caller, own)
        else:
            await self._apart.look_abroad(caller, own, other)

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
        fault = self._court.fault
        for each in ears:
            org = self._orgs[each.caller.org]
            caller = each.caller
            due = {id_ for org_id, seat_id, id_ in rows if org_id == org.id and caller_hears(caller, seat_id)}
            missed = due - each.heard - each.before
            fault(MISSED, f"{len(missed)} of {len(due)}", len(missed))
            fault(HEARD, f"{each.leaks[:3]} {list(each.heard - due)[:3]}", len(each.leaks) + len(each.heard - due))


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
)
# What names whose it is, and can be asked of others.
_READS_OF = (
    *(
        f"/workspaces/{{id}}/{each}"
        for each in (
            *("activity", "activities", "chat-history", "delegations", "approvals", "memory", "memories", "threads"),
            *("timeline", "obligations", "waiting", "dead-letters"),
        )
    ),
    *(f"/orgs/{{org}}/{each}" for each in ("snapshot", "tree", "delegations", "obligations")),
    *(f"/orgs/{{org}}/{each}" for each in ("dead-letters", "untaken", "chains")),
    "/registry/{id}/peers",
)
_READS = (*_READS_OF, "/approvals", "/approvals/pending", "/workspaces")


async def run(setting: Setting) -> Verdict:
    """One run."""
    return await Neighbours(setting).run()


if __name__ == "__main__":
    as_a_child(run)
