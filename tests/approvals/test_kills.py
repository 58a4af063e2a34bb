"""The server dies of SIGKILL at every point of an approval's life: nothing is lost, nothing happens twice, and nobody
waits for ever."""

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from testing.approval_world import Item, decide, path
from testing.ports import free_port
from testing.processes import LISTENS, MOLECULE, Process, client, environment, started
from testing.waits import PROCESS_START_SECONDS, bounded, eventually
from tests.crashing_server import BEFORE, BEHIND, COMMIT
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("moment", [BEFORE, COMMIT, BEHIND])
INSERT, SAVE = "INSERT INTO approvals", "UPDATE approvals SET"
LEVEL_SECONDS, LONG = 2, 600
"""A level that ends by the clock, and one that no slow machine sees the end of."""


class Agent(NamedTuple):
    """A workspace, and the port of its server in all its lives."""

    id: str
    token: str
    port: int

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """One request of this agent."""
        async with client(self.port, self.token) as api:
            return await api.call(method, path, body=body, headers=headers)

    async def asks(self, **more: Any) -> Item:
        """Asks for leave; the same call, however often it is made."""
        body = {"action": "deploy", "details": {"to": "production"}, **more}
        item: Item = await self.call("POST", f"/workspaces/{self.id}/approvals", body, **{"idempotency-key": "once"})
        return item

    async def decides(self, item: Item, decision: str) -> Item:
        """Decides about what it was shown."""
        async with client(self.port, self.token) as api:
            return await decide(api, self.id, item, decision)

    async def told(self) -> list[str]:
        """What it was told about its requests: the decisions that stand in its inbox."""
        async with client(self.port, self.token) as api:
            rows = await api.get(f"/workspaces/{self.id}/activity", type="a2a_receive", limit=100)
        return [
            each["summary"] for each in rows if each["request_body"]["params"]["message"]["metadata"]["kind"] == KIND
        ]


KIND = "approval_decision"


class Place:
    """A world of processes: a server with several lives, and three agents below each other."""

    def __init__(self, state: Path, port: int) -> None:
        self.fall = state.parent / "fall"
        self._state = state
        self._port = port
        self.level = LONG
        """How long each level has, in seconds."""
        self.agents: list[Agent] = []

    @asynccontextmanager
    async def life(self) -> AsyncIterator[tuple[Process, ApiClient]]:
        """A server that can be told where to fall, and the one who may do everything there."""
        more = {"FALL": str(self.fall), "MOLECULE_LIMIT_APPROVAL_LEVEL_SECONDS": str(self.level)}
        env = environment(self._state, self._port, **more)
        async with started(sys.executable, "-m", "tests.crashing_server", "serve", env=env) as server:
            await server.says(LISTENS)
            async with client(self._port) as admin:
                if not self.agents:
                    await self._settle(admin)
                for each in self.agents:
                    await each.call("POST", "/registry/heartbeat", {"workspace_id": each.id})
                yield server, admin

    async def _settle(self, admin: ApiClient) -> None:
        parent = None
        for name in ("Top", "Lead", "Ops"):
            seat = await admin.post("/workspaces", {"name": name, "parent_id": parent})
            parent = seat["id"]
            self.agents.append(Agent(seat["id"], seat["connection"]["auth_token"], self._port))

    async def falls(self, moment: str, at: str, server: Process, work: Callable[[], Awaitable[Any]] | None) -> None:
        """The server dies of this work at a point, or by itself if there is none; who asked it has no answer."""
        self.fall.write_text(f"{moment}|{at}")
        if work is not None:
            with pytest.raises(NoAnswerError):
                await bounded(work())
        assert await server.ended() == -9, server.said


@pytest.fixture
def world(tmp_path: Path) -> Place:
    """Nothing runs yet."""
    return Place(tmp_path / "state", free_port())


async def once(admin: ApiClient, item: Item) -> Item:
    """The only approval there is, as it stands now."""
    found = (await admin.get("/approvals"))["approvals"]
    assert [each["approval_id"] for each in found] == [item["approval_id"]]
    stands: Item = await admin.get(path(item))
    return stands


@requirement("Q5", "P1")
async def test_a_request_is_there_once_and_its_asker_hears_the_decision(world: Place, moment: str) -> None:
    async with world.life() as (server, _):
        _, lead, ops = world.agents
        await world.falls(moment, INSERT, server, ops.asks)
    async with world.life() as (_, admin):
        item = await ops.asks()
        await once(admin, item)
        await lead.decides(item, "approve")
        assert await eventually(ops.told, lambda told: len(told) > 0)
        assert len(await ops.told()) == 1


@requirement("Q5", "Q4", "P1")
async def test_a_decision_is_made_once_and_whoever_waits_for_it_has_it(world: Place, moment: str) -> None:
    async with world.life() as (server, _):
        _, lead, ops = world.agents
        named = {"WORKSPACE_ID": ops.id, "MOLECULE_WORKSPACE_TOKEN": ops.token}
        env = {**environment(world.fall.parent, ops.port), **named, "PLATFORM_URL": f"http://127.0.0.1:{ops.port}"}
        asking = (MOLECULE, "approvals", "request", "deploy", "--reason", "it is time", "--wait", "50", "--json")
        async with started(*asking, env=env) as waiting:
            (item,) = await eventually(lambda: _open(ops), lambda found: len(found) == 1, PROCESS_START_SECONDS)
            await world.falls(moment, SAVE, server, lambda: lead.decides(item, "approve"))
            async with world.life() as (_, admin):
                await lead.decides(item, "approve")
                stands = await once(admin, item)
                assert [each["what"] for each in stands["path"]].count("approved") == 1
                assert (await waiting.ended(), json.loads(await waiting.output())["status"]) == (0, "approved")
                assert len(await ops.told()) <= 1


async def _open(agent: Agent) -> list[Item]:
    found: list[Item] = (await agent.call("GET", f"/workspaces/{agent.id}/approvals"))["approvals"]
    return found


@requirement("Q5", "P1")
async def test_a_use_counts_once(world: Place, moment: str) -> None:
    async with world.life() as (server, _):
        _, lead, ops = world.agents
        item = await ops.asks()
        await lead.decides(item, "approve")
        place, body = f"{path(item)}/use", {"action_hash": item["action_hash"]}
        await world.falls(moment, SAVE, server, lambda: ops.call("POST", place, body))
    async with world.life() as (_, admin):
        answers = [await _taken(ops, place, body) for _ in range(2)]
        assert answers == ([False, False] if moment == BEHIND else [True, False])
        assert [each["what"] for each in (await once(admin, item))["path"]].count("used") == 1


async def _taken(agent: Agent, place: str, body: dict[str, str]) -> bool:
    try:
        await agent.call("POST", place, body)
    except ApiError as error:
        assert (error.status, error.code) == (409, "approval_used")
        return False
    return True


@requirement("Q2", "Q5", "P1")
async def test_a_level_that_ends_by_the_clock_ends_once_and_the_next_one_is_asked(world: Place, moment: str) -> None:
    world.level = LEVEL_SECONDS
    async with world.life() as (server, _):
        _, _, ops = world.agents
        item = await ops.asks()
        await world.falls(moment, SAVE, server, None)
    async with world.life() as (_, admin):
        stands = await eventually(lambda: once(admin, item), lambda found: found["for_person"])
        passed = [each for each in stands["path"] if each["what"] == "escalated"]
        assert len({json.dumps(each["holder"]) for each in passed}) == len(passed)
        await decide(admin, ops.id, stands, "deny")
        assert len(await eventually(ops.told, lambda told: len(told) > 0)) == 1


@requirement("Q5", "P1")
async def test_an_end_by_the_clock_is_told_once(world: Place, moment: str) -> None:
    async with world.life() as (server, _):
        _, _, ops = world.agents
        item = await ops.asks(expires_in=1)
        await world.falls(moment, SAVE, server, None)
    async with world.life() as (_, admin):
        stands = await eventually(lambda: once(admin, item), lambda found: found["status"] == "expired")
        assert [each["what"] for each in stands["path"]].count("expired") == 1
        assert len(await eventually(ops.told, lambda told: len(told) > 0)) == 1
