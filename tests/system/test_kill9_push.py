"""Kill the server in the middle of a push: the next one knows that the claims of the dead are void."""

import asyncio
import signal
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import NoAnswerError
from testing.ports import free_port
from testing.processes import client, serving
from testing.push_agents import HttpAgent, Pushed, Reply, http_agent, said
from testing.waits import PROCESS_START_SECONDS, bounded
from tests.requirements import requirement

# A lease is as long as a push may take and ten seconds more: nobody waits for the end of one here.
ENVIRONMENT = {
    "MOLECULE_PUSH_NETWORKS": "127.0.0.0/8",
    "MOLECULE_LIMIT_PUSH_SECONDS": "3600",
    "MOLECULE_LIMIT_REQUESTS_PER_MINUTE": "1000000",  # a test that waits asks very often
}


@pytest.fixture
def engine() -> str:
    """These processes keep their store in SQLite; PostgreSQL has its own crash proof (scripts/prove)."""
    return "sqlite"


class Slow(HttpAgent):
    """An agent that answers nobody before it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.came = asyncio.Event()
        self.free = asyncio.Event()
        self.reply = self._slowly

    async def _slowly(self, pushed: Pushed) -> Reply:
        self.came.set()
        if not self.free.is_set():
            await self.free.wait()
        return said(f"re: {pushed.text}")


@requirement("P1", "P2", "M21")
async def test_every_message_arrives_although_the_server_was_killed_in_the_middle_of_a_push(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with http_agent(Slow()) as agent:
        async with serving(state, port, **ENVIRONMENT) as server, client(port) as admin:
            ops = (await admin.post("/workspaces", {"name": "Ops", "url": agent.url}))["id"]
            first = asyncio.create_task(admin.send(ops, "0", message_id="m-0"))
            await bounded(agent.came.wait())
            for number in (1, 2):
                await bounded(admin.send(ops, str(number), message_id=f"m-{number}"))
            await server.kill()
            with pytest.raises(NoAnswerError):
                await bounded(first)
        before = [(each.text, each.attempt) for each in agent.pushed]
        agent.free.set()
        async with serving(state, port, **ENVIRONMENT), client(port) as admin:
            rows = await arrived(admin, ops, 3)
            again = await admin.send(ops, "0", message_id="m-0")
            ticks = await admin.get(f"/workspaces/{ops}/messages/{rows[0]['id']}/ticks")

    after = [(each.text, each.attempt) for each in agent.pushed[len(before) :]]
    assert before == [("0", 1)]
    assert after == [("0", 2), ("1", 1), ("2", 1)]
    assert len({each.activity for each in agent.pushed}) == 3
    assert again["result"]["parts"][0]["text"] == "re: 0"
    assert [tick["tick"] for tick in ticks["ticks"]] == ["stored", "handed_over", "handed_over", "acked", "answered"]


async def arrived(admin: Any, ops: str, count: int) -> list[dict[str, Any]]:
    """Waits until so many messages are completed; all rows of the inbox, oldest first."""
    async with asyncio.timeout(PROCESS_START_SECONDS):
        while True:
            rows = await admin.get(f"/workspaces/{ops}/activity", type="a2a_receive", limit=100)
            found = [await admin.get(f"/workspaces/{ops}/a2a/queue/{row['id']}") for row in rows]
            if [each["status"] for each in found].count("completed") == count:
                return list(reversed(rows))


@requirement("O1", "M21")
async def test_a_server_that_is_stopped_lets_go_of_its_pushes_so_that_the_next_one_goes_on_at_once(
    tmp_path: Path,
) -> None:
    state, port = tmp_path / "state", free_port()
    async with http_agent(Slow()) as agent:
        async with serving(state, port, **ENVIRONMENT) as server, client(port) as admin:
            ops = (await admin.post("/workspaces", {"name": "Ops", "url": agent.url}))["id"]
            sending = asyncio.create_task(admin.send(ops, "hi"))
            await bounded(agent.came.wait())
            server.send(signal.SIGTERM)
            assert await server.ended() == 0
            assert "Traceback" not in server.said
            await asyncio.gather(sending, return_exceptions=True)
        agent.free.set()
        async with serving(state, port, **ENVIRONMENT), client(port) as admin:
            await arrived(admin, ops, 1)
    assert [each.attempt for each in agent.pushed] == [1, 2]


@requirement("P1", "M18")
async def test_the_claim_of_an_agent_that_polls_outlives_the_server(tmp_path: Path) -> None:
    state, port = tmp_path / "state", free_port()
    async with serving(state, port, **ENVIRONMENT) as server, client(port) as admin:
        made = await admin.post("/workspaces", {"name": "Ops"})
        ops, token = made["id"], made["connection"]["auth_token"]
        await admin.send(ops, "hi")
        async with client(port, token) as agent:
            (row,) = await agent.claim(ops, lease=600)
        await server.kill()
    async with serving(state, port, **ENVIRONMENT), client(port, token) as agent:
        assert await agent.claim(ops, wait=0) == []
        await agent.ack(ops, row)
