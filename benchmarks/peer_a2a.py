"""The peer of row 4: an agent and a client of a2a-sdk, both its own, in its own ways, with the task stores it brings.

    python -m benchmarks.peer_a2a          reads a plan and works it off, as `benchmarks.load` does
    uvicorn benchmarks.peer_a2a:app        the agent; A2A_STORE is the address of its database, or empty: in memory

Runs in the environment of the peers (`scripts/setup --bench`), never in that of the product. The agent takes a task,
works on it and completes it with an artifact, as the SDK's samples do; all of that happens in the one process, so no
second request brings the answer. It is spared credentials, an inbox, events for others, and a deadline. The client
sends and waits in one call, without a stream, which is the cheapest of its ways, or follows each task by a stream.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from a2a.client import Client, ClientConfig, ClientFactory
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import DatabaseTaskStore, InMemoryTaskStore, TaskStore, TaskUpdater
from a2a.types import a2a_pb2 as a2a
from msgspec import Struct
from sqlalchemy.ext.asyncio import create_async_engine
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from benchmarks.load import DEADLINE_SECONDS, await_go, converse
from benchmarks.machine import percentile

STORE = "A2A_STORE"


class AgentPlan(Struct, frozen=True, kw_only=True):
    """What to do: `count` tasks over so many connections, each one at a time; `streams`: each followed by a stream."""

    port: int
    count: int
    connections: int
    text: str
    streams: bool = False


class AgentOutcome(Struct, frozen=True, kw_only=True):
    """What happened: tasks that came back completed, with the expected words."""

    replies: int
    seconds: float
    client_cpu: float
    trip_p50_ms: float
    trip_p99_ms: float


class Worker(AgentExecutor):  # type: ignore[misc]
    """An agent that answers at once, with what the client expects."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Takes a task, works on it, and completes it with an artifact."""
        task = a2a.Task(
            id=context.task_id,
            context_id=context.context_id,
            status=a2a.TaskStatus(state=a2a.TaskState.TASK_STATE_SUBMITTED),
            history=[context.message],
        )
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updater.start_work()
        await updater.add_artifact([a2a.Part(text=f"done: {context.get_user_input()}")], name="result")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """Nobody does."""
        raise NotImplementedError


def _card(port: int) -> a2a.AgentCard:
    address = a2a.AgentInterface(url=f"http://127.0.0.1:{port}/", protocol_binding="JSONRPC", protocol_version="1.0")
    return a2a.AgentCard(
        name="Worker",
        description="works",
        version="1",
        supported_interfaces=[address],
        capabilities=a2a.AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[a2a.AgentSkill(id="work", name="work", description="works", tags=["work"])],
    )


def _store() -> TaskStore:
    address = os.environ.get(STORE, "")
    return DatabaseTaskStore(create_async_engine(address)) if address else InMemoryTaskStore()


async def _healthy(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("ok")


def app() -> Starlette:
    """The agent's server, as the SDK says it is built."""
    store = _store()
    handler = DefaultRequestHandler(agent_executor=Worker(), task_store=store, agent_card=_card(0))

    @asynccontextmanager
    async def with_its_table(_app: Starlette) -> AsyncIterator[None]:
        if isinstance(store, DatabaseTaskStore):
            await store.initialize()
        yield

    routes = [Route("/health", _healthy), *create_jsonrpc_routes(handler, "/")]
    return Starlette(routes=routes, lifespan=with_its_table)


class Caller:
    """What the connections of the client share."""

    def __init__(self, plan: AgentPlan) -> None:
        self.plan = plan
        self.left = iter(range(plan.count))
        self.times: list[float] = []

    async def work(self) -> None:
        """One connection: a task, its result, the next task."""
        async with httpx.AsyncClient(timeout=DEADLINE_SECONDS) as http:
            client = ClientFactory(ClientConfig(streaming=self.plan.streams, httpx_client=http)).create(
                _card(self.plan.port)
            )
            for number in self.left:
                start = time.perf_counter()
                await self._delegate(client, f"{self.plan.text} {number:08}", number)
                self.times.append(time.perf_counter() - start)

    async def _delegate(self, client: Client, text: str, number: int) -> None:
        message = a2a.Message(role=a2a.Role.ROLE_USER, message_id=f"m-{number}", parts=[a2a.Part(text=text)])
        answers = [each async for each in client.send_message(a2a.SendMessageRequest(message=message))]
        last = answers[-1]
        status = last.status_update.status if self.plan.streams else last.task.status
        artifacts = [each.artifact_update.artifact for each in answers] if self.plan.streams else last.task.artifacts
        said = "".join(part.text for artifact in artifacts for part in artifact.parts)
        if status.state != a2a.TaskState.TASK_STATE_COMPLETED or said != f"done: {text}":
            raise ConnectionError(f"the agent's answer is not the expected one: {answers}")


async def run(plan: AgentPlan) -> AgentOutcome:
    """Does what is planned."""
    caller = Caller(plan)
    await_go()
    cpu, start = time.process_time(), time.perf_counter()
    async with asyncio.timeout(DEADLINE_SECONDS), asyncio.TaskGroup() as connections:
        for _ in range(plan.connections):
            connections.create_task(caller.work())
    times = [each * 1000 for each in caller.times]
    return AgentOutcome(
        replies=len(times),
        seconds=time.perf_counter() - start,
        client_cpu=time.process_time() - cpu,
        trip_p50_ms=percentile(times, 50),
        trip_p99_ms=percentile(times, 99),
    )


if __name__ == "__main__":
    converse(AgentPlan, run)
