"""A stock client of a2a-sdk 1 whose task waits for an approval: it follows the task, and may decide for its person.

Arguments: the base address of a workspace, the binding, and the decision, or nothing to leave it to others. A2A_TOKEN
has the credential. It prints what it saw.
"""

import asyncio
import json
import os
import sys
import uuid

import httpx
from a2a.client import ClientConfig, create_client
from a2a.helpers import get_artifact_text
from a2a.types import (
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    SubscribeToTaskRequest,
    TaskState,
)

BASE, BINDING, DECISION = sys.argv[1:]
APPROVAL = "https://molecule.dev/ext/approval/v1"
FOR_PERSON = "until a person has decided"
ENDED = (TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_REJECTED)


def message(text: str, task_id: str = "") -> Message:
    return Message(message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], task_id=task_id)


async def main() -> None:
    headers = {"Authorization": f"Bearer {os.environ['A2A_TOKEN']}"}
    seen: list[list[str]] = []
    async with httpx.AsyncClient(headers=headers, timeout=60) as http:
        config = ClientConfig(streaming=True, httpx_client=http, supported_protocol_bindings=[BINDING])
        client = await create_client(BASE, config)
        answered: set[str] = set()

        async def handle(event: StreamResponse, task_id: str) -> int:
            """Note what an event shows, and do what the task waits for; return its state."""
            kind = event.WhichOneof("payload")
            if kind not in ("task", "status_update"):
                return 0
            found = event.task if kind == "task" else event.status_update
            state, text = found.status.state, "".join(part.text for part in found.status.message.parts)
            entry = [str(TaskState.Name(state)), text]
            if entry not in seen[-1:]:
                seen.append(entry)
            is_approval = state == TaskState.TASK_STATE_AUTH_REQUIRED and FOR_PERSON in text and DECISION
            if is_approval and "approval" not in answered:
                answered.add("approval")
                deciding = message("", task_id)
                decision = {"approval_id": found.metadata[APPROVAL]["approval_id"], "decision": DECISION}
                deciding.metadata.update({APPROVAL: decision})
                await send(deciding)
            if state == TaskState.TASK_STATE_INPUT_REQUIRED and "question" not in answered:
                answered.add("question")
                await send(message("Blue", task_id))
            return int(state)

        async def send(sent: Message) -> None:
            """Send a message about the task, and read the beginning of its stream: the subscription has the rest."""
            stream = client.send_message(SendMessageRequest(message=sent))
            async for _ in stream:
                break

        first = client.send_message(SendMessageRequest(message=message("Paint it and send the invoice")))
        task_id, state = "", 0
        async for event in first:
            task_id = task_id or event.task.id
            state = await handle(event, task_id)
            break
        while state not in ENDED:
            async for event in client.subscribe(SubscribeToTaskRequest(id=task_id)):
                state = await handle(event, task_id) or state
        task = await client.get_task(GetTaskRequest(id=task_id))
    result = get_artifact_text(task.artifacts[0]) if task.artifacts else ""
    sys.stdout.write(json.dumps({"seen": seen, "state": TaskState.Name(task.status.state), "result": result}))


asyncio.run(main())
