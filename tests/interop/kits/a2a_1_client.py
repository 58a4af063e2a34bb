"""A stock client of a2a-sdk 1, run by the interpreter of that SDK; it prints what it saw.

Arguments: the base address of a workspace, the binding, and the address of a webhook. A2A_TOKEN has the credential.
"""

import asyncio
import json
import os
import sys
import uuid

import httpx
from a2a.client import Client, ClientConfig, create_client
from a2a.helpers import get_artifact_text
from a2a.types import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)

BASE, BINDING, HOOK = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {os.environ['A2A_TOKEN']}"}


def message(script: str, *parts: Part, task_id: str = "") -> SendMessageRequest:
    """A message whose id tells the agent what to do."""
    found = Message(
        message_id=f"{script}-{uuid.uuid4()}",
        role=Role.ROLE_USER,
        parts=parts or [Part(text="Please do it")],
        task_id=task_id,
    )
    return SendMessageRequest(message=found)


def state(task: Task) -> str:
    return str(TaskState.Name(task.status.state))


def kind(event: StreamResponse) -> str:
    return str(event.WhichOneof("payload"))


async def main() -> None:
    seen: dict[str, object] = {}
    async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http:

        async def connect(*, streaming: bool) -> Client:
            config = ClientConfig(streaming=streaming, httpx_client=http, supported_protocol_bindings=[BINDING])
            return await create_client(BASE, config)

        client, streaming = await connect(streaming=False), await connect(streaming=True)

        async def send(request: SendMessageRequest) -> Task:
            return [event async for event in client.send_message(request)][-1].task

        seen["card"] = client._card.name
        task = await send(message("tck-complete-task"))
        seen["send"] = [state(task), get_artifact_text(task.artifacts[0])]
        events = [event async for event in streaming.send_message(message("tck-stream-001"))]
        seen["stream"] = [kind(event) for event in events]
        seen["stream_end"] = TaskState.Name(events[-1].status_update.status.state)
        asked = await send(message("tck-input-required"))
        seen["asked"] = [state(asked), asked.status.message.parts[0].text]
        answered = await send(message("tck-complete-task", task_id=asked.id))
        seen["answered"] = [state(answered), answered.id == asked.id, len(answered.history)]
        open_task = await send(message("tck-input-required"))
        canceled = await client.cancel_task(CancelTaskRequest(id=open_task.id))
        seen["cancel"] = state(canceled)
        file_task = await send(
            message("tck-artifact-file", Part(raw=b"\x00\xff", filename="a.bin", media_type="application/octet-stream"))
        )
        part = file_task.artifacts[0].parts[0]
        seen["file"] = [part.filename, (await http.get(part.url)).text if part.url else part.raw.decode()]
        hooked = await send(message("tck-input-required"))
        config = TaskPushNotificationConfig(task_id=hooked.id, id="mine", url=HOOK, token="the-token")
        config.authentication.scheme, config.authentication.credentials = "Bearer", "the-credentials"
        created = await client.create_task_push_notification_config(config)
        found = await client.get_task_push_notification_config(
            GetTaskPushNotificationConfigRequest(task_id=hooked.id, id="mine")
        )
        configs = await client.list_task_push_notification_configs(
            ListTaskPushNotificationConfigsRequest(task_id=hooked.id)
        )
        seen["push"] = [
            created.id,
            found.url == HOOK,
            found.token,
            found.authentication.credentials,
            len(configs.configs),
        ]
        await send(message("tck-complete-task", task_id=hooked.id))
        deleting = DeleteTaskPushNotificationConfigRequest(task_id=answered.id, id="none")
        await client.delete_task_push_notification_config(deleting)
        got = await client.get_task(GetTaskRequest(id=hooked.id))
        listed = await client.list_tasks(ListTasksRequest(page_size=100))
        seen["get"] = [state(got), got.id == hooked.id]
        seen["listed"] = sorted([each.id for each in listed.tasks]) == sorted(
            [*{task.id, events[0].task.id, asked.id, open_task.id, file_task.id, hooked.id}]
        )
        seen["hooked"] = hooked.id
    sys.stdout.write(json.dumps(seen))


asyncio.run(main())
