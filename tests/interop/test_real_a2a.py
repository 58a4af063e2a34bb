"""Agents of the real a2a-sdk, of both lines of the protocol, as push agents: nothing of theirs knows Molecule."""

import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from testing.processes import started
from testing.running_server import Running, running
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.python_kits import A2A_KITS, Kit
from tests.requirements import requirement

pytestmark = [pytest.mark.long, pytest.mark.parametrize("kit", A2A_KITS, ids=[each.name for each in A2A_KITS])]


@contextlib.asynccontextmanager
async def agent_of(kit: Kit, folder: Path) -> AsyncIterator[str]:
    """The agent as a process of its own; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    async with started(str(kit.require().python), str(kit.program), str(port), env={}, cwd=folder):

        async def listens() -> bool:
            with socket.socket() as dialed:
                return dialed.connect_ex(("127.0.0.1", port)) == 0

        await eventually(listens, bool, PROCESS_START_SECONDS)
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server that may push to this machine and says how to answer."""
    place = str(tmp_path / "molecule.db")
    more: dict[str, Any] = {"push_networks": ("127.0.0.0/8",), "push_instructions_enabled": True}
    async with running("sqlite", place, tmp_path, **more) as found:
        yield found


@requirement("M24", "D2")
async def test_a_stock_agent_completes_delegations_and_remembers_the_conversation(
    kit: Kit, server: Running, tmp_path: Path
) -> None:
    async with agent_of(kit, tmp_path) as url:
        lead = await server.seat("Lead")
        worker = await server.seat("Worker", parent_id=lead.id, delivery_mode="push", url=url)
        found = []
        for task in ("count one", "count two"):
            body = {"target_id": worker.id, "task": task, "wait": 20}
            result = await lead.api.post(f"/workspaces/{lead.id}/delegate", body)
            found.append((result["state"], result["result"]))
    assert found == [("completed", "1: count one"), ("completed", "2: count two")]


@requirement("M24")
async def test_a_stock_agent_answers_a_person_and_a_peer_in_contexts_of_their_own(
    kit: Kit, server: Running, tmp_path: Path
) -> None:
    async with agent_of(kit, tmp_path) as url:
        lead, person = await server.seat("Lead"), await server.person()
        worker = await server.seat("Worker", parent_id=lead.id, delivery_mode="push", url=url)
        path = f"/workspaces/{worker.id}/a2a"
        texts = []
        for who, text in ((person, "hello"), (lead.api, "hi"), (person, "again")):
            message = {"role": "user", "parts": [{"kind": "text", "text": text}]}
            body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
            answer = await who.call("POST", path, body=body, headers={"x-timeout": "20"})
            texts.append(answer["result"]["parts"][0]["text"])
    assert texts == ["1: hello", "1: hi", "2: again"]
