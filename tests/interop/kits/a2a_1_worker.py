"""A stock agent of a2a-sdk 1 with tasks: it works slowly, asks, sends files, is cancelled. Arguments: port, log, mode.

Each execution is a line of the log, so that a test sees work that was done twice. Mode: stream, poll or push."""

import asyncio
import contextlib
import sys
from pathlib import Path

import httpx
import uvicorn
from a2a.helpers import new_task_from_user_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import (
    BasePushNotificationSender,
    InMemoryPushNotificationConfigStore,
    InMemoryTaskStore,
    TaskUpdater,
)
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Part, TaskState
from starlette.applications import Starlette

port, log, mode = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]


class Worker(AgentExecutor):  # type: ignore[misc]
    """Does what the text of a message says."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        text = context.get_user_input()
        with log.open("a") as lines:
            lines.write(f"{context.task_id} {text}\n")
        is_new = context.current_task is None
        task = context.current_task or new_task_from_user_message(context.message)
        if is_new:
            await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        await updater.start_work()
        verb, _, rest = text.partition(" ")
        if verb == "ask" and is_new:
            await updater.requires_input(updater.new_agent_message([Part(text="Which colour?")]))
            return
        if verb == "fail":
            await updater.failed(updater.new_agent_message([Part(text="no disk")]))
            return
        if verb == "reject":
            await updater.reject(updater.new_agent_message([Part(text="not my job")]))
            return
        if verb == "slow":
            for count in range(int(rest.split()[0]) * 10):
                if count % 10 == 0:
                    await updater.add_artifact([Part(text=f"{count // 10} ")], artifact_id="log", append=count > 0)
                with contextlib.suppress(TimeoutError):  # the work of an agent takes time
                    await asyncio.wait_for(asyncio.Event().wait(), 0.1)
            await updater.complete()
            return
        files = [bytes(part.raw) for part in context.message.parts if part.raw]
        if verb == "file":
            sizes = " ".join(str(len(each)) for each in files)
            part = Part(raw=b"\x00\x01" + b"".join(files), filename="back.bin", media_type="application/octet-stream")
            await updater.add_artifact([Part(text=f"got {sizes}"), part])
        else:
            await updater.add_artifact([Part(text=f"done: {text}")])
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        with log.open("a") as lines:
            lines.write(f"{context.task_id} CANCEL\n")
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.update_status(TaskState.TASK_STATE_CANCELED)


card = AgentCard(
    name="Worker",
    description="Works.",
    version="1",
    capabilities=AgentCapabilities(streaming=mode == "stream", push_notifications=mode == "push"),
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version=version)
        for version in ("1.0", "0.3")
    ],
    default_input_modes=["text"],
    default_output_modes=["text"],
)
configs = InMemoryPushNotificationConfigStore()
handler = DefaultRequestHandler(
    agent_executor=Worker(),
    task_store=InMemoryTaskStore(),
    agent_card=card,
    push_config_store=configs,
    push_sender=BasePushNotificationSender(httpx.AsyncClient(), configs),
)
routes = [*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True)]
uvicorn.run(Starlette(routes=routes), host="127.0.0.1", port=port, log_level="warning")
