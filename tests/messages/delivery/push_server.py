"""A server with a stand-in for its network. The test moves the time."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from testing.clocks import FakeClock
from testing.push_agents import PushNetwork
from testing.running_server import Running, Seat
from testing.waits import eventually

URL = "https://agent.example/a2a"


class PushServer(NamedTuple):
    """A server, a person who writes, an agent that is pushed to, and the time."""

    server: Running
    person: ApiClient
    clock: FakeClock
    net: PushNetwork
    ops: Seat

    async def say(self, text: str, *, to: Seat | None = None, patience: int = 0, **params: Any) -> Any:
        """A message of the person; its receipt or answer. By default nobody waits for the agent."""
        message = {"role": "user", "parts": [{"kind": "text", "text": text}]}
        body = {"jsonrpc": "2.0", "id": "mine", "method": "message/send", "params": {"message": message, **params}}
        seat = to or self.ops
        headers = {"x-timeout": str(patience)}
        return await self.person.call("POST", f"/workspaces/{seat.id}/a2a", body=body, headers=headers)

    async def ask(self, text: str, **more: Any) -> str:
        """A message whose id is all that is wanted. A quick agent may have answered it already."""
        told = await self.say(text, **more)
        if "queue_id" in told:
            return str(told["queue_id"])
        seat = more.get("to") or self.ops
        newest = await self.person.get(f"/workspaces/{seat.id}/activity", type="a2a_receive", limit=1)
        return str(newest[0]["id"])

    async def queue(self, activity_id: str, *, seat: Seat | None = None) -> Any:
        """How a message stands."""
        return await self.person.get(f"/workspaces/{(seat or self.ops).id}/a2a/queue/{activity_id}")

    async def stands(self, activity_id: str, status: str, *, seat: Seat | None = None) -> Any:
        """Waits until a message stands so."""
        return await eventually(lambda: self.queue(activity_id, seat=seat), lambda found: found["status"] == status)

    async def ticks(self, activity_id: str, *, seat: Seat | None = None) -> Any:
        """What became of a message."""
        return await self.person.get(f"/workspaces/{(seat or self.ops).id}/messages/{activity_id}/ticks")

    async def letters(self) -> Any:
        """The dead letters of the agent."""
        return (await self.person.get(f"/workspaces/{self.ops.id}/dead-letters"))["dead_letters"]

    async def until_pushed(self, count: int, *, url: str = URL) -> None:
        """Waits until an agent was sent so many."""

        async def pushed() -> int:
            await self.clock.advance(0)
            return len(self.net.of(url))

        await eventually(pushed, lambda found: found >= count)

    async def quiet(self) -> None:
        """Waits until no push is under way, and whoever was due has had a turn."""
        server = self.server.server

        async def resting() -> bool:
            await self.clock.advance(0)
            due = await server.store.rows("due_targets", {"count": 1})
            return server.delivery.push_dispatcher.in_flight_count == 0 and not (due and due[0][1] <= self.clock.now())

        await eventually(resting, bool)

    async def tries(self, count: int, seconds: float = 301) -> None:
        """Lets so many further tries happen, each after the longest back-off."""
        for _ in range(count):
            before = len(self.net.pushed)
            await self.clock.advance(seconds)
            await self.until_pushed(before + 1)
            await self.quiet()
