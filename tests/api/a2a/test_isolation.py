"""Tasks and push configurations of others answer as ids that do not exist, in both lines of A2A."""

import os
import random
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from molecule_core.client.api import ApiClient
from testing.push_agents import PushNetwork
from testing.running_server import Running, Seat, running
from tests.requirements import requirement

UNKNOWN = "01a21cdc-02b8-7000-8000-000000000000"
HOOK = "https://client.example/hook"
_COMBINATIONS = 3000 if int(os.environ.get("MOLECULE_TEST_STEPS", "1000")) > 150 else 400


# Requests of the REST binding: the verb, what follows the task, and the body.
REST: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", "", {}),
    ("POST", ":cancel", {}),
    ("GET", ":subscribe", {}),
    ("POST", "/pushNotificationConfigs", {"url": HOOK}),
    ("GET", "/pushNotificationConfigs", {}),
    ("GET", "/pushNotificationConfigs/default", {}),
    ("DELETE", "/pushNotificationConfigs/default", {}),
]


class Asker(NamedTuple):
    """A holder of a credential, and the tasks and workspaces that are its own."""

    name: str
    api: ApiClient
    org: str


class OwnedTask(NamedTuple):
    """A task: whose it is, where it is, and its id."""

    owner: str
    workspace: Seat
    id: str


def message(task_id: str) -> dict[str, Any]:
    """A message of 1.0 that continues a task."""
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}], "taskId": task_id}


def message_0_3(task_id: str) -> dict[str, Any]:
    """A message of 0.3 that continues a task."""
    parts = [{"kind": "text", "text": "hi"}]
    return {"kind": "message", "messageId": "m", "role": "user", "parts": parts, "taskId": task_id}


def requests_about(task_id: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Each request that names a task: its line, its method, its parameters."""
    config = {"pushNotificationConfigId": "default"}
    return [
        ("1.0", "GetTask", {"id": task_id}),
        ("1.0", "CancelTask", {"id": task_id}),
        ("1.0", "SubscribeToTask", {"id": task_id}),
        ("1.0", "SendMessage", {"message": message(task_id), "configuration": {"returnImmediately": True}}),
        ("1.0", "SendStreamingMessage", {"message": message(task_id)}),
        ("1.0", "CreateTaskPushNotificationConfig", {"taskId": task_id, "id": "x", "url": HOOK}),
        ("1.0", "GetTaskPushNotificationConfig", {"taskId": task_id, "id": "default"}),
        ("1.0", "ListTaskPushNotificationConfigs", {"taskId": task_id}),
        ("1.0", "DeleteTaskPushNotificationConfig", {"taskId": task_id, "id": "default"}),
        *(("1.0", f"{verb} /tasks/{task_id}{rest}", body) for verb, rest, body in REST),
        ("0.3", "tasks/get", {"id": task_id}),
        ("0.3", "tasks/cancel", {"id": task_id}),
        ("0.3", "tasks/resubscribe", {"id": task_id}),
        ("0.3", "message/send", {"message": message_0_3(task_id)}),
        ("0.3", "message/stream", {"message": message_0_3(task_id)}),
        ("0.3", "tasks/pushNotificationConfig/set", {"taskId": task_id, "pushNotificationConfig": {"url": HOOK}}),
        ("0.3", "tasks/pushNotificationConfig/get", {"id": task_id, **config}),
        ("0.3", "tasks/pushNotificationConfig/list", {"id": task_id}),
        ("0.3", "tasks/pushNotificationConfig/delete", {"id": task_id, **config}),
    ]


class World:
    """Two organisations with the same workspaces, people and tasks."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.seats: list[Seat] = []
        self.askers: list[Asker] = []
        self.tasks: list[OwnedTask] = []

    async def build(self) -> None:
        """Make them; each sender has a task in each workspace that it may write to."""
        for name in ("One", "Two"):
            org_id = await self.server.org(name)
            lead = await self.server.seat(f"{name} lead", org_id=org_id)
            below = await self.server.seat(f"{name} below", org_id=org_id, parent_id=lead.id)
            deep = await self.server.seat(f"{name} deep", org_id=org_id, parent_id=below.id)
            self.seats += [lead, below, deep]
            for seat in (lead, below, deep):
                self.askers.append(Asker(f"workspace {seat.name}", seat.api, org_id))
            for number in range(2):
                person = await self.server.person(org_id=org_id)
                self.askers.append(Asker(f"person {number} of {name}", person, org_id))
                for seat in (lead, deep):
                    await self._begin(f"person {number} of {name}", person, seat)
            await self._begin(f"workspace {lead.name}", lead.api, below)
            await self._begin(f"workspace {below.name}", below.api, deep)

    async def _begin(self, owner: str, api: ApiClient, seat: Seat) -> None:
        parts = [{"text": f"a task of {owner}"}]
        sent = {"messageId": f"begin-{len(self.tasks)}", "role": "ROLE_USER", "parts": parts}
        configuration = {"returnImmediately": True, "taskPushNotificationConfig": {"url": HOOK, "token": "t"}}
        params = {"message": sent, "configuration": configuration}
        answer = await self.call(api, seat.id, "1.0", "SendMessage", params)
        self.tasks.append(OwnedTask(owner, seat, answer["result"]["task"]["id"]))

    async def call(self, api: ApiClient, seat_id: str, line: str, method: str, params: dict[str, Any]) -> Any:
        """One request, by JSON-RPC, or by REST if the method is a verb and a path."""
        verb, blank, path = method.partition(" ")
        body = params if blank else {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        sent = await api._http.request(
            verb if blank else "POST",
            f"{self.server.url}/workspaces/{seat_id}/a2a{path}",
            content=msgspec.json.encode(body) if body else None,
            headers={**api._headers, "A2A-Version": line, "Content-Type": "application/json"},
        )
        return {"status": sent.status_code, **sent.json()}


@pytest.fixture
async def world(tmp_path: Path) -> Any:
    """The world, on a server whose network accepts every notification."""
    network = PushNetwork()
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, fetcher=network) as server:
        world = World(server)
        await world.build()
        yield world


def masked(answer: dict[str, Any], task_id: str) -> str:
    """An answer without the id that was asked for."""
    return msgspec.json.encode(answer).decode().replace(task_id, "ID")


@requirement("HK5")
async def test_tasks_and_configurations_of_others_answer_as_unknown_ids(world: World) -> None:
    draw, seen = random.Random(30), dict[tuple[str, str, str, str], str]()
    others = [(asker, task) for asker in world.askers for task in world.tasks if task.owner != asker.name]
    for _ in range(_COMBINATIONS):
        asker, task = draw.choice(others)
        seat = task.workspace if draw.random() < 0.7 else draw.choice(world.seats)
        number = draw.randrange(len(requests_about(task.id)))
        line, method, params = requests_about(task.id)[number]

        answer = masked(await world.call(asker.api, seat.id, line, method, params), task.id)

        key = (asker.name, seat.id, line, method.replace(task.id, "ID"))
        if key not in seen:
            _, _, same = requests_about(UNKNOWN)[number]
            seen[key] = masked(await world.call(asker.api, seat.id, line, method, same), UNKNOWN)
        assert answer == seen[key], (asker.name, seat.name, method)
        assert '"error"' in answer


@requirement("HK5")
async def test_lists_show_only_the_tasks_of_their_caller(world: World) -> None:
    for asker in world.askers:
        for seat in world.seats:
            answer = await world.call(asker.api, seat.id, "1.0", "ListTasks", {"pageSize": 100})
            found = {each["id"] for each in answer.get("result", {}).get("tasks", [])}
            own = {each.id for each in world.tasks if (each.owner, each.workspace.id) == (asker.name, seat.id)}
            assert found == own, (asker.name, seat.name)


@requirement("HK5")
async def test_the_owner_of_a_task_finds_it_and_its_configuration_without_secrets(world: World) -> None:
    by_name = {each.name: each for each in world.askers}
    for task in world.tasks:
        api = by_name[task.owner].api
        got = await world.call(api, task.workspace.id, "1.0", "GetTask", {"id": task.id})
        params = {"taskId": task.id, "id": "default"}
        config = await world.call(api, task.workspace.id, "1.0", "GetTaskPushNotificationConfig", params)

        assert got["result"]["id"] == task.id
        assert config["result"] == {"taskId": task.id, "id": "default", "url": HOOK}
