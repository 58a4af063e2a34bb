"""An agent that is sent instructions, and the senders that write to it."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any
from xml.etree import ElementTree as ET

from molecule_core.client.api import ApiClient
from testing.clocks import FakeClock
from testing.running_server import Running, Seat

Telling = Callable[..., AbstractAsyncContextManager["InstructedAgent"]]
CARD = {"name": "Ops", "loaded_mcp_tools": ["reply_to_workspace", "inbox_pop", "chat_history"]}


class InstructedAgent:
    """A server, an agent's seat that is taken, a peer, and a person who writes."""

    def __init__(self, server: Running, seat: Seat, peer: Seat, person: ApiClient, clock: FakeClock) -> None:
        self.server = server
        self.seat = seat
        self.peer = peer
        self.person = person
        self.clock = clock

    async def register(self, **card: Any) -> None:
        """The agent takes its seat, as after a restart."""
        body = {"id": self.seat.id, "agent_card": {**CARD, **card}, "delivery_mode": "poll"}
        await self.seat.api.post("/registry/register", body)

    async def ask(self, text: str = "hi", *, intent: str = "request") -> str:
        """The person writes to the agent; returns the message's id."""
        return str((await self.person.send(self.seat.id, text, intent=intent))["activity_id"])

    async def ask_as_peer(self, text: str = "hi") -> str:
        """The peer does."""
        return str((await self.peer.api.send(self.seat.id, text))["activity_id"])

    async def read(self, api: ApiClient | None = None, **query: Any) -> list[dict[str, Any]]:
        """Rows of the agent's log, read by itself unless somebody else is named."""
        rows: list[dict[str, Any]] = await (api or self.seat.api).get(f"/workspaces/{self.seat.id}/activity", **query)
        return rows

    async def taken(self, include: str = "instructions", **query: Any) -> dict[str, Any]:
        """The next message, claimed and acknowledged."""
        (row,) = await self.read(claim=60, limit=1, include=include, **query)
        await self.seat.api.post(f"/workspaces/{self.seat.id}/activity/ack", {"activity_id": row["id"], "attempt": 1})
        return row

    async def told(self, text: str = "hi", **query: Any) -> dict[str, Any]:
        """What is said with a new message of the person."""
        await self.ask(text)
        instructions: dict[str, Any] = (await self.taken(**query))["instructions"]
        return instructions

    async def stored(self, activity_id: str) -> dict[str, Any]:
        """A row as persons read it."""
        return next(row for row in await self.read(self.person) if row["id"] == activity_id)


def text_of(row: dict[str, Any]) -> str:
    """The text of a message as a reader is shown it."""
    return str(row["request_body"]["params"]["message"]["parts"][0]["text"])


def inside(text: str) -> tuple[str, str]:
    """The instructions and the body in a text."""
    root = ET.fromstring(f"<channel>{text}</channel>")
    assert [child.tag for child in root] == ["instructions", "body"]
    return root[0].text or "", root[1].text or ""
