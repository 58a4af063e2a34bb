"""The server dies of SIGKILL between a letter and its reader, at every point: no letter is lost, none comes twice, each
sender's come in order, and whoever sleeps is woken once."""

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import NoAnswerError
from testing.ports import free_port
from testing.processes import LISTENS, Process, client, environment, started
from testing.thread_world import BASE, Item
from testing.waits import bounded
from tests.crashing_server import BEFORE, BEHIND, COMMIT
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("moment", [BEFORE, COMMIT, BEHIND])
POSTED, READ, ENDED = "INSERT INTO thread_mail", "UPDATE thread_mail SET", "UPDATE thread_turns SET"
Call = Callable[[], Awaitable[Any]]


class Place:
    """A server with several lives; a thread, two agents below it, and the engine that runs them all."""

    def __init__(self, state: Path, port: int) -> None:
        self._fall = state.parent / "fall"
        self._state = state
        self._port = port
        self._token = ""
        self.root, self.agents = "", dict[str, str]()
        self._generations: dict[str, int] = {}

    @asynccontextmanager
    async def life(self) -> AsyncIterator[Process]:
        """A server that can be told where to fall."""
        env = environment(self._state, self._port, FALL=str(self._fall))
        async with started(sys.executable, "-m", "tests.crashing_server", "serve", env=env) as server:
            await server.says(LISTENS)
            if not self._token:
                await self._settle()
            yield server

    async def _settle(self) -> None:
        async with client(self._port) as admin:
            seat = await admin.post("/workspaces", {"name": "Ops"})
        self._token = seat["connection"]["auth_token"]
        started_so = {"base_instructions": BASE, "input": "Go"}
        self.root = (await self.post(f"/workspaces/{seat['id']}/threads", started_so))["thread_id"]
        await self.begin(self.root)
        for name in ("one", "two"):
            call = (await self.act(self.root, "spawn", name, task_name=name, message=f"Do {name}."))["call"]
            self.agents[name] = call["new_thread_id"]

    async def falls(self, moment: str, at: str, server: Process, work: Call) -> None:
        """The server dies of this work at a point; who asked it has no answer."""
        self._fall.write_text(f"{moment}|{at}")
        with pytest.raises(NoAnswerError):
            await bounded(work())
        assert await server.ended() == -9, server.said

    async def post(self, path: str, body: Any) -> Item:
        """One request."""
        async with client(self._port, self._token) as api:
            found: Item = await api.post(path, body)
        return found

    async def get(self, path: str) -> Item:
        """What there is to read."""
        async with client(self._port, self._token) as api:
            found: Item = await api.get(path)
        return found

    async def act(self, thread_id: str, verb: str, call_id: str, **body: Any) -> Item:
        """A call of a tool; the same again does nothing."""
        return await self.post(f"/threads/{thread_id}/agents/{verb}", {"call_id": call_id, **body})

    async def begin(self, thread_id: str) -> list[str]:
        """The engine begins what waits for it, or goes on with it; the letters that the model sees."""
        claim = await self.post(f"/threads/{thread_id}/claim", {"owner": "engine"})
        self._generations[thread_id] = claim["generation"]
        where = f"/threads/{thread_id}/turns/{claim['open_turn']['turn_id']}/begin"
        seen = await self.post(where, {"generation": claim["generation"]})
        return [each["text"].split(">")[1].split("<")[0] for each in seen["items"] if each["role"] == "peer"]

    async def end(self, thread_id: str, final: str) -> Item:
        """The turn that runs ends; the same again changes nothing."""
        turn = (await self.get(f"/threads/{thread_id}/items?limit=500"))["items"]
        last = [each["turn_id"] for each in turn if each["type"] == "turn_started"][-1]
        body = {"generation": self._generations[thread_id], "status": "completed", "final": final}
        return await self.post(f"/threads/{thread_id}/turns/{last}/end", body)

    async def types(self, thread_id: str) -> list[str]:
        """What stands in a log."""
        return [each["type"] for each in (await self.get(f"/threads/{thread_id}/items?limit=500"))["items"]]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Nothing runs yet."""
    return Place(tmp_path / "state", free_port())


@requirement("TH7", "TH9")
async def test_letters_are_sent_once_and_read_once_in_the_order_of_each_sender(place: Place, moment: str) -> None:
    one, two = "one", "two"

    def sending() -> Awaitable[Item]:
        return place.act(place.root, "send", "a2", target=one, message="a2")

    async with place.life() as server:
        await place.act(place.root, "send", "a1", target=one, message="a1")
        await place.act(place.agents[two], "send", "b1", target="root/one", message="b1")
        await place.falls(moment, POSTED, server, sending)
    async with place.life() as server:
        assert (await sending())["call"]["status"] == "completed"
        await place.act(place.agents[two], "send", "b2", target="root/one", message="b2")
        await place.act(place.root, "send", "a3", target=one, message="a3")
        await place.falls(moment, READ, server, lambda: place.begin(place.agents[one]))
    async with place.life():
        read = await place.begin(place.agents[one])
        assert read == ["Do one.", "a1", "b1", "a2", "b2", "a3"]
        await place.end(place.agents[one], "read")
        await place.act(place.root, "followup", "more", target=one, message="more")
        assert await place.begin(place.agents[one]) == [*read, "more"]


@requirement("TH7", "TH3")
async def test_the_end_of_an_agent_wakes_its_idle_parent_once(place: Place, moment: str) -> None:
    agent = ""
    async with place.life() as server:
        agent = place.agents["one"]
        await place.end(place.root, "waiting for both")
        await place.begin(agent)
        await place.falls(moment, POSTED, server, lambda: place.end(agent, "found it"))
    async with place.life() as server:
        await place.end(agent, "found it")
        queued = (await place.get(f"/threads/{place.root}"))["queued"]
        assert len(queued) == 1
        await place.falls(moment, READ, server, lambda: place.begin(place.root))
    async with place.life():
        assert await place.begin(place.root) == ["found it"]
        await place.end(place.root, "thanks")
        stands = await place.get(f"/threads/{place.root}")
        assert (stands["idle"], stands["queued"]) == (True, [])
        assert (await place.types(agent)).count("turn_ended") == 1


@requirement("TH7", "TH9")
async def test_a_followup_gives_an_idle_agent_one_turn(place: Place, moment: str) -> None:
    def again() -> Awaitable[Item]:
        return place.act(place.root, "followup", "f", target="one", message="more")

    async with place.life() as server:
        agent = place.agents["one"]
        await place.begin(agent)
        await place.end(agent, "done")
        await place.falls(moment, POSTED, server, again)
    async with place.life() as server:
        await again()
        assert len((await place.get(f"/threads/{agent}"))["queued"]) == 1
        await place.begin(agent)
        await place.falls(moment, ENDED, server, lambda: place.end(agent, "more is done"))
    async with place.life():
        await place.end(agent, "more is done")
        assert (await place.get(f"/threads/{agent}"))["idle"]
        await place.end(place.root, "waiting for it")
        assert await place.begin(place.root) == ["done", "more is done"]
