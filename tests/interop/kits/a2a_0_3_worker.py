"""A stock agent of a2a-sdk 0.3 with tasks, as that of a2a-sdk 1. Arguments: port, log, mode."""

import asyncio
import base64
import contextlib
import sys
from pathlib import Path

import httpx
import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, FilePart, FileWithBytes, Part, TextPart
from a2a.utils import new_task

port, log, mode = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]


def text_part(text: str) -> Part:
    """A part with a text."""
    return Part(root=TextPart(text=text))


class Worker(AgentExecutor):  # type: ignore[misc]
    """Does what the text of a message says."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        with log.open("a") as lines:
            lines.write(f"{context.task_id} {text}\n")
        is_new = context.current_task is None
        task = context.current_task or new_task(context.message)
        if is_new:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        verb, _, rest = text.partition(" ")
        if verb == "ask" and is_new:
            await updater.requires_input(updater.new_agent_message([text_part("Which colour?")]), final=True)
            return
        if verb == "fail":
            await updater.failed(updater.new_agent_message([text_part("no disk")]))
            return
        if verb == "reject":
            await updater.reject(updater.new_agent_message([text_part("not my job")]))
            return
        if verb == "slow":
            for count in range(int(rest.split()[0]) * 10):
                if count % 10 == 0:
                    await updater.add_artifact([text_part(f"{count // 10} ")], artifact_id="log", append=count > 0)
                with contextlib.suppress(TimeoutError):  # the work of an agent takes time
                    await asyncio.wait_for(asyncio.Event().wait(), 0.1)
            await updater.complete()
            return
        found = [part.root.file for part in context.message.parts if isinstance(part.root, FilePart)]
        files = [base64.b64decode(each.bytes) for each in found if isinstance(each, FileWithBytes)]
        if verb == "file":
            sizes = " ".join(str(len(each)) for each in files)
            content = base64.b64encode(b"\x00\x01" + b"".join(files)).decode()
            back = FileWithBytes(bytes=content, name="back.bin", mime_type="application/octet-stream")
            await updater.add_artifact([text_part(f"got {sizes}"), Part(root=FilePart(file=back))])
        else:
            await updater.add_artifact([text_part(f"done: {text}")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        with log.open("a") as lines:
            lines.write(f"{context.task_id} CANCEL\n")
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


card = AgentCard(
    name="Worker",
    description="Works.",
    url=f"http://127.0.0.1:{port}/",
    version="1",
    capabilities=AgentCapabilities(streaming=mode == "stream", push_notifications=mode == "push"),
    default_input_modes=["text"],
    default_output_modes=["text"],
    skills=[],
)
configs = InMemoryPushNotificationConfigStore()
handler = DefaultRequestHandler(
    agent_executor=Worker(),
    task_store=InMemoryTaskStore(),
    push_config_store=configs,
    push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
)
app = A2AStarletteApplication(agent_card=card, http_handler=handler).build()
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
