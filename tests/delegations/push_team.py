"""Delegations to an agent that is pushed to, and all that is heard of what becomes of them."""

from typing import Any, NamedTuple

import msgspec

from molecule_core.common.clock import SECOND
from molecule_core.delegations.model import Delegation
from molecule_core.messages import events
from molecule_core.store.database import CommandSteps, WriteSet
from testing.delegation_steps import begin, row_of, told_of
from testing.message_world import MessageWorld
from testing.push_agents import Pushed
from testing.running_server import Seat
from testing.waits import eventually

URL = "https://ops.example/a2a"
KINDS = (
    events.MessagesDelivered,
    events.MessagesReleased,
    events.PushDeferred,
    events.PushOutcomeUnknown,
    events.PushAccepted,
    events.QuestionAsked,
    events.MessageAnswered,
    events.ProgressReported,
    events.DeliveryFailed,
)


class Team(NamedTuple):
    """Who delegates, who is pushed to, and what was heard, oldest first."""

    world: MessageWorld
    lead: Seat
    ops: Seat
    heard: list[Any]

    @property
    def pushed(self) -> list[Pushed]:
        """What the agent was sent."""
        return self.world.net.of(URL)

    async def give(self, task: str = "sort the mail") -> str:
        """A delegation to the agent; its id."""
        return (await begin(self.world, self.lead, self.ops, task)).row.id

    async def gives(self, task: str = "sort the mail") -> str:
        """The same, and whatever comes of it at once."""
        delegation_id = await self.give(task)
        await self.world.rest()
        return delegation_id

    async def row(self, delegation_id: str) -> Delegation:
        """How it stands."""
        return await row_of(self.world, delegation_id)

    async def ended(self, delegation_id: str) -> Delegation:
        """Waits until it has ended; how."""

        async def look() -> Delegation:
            await self.world.clock.advance(0)
            return await self.row(delegation_id)

        return await eventually(look, lambda row: row.status.is_ended)

    def pushes_of(self, delegation_id: str) -> int:
        """How often it was sent."""
        return sum(each.activity == delegation_id for each in self.pushed)

    async def told(self, delegation_id: str) -> list[str]:
        """Its events in words, behind the first: status and phase, or how it ended."""
        found = []
        for name, payload in (await told_of(self.world, delegation_id))[1:]:
            end = payload.get("reason", "") or name.removeprefix("DELEGATION_").lower()
            found.append(f"{payload['status']}/{payload['phase']}" if name == "DELEGATION_STATUS" else end)
        return found

    def of(self, kind: type) -> list[Any]:
        """What was heard of one kind."""
        return [fact for fact in self.heard if isinstance(fact, kind)]

    def behind(self, seconds: float) -> int:
        """A time from now."""
        return self.world.clock.now() + round(seconds * SECOND)

    async def until_pushed(self, count: int) -> None:
        """Waits until the agent was sent so many."""

        async def pushed() -> int:
            await self.world.clock.advance(0)
            return len(self.pushed)

        await eventually(pushed, lambda found: found >= count)

    async def events(self) -> list[tuple[str, dict[str, Any]]]:
        """All events of the organisation about messages: name and payload."""
        server = self.world.server.server
        wish = {"org_id": server.registry.orgs()[0].id, "seq": 0, "count": 10_000}
        rows = await server.store.rows("events_after", wish)
        return [(row[1], msgspec.json.decode(row[8])) for row in rows if row[1].startswith("MESSAGE_")]


def listen(world: MessageWorld) -> list[Any]:
    """Everything that rises from now on."""
    found: list[Any] = []

    def follow(_org_id: str, fact: Any) -> CommandSteps[None]:
        yield from ()
        return WriteSet(None, after_commit=lambda: found.append(fact))

    for kind in KINDS:
        world.server.server.store.subscribers.subscribe(kind, "a test", follow)
    return found


async def team(world: MessageWorld) -> Team:
    """Both of them; the agent is not there yet."""
    lead = await world.server.seat("Lead")
    return Team(world, lead, await world.server.seat("Ops", delivery_mode="push", url=URL), listen(world))


def handle(pushed: Pushed) -> str:
    """The reply handle that a push brings."""
    return str(pushed.body["params"]["message"]["metadata"]["instructions"]["reply_handle"])
