"""A2A tasks while the server is killed again and again: none is lost or doubled, and each webhook hears the end."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import SystemClock
from testing.ports import free_port
from testing.processes import Process, client, serving
from testing.push_agents import HttpAgent, http_agent, plain
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.conformance_agent import ConformanceAgent
from tests.requirements import requirement

IS_SHORT = int(os.environ.get("MOLECULE_TEST_STEPS", "1000")) <= 150
TASKS, KILLS = (50, 5) if IS_SHORT else (500, 50)
_AT_ONCE = 8
_RETRY_SECONDS = 0.1
_TASK_SECONDS = 4.0
# A test asks far more often than a client.
ENVIRONMENT = {
    "MOLECULE_PUSH_NETWORKS": "127.0.0.0/8",
    "MOLECULE_LIMIT_REQUESTS_PER_MINUTE": "1000000",
    "MOLECULE_LIMIT_SENDS_PER_MINUTE": "1000000",
    "MOLECULE_LIMIT_ORG_SENDS_PER_MINUTE": "1000000",
}
COMPLETED = "TASK_STATE_COMPLETED"


class Storm:
    """Clients that begin tasks, each with a key of its own, and repeat what they got no answer to."""

    def __init__(self, api: ApiClient, workspace_id: str, hook: str) -> None:
        self._api = api
        self._path = f"/workspaces/{workspace_id}/a2a"
        self._hook = hook
        self._clock = SystemClock()
        self.accepted: dict[int, set[str]] = {}

    async def call(self, method: str, params: dict[str, Any], key: str = "") -> Any:
        """One request, repeated until there is an answer."""
        headers = {"a2a-version": "1.0", **({"idempotency-key": key} if key else {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        while True:
            try:
                answer = await self._api.call("POST", self._path, body=body, headers=headers)
            except (NoAnswerError, ApiError):
                await self._clock.wait(asyncio.get_running_loop().create_future(), _RETRY_SECONDS)
                continue
            assert "result" in answer, answer
            return answer["result"]

    async def begin(self, number: int, turn: asyncio.Semaphore) -> None:
        """Begin a task; each third client asks twice, as after a lost answer."""
        parts = [{"text": f"task {number}"}]
        sent = {"messageId": f"tck-complete-task-{number}", "role": "ROLE_USER", "parts": parts}
        configuration = {"returnImmediately": True, "taskPushNotificationConfig": {"url": self._hook}}
        async with turn:
            for _ in range(2 if number % 3 == 0 else 1):
                params = {"message": sent, "configuration": configuration}
                result = await self.call("SendMessage", params, f"storm-{number}")
                self.accepted.setdefault(number, set()).add(result["task"]["id"])

    async def states(self) -> dict[str, str]:
        """The state of each task that the server lists, all pages."""
        found, token = dict[str, str](), ""
        while True:
            page = await self.call("ListTasks", {"pageSize": 100, "pageToken": token})
            for each in page["tasks"]:
                assert each["id"] not in found
                found[each["id"]] = each["status"]["state"]
            token = page["nextPageToken"]
            if not token:
                return found


class KilledServer:
    """A server process that is killed and started again on the same port and folder."""

    def __init__(self, state: Path, port: int) -> None:
        self._state = state
        self._port = port
        self.killing: asyncio.Event = asyncio.Event()
        self.running: asyncio.Event = asyncio.Event()
        self.lives = 0

    async def run(self) -> None:
        """Serve, life after life, until the task is cancelled."""
        while True:
            self.killing.clear()
            async with serving(self._state, self._port, **ENVIRONMENT) as process:
                self.lives += 1
                self.running.set()
                await self._until_killed(process)

    async def _until_killed(self, process: Process) -> None:
        await self.killing.wait()
        self.running.clear()
        await process.kill()

    async def kill(self) -> None:
        """Kill it, and wait until the next one listens."""
        lives = self.lives
        self.killing.set()

        async def look() -> int:
            return self.lives

        await eventually(look, lambda found: found > lives, PROCESS_START_SECONDS)


@pytest.mark.long
@requirement("HK1", "P1", "P2")
async def test_no_task_is_lost_or_doubled_while_the_server_is_killed(tmp_path: Path) -> None:
    port = free_port()
    server = KilledServer(tmp_path, port)
    life = asyncio.create_task(server.run())
    async with asyncio.timeout(PROCESS_START_SECONDS):
        await server.running.wait()
    async with http_agent(HttpAgent()) as receiver, client(port) as admin:
        receiver.reply = answer_nothing
        seat = await admin.post("/workspaces", {"name": "Ops"})
        org_id = (await admin.get("/orgs"))[0]["id"]
        person = await admin.post(f"/orgs/{org_id}/people", {"name": "A client", "role": "operator"})
        url = f"http://127.0.0.1:{port}"
        own, caller = ApiClient(url, seat["connection"]["auth_token"]), ApiClient(url, person["auth_token"])
        agent = asyncio.create_task(ConformanceAgent(own, seat["id"]).run())
        storm, turn = Storm(caller, seat["id"], receiver.url), asyncio.Semaphore(_AT_ONCE)
        begun = asyncio.gather(*(storm.begin(number, turn) for number in range(TASKS)))

        for kill in range(KILLS):
            await until_accepted(storm, (kill + 1) * TASKS // (KILLS + 1))
            await server.kill()
        await begun
        states = await eventually(
            storm.states,
            lambda found: set(found.values()) == {COMPLETED},
            _TASK_SECONDS * TASKS + PROCESS_START_SECONDS,
        )

        async def ended() -> set[str]:
            return {task_id for each in receiver.pushed if (task_id := completed_task(each.body)) is not None}

        heard = await eventually(ended, lambda found: len(found) >= TASKS, _TASK_SECONDS * TASKS)
        for task in (agent, life):
            task.cancel()
        await asyncio.gather(agent, life, return_exceptions=True)
        await own.close()
        await caller.close()

    ids = [each for found in storm.accepted.values() for each in found]
    assert len(ids) == len(set(ids)) == TASKS  # each key is one task
    assert set(states) == set(ids) == heard
    assert server.lives == KILLS + 1


async def until_accepted(storm: Storm, count: int) -> None:
    """Wait until so many tasks have an answer."""

    async def look() -> int:
        return len(storm.accepted)

    await eventually(look, lambda found: found >= count, PROCESS_START_SECONDS)


async def answer_nothing(_pushed: object) -> tuple[int, dict[str, str], bytes]:
    """What the receiver answers."""
    return plain(204)


def completed_task(body: dict[str, Any]) -> str | None:
    """Return the task that a notification says has completed."""
    task, update = body.get("task", {}), body.get("statusUpdate", {})
    if task.get("status", {}).get("state") == COMPLETED:
        return str(task["id"])
    return str(update["taskId"]) if update.get("status", {}).get("state") == COMPLETED else None
