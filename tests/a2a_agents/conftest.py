"""Fixtures of A2A agents of others."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.delegations.model import Delegation
from testing.a2a_agents import A2ANetwork, StubAgent
from testing.clocks import FakeClock
from testing.delegation_steps import begin, row_of
from testing.engines import Engine
from testing.message_world import MessageWorld
from testing.running_server import Seat, running
from testing.waits import eventually


class A2AWorld:
    """A server, a lead that delegates, and the network with A2A agents."""

    def __init__(self, world: MessageWorld, net: A2ANetwork, lead: Seat) -> None:
        self.world = world
        self.net = net
        self.lead = lead

    async def hire(self, agent: StubAgent, name: str = "Ops", **fields: Any) -> Seat:
        """Create a workspace whose agent is this one."""
        self.net.add(agent)
        return await self.world.server.seat(name, a2a_card_url=agent.card_url, **fields)

    async def delegate(self, seat: Seat, task: str = "sort the mail") -> str:
        """Delegate to a workspace; the id of the delegation."""
        return (await begin(self.world, self.lead, seat, task)).row.id

    async def row(self, delegation_id: str) -> Delegation:
        """Return a delegation, after letting due work run."""
        await self.world.clock.advance(0)
        return await row_of(self.world, delegation_id)

    async def until(self, delegation_id: str, state: str) -> Delegation:
        """Wait until a delegation has this status or phase."""
        return await eventually(
            lambda: self.row(delegation_id), lambda row: state in (row.status.value, row.phase.value)
        )

    async def until_sent(self, agent: StubAgent, count: int = 1) -> None:
        """Wait until an agent was sent so many messages."""

        async def sent() -> int:
            await self.world.clock.advance(0)
            return len(agent.messages())

        await eventually(sent, lambda found: found >= count)

    async def until_followed(self, seat: Seat, delegation_id: str) -> None:
        """Wait until the task of a delegation is stored."""

        async def stored() -> bool:
            await self.world.clock.advance(0)
            task = await self.world.server.server.a2a_agents.reader.task(seat.id, delegation_id)
            return task is not None and task.claim > 0

        await eventually(stored, bool)

    async def later(self, seconds: float) -> None:
        """Move the time."""
        await self.world.clock.advance(seconds)

    async def events(self, name: str) -> list[dict[str, Any]]:
        """The payloads of all events of one name."""
        server = self.world.server.server
        query = {"org_id": server.registry.orgs()[0].id, "seq": 0, "count": 10_000}
        rows = await server.store.rows("events_after", query)
        return [msgspec.json.decode(row[8]) for row in rows if row[1] == name]

    async def view(self, seat: Seat) -> dict[str, Any]:
        """The workspace as the API shows it."""
        found: dict[str, Any] = await self.world.person.get(f"/workspaces/{seat.id}")
        return found


@pytest.fixture
async def a2a(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[A2AWorld]:
    """A server and a lead."""
    net = A2ANetwork()
    async with running(engine, place, tmp_path, clock=clock, fetcher=net, push_instructions_enabled=True) as server:
        world = MessageWorld(server, await server.person(), clock, net)
        yield A2AWorld(world, net, await server.seat("Lead"))
