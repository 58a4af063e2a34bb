"""A server with the instruction layer on, whose agents a test plays by hand. The test moves the time."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SECOND
from testing.clocks import FakeClock
from testing.push_agents import PushNetwork
from testing.running_server import Running, Seat
from testing.waits import eventually

REPLY_SECONDS = 120


class MessageWorld(NamedTuple):
    """A server, a person who asks, the time, and where agents are that are pushed to."""

    server: Running
    person: ApiClient
    clock: FakeClock
    net: PushNetwork

    async def ask(self, seat: Seat, text: str, by: Seat | None = None, **metadata: Any) -> str:
        """A message that wants an answer, of the person or of a peer; its id."""
        message = {"role": "user", "parts": [{"kind": "text", "text": text}], "metadata": metadata}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
        api = self.person if by is None else by.api
        sent = await api.call("POST", f"/workspaces/{seat.id}/a2a", body=body, headers={"x-timeout": "0"})
        return str(sent.get("activity_id") or (await self.newest(seat))["id"])

    async def newest(self, seat: Seat) -> dict[str, Any]:
        """The newest message of an inbox."""
        rows = await self.person.get(f"/workspaces/{seat.id}/activity", type="a2a_receive", limit=1)
        found: dict[str, Any] = rows[0]
        return found

    async def take(self, seat: Seat, limit: int = 100) -> list[dict[str, Any]]:
        """What an agent claims, with how to answer it."""
        path = f"/workspaces/{seat.id}/activity"
        rows: list[dict[str, Any]] = await seat.api.get(path, claim=600, wait=0, limit=limit, include="instructions")
        return rows

    async def ticks(self, seat: Seat, activity_id: str) -> list[str]:
        """What became of a message, in words."""
        found = await self.person.get(f"/workspaces/{seat.id}/messages/{activity_id}/ticks")
        return [told(each) for each in found["ticks"]]

    async def owed(self, seat: Seat, state: str = "all") -> list[dict[str, Any]]:
        """What a workspace owes or owed, oldest first."""
        page = await self.person.get(f"/workspaces/{seat.id}/obligations", state=state, limit=500)
        found: list[dict[str, Any]] = page["obligations"]
        return found[::-1]

    async def state(self, seat: Seat, activity_id: str) -> str:
        """How one message stands; empty if nothing is owed."""
        return next((each["state"] for each in await self.owed(seat) if each["activity_id"] == activity_id), "")

    async def stands(self, seat: Seat, activity_id: str, state: str) -> None:
        """Waits until a message stands so."""
        await eventually(lambda: self.state(seat, activity_id), lambda found: found == state)

    async def pass_time(self, seconds: float) -> None:
        """Lets what is under way end, moves time, and waits until whoever was due has had a turn."""
        await self.rest()
        await self.clock.advance(seconds)
        await self.rest()

    async def rest(self) -> None:
        """Waits until no push is under way and nothing is due."""
        server = self.server.server

        async def resting() -> bool:
            await self.clock.advance(0)
            timers = await server.store.rows("next_timers", {"count": 1000})
            targets = await server.store.rows("due_targets", {"count": 1})
            due = [*(row[2] for row in timers), *(row[1] for row in targets)]
            # Where processes share timers, one that is being looked after is put off for a while meanwhile.
            for workspace_id in [row[1] for row in timers if row[0] == "silence"]:
                wish = {"workspace_id": workspace_id, "now": self.clock.now(), "count": 1}
                due += [row[7] for row in await server.store.rows("obligations_due", wish)]
            return server.delivery.push_dispatcher.in_flight_count == 0 and all(at > self.clock.now() for at in due)

        await eventually(resting, bool)

    async def timers(self) -> list[tuple[str, float]]:
        """The timers of the watch: (workspace, seconds until it goes off)."""
        rows = await self.server.server.store.rows("next_timers", {"count": 1000})
        return [(key, (due - self.clock.now()) / SECOND) for kind, key, due in rows if kind == "silence"]

    async def chat(self, seat: Seat) -> list[dict[str, Any]]:
        """The lines of a chat."""
        found: list[dict[str, Any]] = (await self.person.get(f"/workspaces/{seat.id}/chat-history"))["messages"]
        return found


def told(tick: dict[str, Any]) -> str:
    """A tick in words."""
    attempt = f" {tick['attempt']}" if "attempt" in tick else ""
    reason = f" ({tick['reason']})" if "reason" in tick else ""
    return f"{tick['tick']}{attempt}{reason}"


def handle(row: dict[str, Any]) -> str:
    """The reply handle that stands with a message."""
    return str(row["instructions"]["reply_handle"])


async def reply(seat: Seat, handle: str, text: str, **more: Any) -> Any:
    """An answer by handle."""
    return await seat.api.post(f"/workspaces/{seat.id}/reply", {"handle": handle, "text": text, **more})


async def notify(seat: Seat, text: str, **more: Any) -> Any:
    """A line to the user."""
    return await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text, **more})


async def many_asked(world: MessageWorld, count: int, **fields: Any) -> tuple[Seat, list[dict[str, Any]]]:
    """A seat whose agent has taken so many messages, and acknowledged them."""
    ops = await world.server.seat("Ops", **fields)
    for number in range(count):
        await world.ask(ops, f"question {number}")
    rows = await world.take(ops)
    for row in rows:
        await ops.api.ack(ops.id, row)
    return ops, rows
