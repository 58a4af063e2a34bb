"""A stock client of a2a-sdk 0.3, run by the interpreter of that SDK; it prints what it saw.

Arguments: the base address of a workspace, the transport, and the address of a webhook. A2A_TOKEN has the credential.
"""

import asyncio
import base64
import json
import os
import sys
import uuid

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.types import (
    FilePart,
    FileWithBytes,
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationAuthenticationInfo,
    PushNotificationConfig,
    Role,
    Task,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
)

BASE, TRANSPORT, HOOK = sys.argv[1:]
HEADERS = {"Authorization": f"Bearer {os.environ['A2A_TOKEN']}"}


def message(script: str, *parts: Part, task_id: str | None = None) -> Message:
    """A message whose id tells the agent what to do."""
    text = Part(root=TextPart(text="Please do it"))
    message_id = f"{script}-{uuid.uuid4()}"
    return Message(message_id=message_id, role=Role.user, parts=list(parts) or [text], task_id=task_id)


async def main() -> None:
    seen: dict[str, object] = {}
    async with httpx.AsyncClient(headers=HEADERS, timeout=60) as http:

        async def connect(*, streaming: bool) -> Client:
            config = ClientConfig(streaming=streaming, httpx_client=http, supported_transports=[TRANSPORT])
            return await ClientFactory.connect(BASE, config)

        client, streaming = await connect(streaming=False), await connect(streaming=True)

        async def send(request: Message) -> Task:
            return [event async for event in client.send_message(request)][-1][0]

        seen["card"] = (await client.get_card()).name
        task = await send(message("tck-complete-task"))
        seen["send"] = [task.status.state.value, task.artifacts[0].parts[0].root.text]
        events = [event async for event in streaming.send_message(message("tck-stream-001"))]
        seen["stream"] = [None if update is None else update.kind for _, update in events]
        seen["stream_end"] = [events[-1][0].status.state.value, events[-1][1].final]
        asked = await send(message("tck-input-required"))
        seen["asked"] = [asked.status.state.value, asked.status.message.parts[0].root.text]
        answered = await send(message("tck-complete-task", task_id=asked.id))
        seen["answered"] = [answered.status.state.value, answered.id == asked.id, len(answered.history)]
        open_task = await send(message("tck-input-required"))
        seen["cancel"] = (await client.cancel_task(TaskIdParams(id=open_task.id))).status.state.value
        content = base64.b64encode(b"\x00\xff").decode()
        sent = FilePart(file=FileWithBytes(bytes=content, name="a.bin", mime_type="application/octet-stream"))
        file_task = await send(message("tck-artifact-file", Part(root=sent)))
        file = file_task.artifacts[0].parts[0].root.file
        seen["file"] = [file.name, (await http.get(file.uri)).text]
        hooked = await send(message("tck-input-required"))
        authentication = PushNotificationAuthenticationInfo(schemes=["Bearer"], credentials="the-credentials")
        config = PushNotificationConfig(id="mine", url=HOOK, token="the-token", authentication=authentication)
        created = await client.set_task_callback(
            TaskPushNotificationConfig(task_id=hooked.id, push_notification_config=config)
        )
        found = await client.get_task_callback(
            GetTaskPushNotificationConfigParams(id=hooked.id, push_notification_config_id="mine")
        )
        stored = found.push_notification_config
        seen["push"] = [created.push_notification_config.id, stored.url == HOOK, stored.token or ""]
        await send(message("tck-complete-task", task_id=hooked.id))
        got = await client.get_task(TaskQueryParams(id=hooked.id))
        seen["get"] = [got.status.state.value, got.id == hooked.id]
        seen["hooked"] = hooked.id
    sys.stdout.write(json.dumps(seen))


asyncio.run(main())
