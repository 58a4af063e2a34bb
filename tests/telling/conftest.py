"""Servers that tell agents how to answer, with their time in the test's hand, on both engines."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from molecule_core.client.api import ApiClient
from tests.clocks import FakeClock
from tests.engines import Engine
from tests.running import Running, Seat, running

Telling = Callable[..., AbstractAsyncContextManager["Desk"]]
CARD = {"name": "Ops", "loaded_mcp_tools": ["reply_to_workspace", "inbox_pop", "chat_history"]}


class Desk:
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


@pytest.fixture
def telling(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> Telling:
    """Opens a desk on a server with these settings; the layer is on unless they say otherwise."""

    @asynccontextmanager
    async def open_desk(runtime: str = "claude-code", seat: dict[str, Any] | None = None, **settings: Any) -> Any:
        usual = {"push_instructions_enabled": True, "public_url": "https://molecule.example"}
        more = {"allowed_hosts": ("127.0.0.1",), **usual, **settings}
        async with running(engine, place, tmp_path, clock=clock, **more) as server:
            own = await server.seat("Ops", runtime=runtime, **(seat or {}))
            peer = await server.seat("Lead", role="leads")
            desk = Desk(server, own, peer, await server.person(), clock)
            await desk.register()
            yield desk

    return open_desk


@pytest.fixture
async def desk(telling: Telling) -> AsyncIterator[Desk]:
    """A desk of a deployment that has switched the layer on and nothing else."""
    async with telling() as opened:
        yield opened


def text_of(row: dict[str, Any]) -> str:
    """The text of a message as a reader is shown it."""
    return str(row["request_body"]["params"]["message"]["parts"][0]["text"])


def inside(text: str) -> tuple[str, str]:
    """The instructions and the body in a text."""
    root = ET.fromstring(f"<channel>{text}</channel>")
    assert [child.tag for child in root] == ["instructions", "body"]
    return root[0].text or "", root[1].text or ""
