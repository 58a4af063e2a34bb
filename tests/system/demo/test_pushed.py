"""The one who asks for nothing: a real listener, to which a real server pushes."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SystemClock
from molecule_core.demo.heartbeat import WorkspaceLostError
from molecule_core.demo.model import AgentAssignment, DemoWorkspace, Topics
from molecule_core.demo.push_agent import PushAgent
from testing.running_server import UNHURRIED, Running, running
from testing.running_server import Seat as Placed
from testing.waits import bounded, eventually

LISTENER = ("127.0.0.1/32",)
CRAFT = Topics(title="What it is about")
TASK = "Plan a landing page"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """How pushes work on every engine is shown elsewhere: one is enough. It tries again soon."""
    limits = msgspec.structs.replace(UNHURRIED, delegation_retry_seconds=1)
    place = str(tmp_path / "molecule.db")
    async with running("sqlite", place, tmp_path, limits=limits, push_networks=LISTENER) as one:
        yield one


@contextlib.asynccontextmanager
async def keeping(server: Running, placed: Placed, *, stumbles: bool = False) -> AsyncIterator["asyncio.Task[None]"]:
    """An agent in its seat, until the end of the block."""
    seat = DemoWorkspace(
        name="Legal",
        role="Reads.",
        behaviour="specialist",
        host="push",
        seconds=0,
        stumbles=stumbles,
        craft=(CRAFT,),
    )
    posting, seated = AgentAssignment(server.url, placed.id, placed.token, seat), asyncio.Event()
    async with ApiClient(server.url, placed.token) as api:
        life = asyncio.create_task(PushAgent(posting, api, SystemClock()).run(seated.set))
        try:
            await bounded(seated.wait())
            yield life
        finally:
            life.cancel()
            await asyncio.wait((life,))


async def ended(server: Running, lead: Placed, delegation_id: str) -> dict[str, Any]:
    """A delegation with all that happened to it, once it has ended."""

    async def look() -> dict[str, Any]:
        found: dict[str, Any] = await lead.api.get(f"/delegations/{delegation_id}")
        return found

    return await eventually(look, lambda found: found["delegation"]["settled_at"] is not None)


@pytest.mark.parametrize(("stumbles", "attempts"), [(False, 1), (True, 2)])
async def test_work_is_answered_at_the_first_push_or_the_one_after_a_stumble(
    server: Running, stumbles: bool, attempts: int
) -> None:
    lead, legal = await server.seat("Lead"), await server.seat("Legal")
    async with keeping(server, legal, stumbles=stumbles):
        told = {"target_id": legal.id, "task": TASK}
        ids = [(await lead.api.post(f"/workspaces/{lead.id}/delegate", told))["delegation_id"]]
        found = [await ended(server, lead, ids[0])]
        ids.append((await lead.api.post(f"/workspaces/{lead.id}/delegate", told))["delegation_id"])
        found.append(await ended(server, lead, ids[1]))

    assert ids[0] != ids[1]
    for each in found:
        assert (each["delegation"]["status"], each["delegation"]["attempt"]) == ("completed", attempts)
        assert each["result"].startswith("**What it is about**\n\n- landing page")
        failures = [line["detail"] for line in each["timeline"] if line["fact"] == "retry"]
        assert failures == ["HTTP 502: the proxy of this agent is restarting"] * (attempts - 1)


async def test_a_person_is_answered_in_the_chat_without_a_stumble(server: Running) -> None:
    legal = await server.seat("Legal")
    async with keeping(server, legal, stumbles=True):
        await server.admin.send(legal.id, TASK)

        async def chat() -> list[str]:
            page = await server.admin.get(f"/workspaces/{legal.id}/chat-history")
            return [line["content"] for line in page["messages"]]

        said = await eventually(chat, lambda lines: len(lines) == 2)

    assert said[1].startswith("**What it is about**")


async def test_an_agent_whose_seat_is_removed_ends(server: Running) -> None:
    legal = await server.seat("Legal")
    async with keeping(server, legal) as life:
        await server.admin.call("DELETE", f"/workspaces/{legal.id}", query={"confirm": "true"})
        with pytest.raises(WorkspaceLostError):
            await bounded(life)


HEAD = "POST /a2a HTTP/1.1\r\nHost: x\r\n"
NAMED = "X-Molecule-Activity: a-1\r\nX-Molecule-Attempt: {attempt}\r\nContent-Length: {length}\r\n\r\n{body}"


def push(body: str, attempt: str = "1", length: str | None = None) -> bytes:
    """A request as the server makes it."""
    told = NAMED.format(attempt=attempt, length=len(body) if length is None else length, body=body)
    return (HEAD + told).encode()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (push("{}"), b"HTTP/1.1 200"),
        (push("no JSON"), b"HTTP/1.1 400"),
        (push("{}", attempt="x"), b"HTTP/1.1 400"),
        (push("{}", attempt="9" * 30), b"HTTP/1.1 400"),
        (f"{HEAD}Content-Length: 2\r\n\r\n{{}}".encode(), b"HTTP/1.1 400"),
        (push("{}", length="9" * 12), b""),
        (push("{}", length="-1"), b""),
        (f"{HEAD}\r\n".encode(), b""),
        (b"\x00\r\n\r\n", b""),
        (b"x" * 200_000, b""),
    ],
)
async def test_whatever_else_is_sent_to_its_address_does_no_harm(
    server: Running, request_: bytes, status: bytes
) -> None:
    legal = await server.seat("Legal")
    async with keeping(server, legal) as life:
        url = (await server.admin.get(f"/workspaces/{legal.id}"))["url"]
        port = int(url.removesuffix("/a2a").rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_)
        with contextlib.suppress(OSError):
            await writer.drain()
            writer.write_eof()
        answer = b""
        with contextlib.suppress(OSError):
            answer = await bounded(reader.read())
        writer.close()
        assert not life.done()

    assert answer[: len(status)] == status
    assert bool(answer) == bool(status)
