"""A stock agent of a2a-sdk 1, run by the interpreter of that SDK: it counts the messages of each context."""

import sys
from collections import Counter

import uvicorn
from a2a.helpers import new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Role
from starlette.applications import Starlette


class Counting(AgentExecutor):  # type: ignore[misc]
    """Answers each message with its number in its context."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen[context.context_id] += 1
        text = f"{self.seen[context.context_id]}: {context.get_user_input()}"
        answer = new_text_message(text, context_id=context.context_id, role=Role.ROLE_AGENT)
        await event_queue.enqueue_event(answer)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


port = int(sys.argv[1])
card = AgentCard(
    name="Counting",
    description="Counts the messages of each context.",
    version="1",
    capabilities=AgentCapabilities(),
    supported_interfaces=[
        AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version=version)
        for version in ("1.0", "0.3")
    ],
    default_input_modes=["text"],
    default_output_modes=["text"],
)
handler = DefaultRequestHandler(agent_executor=Counting(), task_store=InMemoryTaskStore(), agent_card=card)
app = Starlette(routes=create_jsonrpc_routes(handler, "/", enable_v0_3_compat=True))
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
