"""Push notification configurations in both lines: what is stored, shown, refused and posted."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.common.errors import UnsafeUrl
from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.push_agents import PushNetwork, plain
from testing.running_server import Running, running
from testing.waits import eventually
from tests.requirements import requirement

HOOK = "https://client.example/hook?key=secret-in-url"
UNKNOWN_TASK, NO_TASK = -32001, "01a21cdc-02b8-7000-8000-000000000000"
CONFIG = {"url": HOOK, "token": "t0ken", "authentication": {"scheme": "Bearer", "credentials": "cr3d"}}
CONFIG_0_3 = {"url": HOOK, "token": "t0ken", "authentication": {"schemes": ["Bearer"], "credentials": "cr3d"}}


class Network(PushNetwork):
    """A network in which one host is not allowed."""

    async def check_url(self, url: str) -> None:
        if "internal" in url:
            raise UnsafeUrl(reason="the name resolves to 10.0.0.1, which is not public", advice="Use https.")


class Client:
    """A person's client of a workspace."""

    def __init__(self, server: Running, network: Network, seat: Any, person: Any) -> None:
        self.server = server
        self.network = network
        self.seat = seat
        self.person = person

    async def call(self, line: str, method: str, params: dict[str, Any]) -> Any:
        """One request by JSON-RPC: its result, or its error."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"a2a-version": line}
        answer = await self.person.call("POST", f"/workspaces/{self.seat.id}/a2a", body=body, headers=headers)
        assert ("result" in answer) != ("error" in answer)
        return answer.get("result", answer.get("error"))

    async def begin(self, **configuration: Any) -> Any:
        """A new task, or the error."""
        sent = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "please"}]}
        params = {"message": sent, "configuration": {"returnImmediately": True, **configuration}}
        return await self.call("1.0", "SendMessage", params)

    async def task_id(self, **configuration: Any) -> str:
        """The id of a new task."""
        return str((await self.begin(**configuration))["task"]["id"])

    async def answer(self) -> None:
        """The agent answers all its messages."""
        for row in await self.seat.api.claim(self.seat.id, wait=5, include="instructions"):
            body = {"handle": row["instructions"]["reply_handle"], "text": "done"}
            await self.seat.api.post(f"/workspaces/{self.seat.id}/reply", body)


@pytest.fixture
async def client(engine: Engine, place: str, tmp_path: Path) -> AsyncIterator[Client]:
    """A client, and a network that accepts what is posted."""
    network = Network()
    network.answers(HOOK, plain(204))
    limits = Limits(webhooks_per_task=2, requests_per_minute=10**6, sends_per_minute=10**6)
    more: dict[str, Any] = {"fetcher": network, "limits": limits, "push_instructions_enabled": True}
    async with running(engine, place, tmp_path, **more) as server:
        yield Client(server, network, await server.seat(), await server.person())


@requirement("HK2", "HK5")
async def test_a_configuration_is_created_read_listed_and_deleted_without_secrets(client: Client) -> None:
    task_id = await client.task_id()
    shown = {"taskId": task_id, "id": "mine", "url": HOOK, "authentication": {"scheme": "Bearer"}}
    named = {"taskId": task_id, "id": "mine"}

    created = await client.call("1.0", "CreateTaskPushNotificationConfig", {**CONFIG, **named})
    read = await client.call("1.0", "GetTaskPushNotificationConfig", named)
    listed = await client.call("1.0", "ListTaskPushNotificationConfigs", {"taskId": task_id})
    deleted = [await client.call("1.0", "DeleteTaskPushNotificationConfig", named) for _ in range(2)]
    gone = await client.call("1.0", "GetTaskPushNotificationConfig", named)

    assert created == read == shown
    assert listed == {"configs": [shown], "nextPageToken": ""}
    assert deleted == [{}, {}]
    assert gone["code"] == UNKNOWN_TASK


@requirement("HK2", "HK5")
async def test_the_older_line_has_its_own_shapes_and_a_default_name(client: Client) -> None:
    task_id = await client.task_id()
    config = {"id": "default", "url": HOOK, "authentication": {"schemes": ["Bearer"]}}
    shown = {"taskId": task_id, "pushNotificationConfig": config}
    method, params = "tasks/pushNotificationConfig", {"id": task_id}

    created = await client.call("0.3", f"{method}/set", {"taskId": task_id, "pushNotificationConfig": CONFIG_0_3})
    read = await client.call("0.3", f"{method}/get", params)
    listed = await client.call("0.3", f"{method}/list", params)
    deleted = await client.call("0.3", f"{method}/delete", {**params, "pushNotificationConfigId": "default"})

    assert created == read == shown
    assert listed == [shown]
    assert deleted is None


@requirement("HK5")
@pytest.mark.parametrize("method", ["Create", "Get", "List", "Delete"])
async def test_an_unknown_task_has_no_configurations(client: Client, method: str) -> None:
    name = f"{method}TaskPushNotificationConfig{'s' if method == 'List' else ''}"

    assert (await client.call("1.0", name, {"taskId": NO_TASK, "id": "x", "url": HOOK}))["code"] == UNKNOWN_TASK


@requirement("HK2")
@pytest.mark.parametrize(
    "config",
    [
        {"url": "https://db.internal/"},
        {},
        {"url": 5},
        {"url": HOOK, "token": "two\nlines"},
        {"url": HOOK, "authentication": {"credentials": "no scheme"}},
        {"url": HOOK, "id": "two words"},
    ],
)
async def test_a_bad_configuration_refuses_the_message_and_no_task_is_made(
    client: Client, config: dict[str, Any]
) -> None:
    refused = await client.begin(taskPushNotificationConfig={"token": "t", **config})
    listed = await client.call("1.0", "ListTasks", {})

    assert refused["code"] == -32602
    assert listed["tasks"] == []


@requirement("HK1")
async def test_a_message_brings_its_configuration_and_the_end_is_posted(client: Client) -> None:
    task_id = await client.task_id(taskPushNotificationConfig=CONFIG)

    async def states() -> list[Any]:
        bodies = [each.body for each in client.network.of(HOOK)]
        found = [body.get("task") or body.get("statusUpdate") for body in bodies]
        return [each["status"]["state"] for each in found if each is not None]

    await eventually(states, bool)
    await client.answer()
    seen = await eventually(states, lambda found: "TASK_STATE_COMPLETED" in found)
    rows = await eventually(
        lambda: client.server.admin.get(f"/workspaces/{client.seat.id}/webhooks"),
        lambda found: found["webhooks"][0]["state"] == "ended",
    )

    assert seen[0] == "TASK_STATE_SUBMITTED"
    row = rows["webhooks"][0]
    assert (row["task_id"], row["host"], row["failures"]) == (task_id, "client.example", 0)
    assert row["posted"] == len(client.network.of(HOOK))
    assert not any(each in msgspec.json.encode(rows).decode() for each in ("t0ken", "cr3d", "secret-in-url"))


@requirement("HK1")
async def test_the_older_line_gets_the_whole_task_with_its_result(client: Client) -> None:
    parts = [{"kind": "text", "text": "please"}]
    sent = {"kind": "message", "messageId": "m", "role": "user", "parts": parts}
    params = {"message": sent, "configuration": {"pushNotificationConfig": CONFIG_0_3}}
    task = await client.call("0.3", "message/send", params)
    await client.answer()

    async def last() -> Any:
        return client.network.of(HOOK)[-1] if client.network.of(HOOK) else None

    pushed = await eventually(last, lambda found: found and found.body["status"]["state"] == "completed")

    assert (pushed.body["kind"], pushed.body["id"]) == ("task", task["id"])
    assert pushed.body["artifacts"][0]["parts"] == [{"kind": "text", "text": "done"}]
    assert pushed.headers["x-a2a-notification-token"] == "t0ken"
    assert pushed.headers["authorization"] == "Bearer cr3d"


async def test_parameters_may_have_the_names_of_the_protobuf_file(client: Client) -> None:
    task_id = await client.task_id()
    created = await client.call("1.0", "CreateTaskPushNotificationConfig", {"task_id": task_id, "url": HOOK})
    read = await client.call("1.0", "GetTask", {"id": task_id, "history_length": 0})

    assert created["taskId"] == task_id
    assert "history" not in read
