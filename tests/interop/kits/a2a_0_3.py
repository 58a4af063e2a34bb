"""A stock agent of a2a-sdk 0.3, run by the interpreter of that SDK: it counts the messages of each context."""

import sys
from collections import Counter

import uvicorn
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard
from a2a.utils import new_agent_text_message


class Counting(AgentExecutor):  # type: ignore[misc]
    """Answers each message with its number in its context."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self.seen[context.context_id] += 1
        text = f"{self.seen[context.context_id]}: {context.get_user_input()}"
        await event_queue.enqueue_event(new_agent_text_message(text, context.context_id, context.task_id))

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


port = int(sys.argv[1])
card = AgentCard(
    name="Counting",
    description="Counts the messages of each context.",
    url=f"http://127.0.0.1:{port}/",
    version="1",
    capabilities=AgentCapabilities(),
    default_input_modes=["text"],
    default_output_modes=["text"],
    skills=[],
)
handler = DefaultRequestHandler(agent_executor=Counting(), task_store=InMemoryTaskStore())
app = A2AStarletteApplication(agent_card=card, http_handler=handler).build()
uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
