"""One of the two sides of a script: an organisation of its own on one server, and the entrance that its agents take.

Above: tasks.py and its like, which play moves. Below: servers.py, doors.py.
"""

import asyncio
import re
from typing import Any

from msgspec import Struct, field

from proofs.parity import moves
from proofs.parity.doors import Door, Rest, Told, door, key_of
from proofs.parity.servers import ALIGNED, Busy, pass_time, rest
from testing.delegation_entrances import Begun, Entrance, can
from testing.message_world import MessageWorld
from testing.running_server import Seat

UNSAID = {
    ("cli", "wait"): "a shell counts its patience by the clock of the machine, which no script moves",
    ("cli", "delivered"): "a shell has no word for where a result went",
    ("a2a", "messages"): "message/send is what messages are sent by over HTTP too; the others are compared with it",
    ("a2a", "approvals"): "message/send says nothing of leave",
    ("a2a", "memory"): "message/send says nothing of what agents remember",
    ("a2a", "threads"): "message/send has no word for conversations",
}
"""What a script leaves out for an entrance besides `entrances.CANNOT`, and why."""
PUSHED_TO = "https://{org}.example/a2a"
_HEX = "[0-9a-f]"
_WHOLE = f"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}|(?<!{_HEX}){_HEX}{{32}}(?!{_HEX})"
ID = re.compile(rf"m\d+-[0-9a-z]+|{_WHOLE}|(?<![0-9a-f-]){_HEX}[0-9a-f-]*…|(?<=\"session\":\"){_HEX}{{10}}")
"""An id, whole or cut short, a reply handle, which is made of one, or what is told of a person's token."""
TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_UNNAMED = ("request_approval", "start", "fork", "speak")
"""Verbs that have no name but the one that a host gives to a call."""


class Held(Struct):
    """A task that somebody has in hand."""

    id: str
    attempt: int
    handle: str


class Leave(Struct):
    """Leave that somebody has asked for, as it was then."""

    who: str
    id: str
    revision: int
    action_hash: str


class Side(Struct):
    """One organisation on one server, and the entrance through which its agents do things."""

    world: MessageWorld
    entrance: Entrance
    org_id: str
    seats: dict[str, Seat]
    start: int
    busy: Busy
    door: Door
    person: str
    """The token of the person on the canvas."""
    said: list[str] = field(default_factory=list)
    """What each move was answered."""
    ids: list[tuple[str, str]] = field(default_factory=list)
    """Whose task each one is, in the order in which they were begun."""
    held: dict[str, list[Held]] = field(default_factory=dict)
    calls: list[tuple[int, "asyncio.Task[Begun]"]] = field(default_factory=list)
    mail: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Messages that agents were shown, and whose they are."""
    kept: list[tuple[str, str]] = field(default_factory=list)
    """Who wrote down which memory."""
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    """Of the keys of each agent, as it knows them."""
    leaves: list[Leave] = field(default_factory=list)
    threads: list[tuple[str, str]] = field(default_factory=list)
    """Whose thread each one is, in the order in which they were begun."""
    agents: list[tuple[str, str, str]] = field(default_factory=list)
    """Whose thread has begun which agent, by its path."""
    named: int = 0
    through: int = 0
    """So many calls went through the entrance; the others have no other way than REST."""

    async def rest(self) -> None:
        """Waits until nothing is due or under way, and whatever was written has been heard of."""
        await rest(self.world, self.busy)

    @property
    def url(self) -> str:
        """Where the agent is that is pushed to."""
        return PUSHED_TO.format(org=self.org_id)

    def says(self, word: str) -> bool:
        """Whether its entrance has a word for something."""
        return can(self.entrance, word) and (self.entrance.name, word) not in UNSAID

    async def does(self, who: str, verb: str, given: dict[str, Any], key: str | None = None) -> Told:
        """An agent does something: through the side's entrance, if that has a word for it."""
        self.named += 1
        way: Door = self.door if self.door.has(verb) else Rest()
        self.through += way is self.door
        name = key or "" if verb in _UNNAMED else key_of(self.named, key)
        return await way.call(self.world.server, self.seats[who], verb, given, name)


def shown(told: Told, *names: str) -> str:
    """What both sides must be told alike of a call, with ids and times as mere ids and times."""
    text = f"refused: {told.refused}" if told.refused else str({name: told.said.get(name) for name in names})
    return TIME.sub("then", ID.sub("id", text))


async def side_of(world: MessageWorld, entrance: Entrance, number: int, busy: Busy) -> Side:
    """A new organisation, at a moment that is the same for both sides."""
    clock, server = world.clock, world.server
    await pass_time(world, busy, clock.now() + ALIGNED - clock.now() % ALIGNED)
    org_id = await server.org(f"org {number}")
    seats: dict[str, Seat] = {}
    for name in moves.SEATS:
        fields: dict[str, Any] = {"org_id": org_id}
        if name == moves.PUSHED:
            fields |= {"delivery_mode": "push", "url": PUSHED_TO.format(org=org_id)}
        if name == moves.BELOW:
            fields |= {"parent_id": seats[moves.HELPER].id}
        seats[name] = await server.seat(name, **fields)
    asked = {"name": "A person", "role": "operator"}
    token = (await server.admin.post(f"/orgs/{org_id}/people", asked))["auth_token"]
    seen = world._replace(person=server.api(token))
    return Side(seen, entrance, org_id, seats, clock.now(), busy, door(entrance), token)
