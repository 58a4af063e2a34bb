"""The load of row 4 over the A2A endpoint: clients that send tasks and wait for their ends, beside the workers.

    python -m benchmarks.a2a_delegating

Each connection of a source has one task under way, in A2A 1.0 and without any extension, as stock clients do. With
`streams` each task is a stream of its own (`SendStreamingMessage`), which the server ends with its connection; without,
a blocking `SendMessage` on a kept connection. Workers claim the messages and answer by handle, as in
`benchmarks.delegating`.
"""

import asyncio
import time
from functools import partial
from typing import cast

import msgspec
from msgspec import Struct

from benchmarks.delegating import DONE, Hand, Starts, TaskOutcome, TaskPlan, Tasks, Worker, work_off
from benchmarks.exchange import Exchange, head
from benchmarks.load import Seat, converse

_VERSION = b"a2a-version: 1.0\r\n\r\n"
_COMPLETED = "TASK_STATE_COMPLETED"


class A2APlan(TaskPlan, frozen=True, kw_only=True):
    """As `TaskPlan`; `streams`: each task is followed by a stream."""

    streams: bool = False


class _Part(Struct):
    text: str = ""


class _Artifact(Struct):
    parts: list[_Part]


class _Status(Struct):
    state: str


class _Task(Struct):
    id: str
    status: _Status
    artifacts: list[_Artifact] = []


class _ArtifactUpdate(Struct, rename="camel"):
    task_id: str
    artifact: _Artifact


class _StatusUpdate(Struct, rename="camel"):
    task_id: str
    status: _Status


class _Result(Struct, rename="camel"):
    task: _Task | None = None
    artifact_update: _ArtifactUpdate | None = None
    status_update: _StatusUpdate | None = None


class _Envelope(Struct):
    result: _Result


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def _request(tasks: Tasks, seat: Seat, number: int, method: str, task: str) -> bytes:
    """Return the request that sends a task to the worker whose turn it is."""
    message = {"messageId": f"m-{number}", "role": "ROLE_USER", "parts": [{"text": task}]}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": {"message": message}})
    target = tasks.plan.workers[number % len(tasks.plan.workers)]
    start = head("POST", f"/workspaces/{target.id}/a2a", seat.token, tasks.plan.port, len(body))
    return start.removesuffix(b"\r\n") + _VERSION + body


class A2AClient:
    """Sends tasks, one at a time."""

    def __init__(self, tasks: Tasks, seat: Seat) -> None:
        self.tasks = tasks
        self.seat = seat
        self.task = ""
        self.sent_at = 0.0

    def next_request(self, method: str) -> bytes | None:
        """Return the request of the next task; None if all have begun."""
        number = self.tasks.take()
        if number is None:
            return None
        self.task = f"{self.tasks.plan.text} {number:08}"
        self.sent_at = time.perf_counter()
        self.tasks.requests += 1
        return _request(self.tasks, self.seat, number, method, self.task)

    def ended(self, task_id: str, state: str, text: str) -> bool:
        """Count the end of the task. Return whether it is the expected one."""
        if state != _COMPLETED or text != DONE + self.task:
            self.tasks.fail(f"the task ended as {state} with {text!r}, expected {DONE + self.task!r}")
            return False
        self.tasks.ids.add(task_id)
        self.tasks.receipts.append(time.perf_counter() - self.sent_at)
        self.tasks.trips.append(self.tasks.receipts[-1])
        return True


class A2ASender(Exchange):
    """A kept connection of a client that waits for each task within its request."""

    def __init__(self, tasks: Tasks, seat: Seat) -> None:
        super().__init__(tasks)
        self._client = A2AClient(tasks, seat)

    def start(self) -> None:
        """Send the next task."""
        request = self._client.next_request("SendMessage")
        if request is not None:
            self.write(request)

    def answered(self, body: bytes) -> None:
        """Take the task as it ended."""
        task = _ENVELOPE.decode(body).result.task
        assert task is not None
        text = "".join(part.text for artifact in task.artifacts for part in artifact.parts)
        if self._client.ended(task.id, task.status.state, text):
            self.start()
            self._client.tasks.settled(1)


class A2AFollower:
    """A client that follows each task by a stream, each on a connection of its own."""

    def __init__(self, tasks: Tasks, seat: Seat) -> None:
        self._client = A2AClient(tasks, seat)
        self._connecting: asyncio.Task[object] | None = None

    def start(self) -> None:
        """Send the next task."""
        request = self._client.next_request("SendStreamingMessage")
        if request is None:
            return
        loop, port = asyncio.get_running_loop(), self._client.tasks.plan.port
        stream = partial(_Stream, request, self)
        self._connecting = loop.create_task(loop.create_connection(stream, "127.0.0.1", port))

    def take(self, answer: bytes) -> None:
        """Take a stream as it ended."""
        start, _, events = answer.partition(b"\r\n\r\n")
        if not start.startswith(b"HTTP/1.1 200"):
            self._client.tasks.fail(f"the server answered {start[9:12].decode()}: {events[:300].decode()}")
            return
        lines = [line.removeprefix(b"data: ") for line in events.splitlines() if line.startswith(b"data: ")]
        results = [_ENVELOPE.decode(line).result for line in lines]
        task_id, state, text = "", "", ""
        for result in results:
            if result.artifact_update is not None:
                text += "".join(part.text for part in result.artifact_update.artifact.parts)
            elif result.status_update is not None:
                task_id, state = result.status_update.task_id, result.status_update.status.state
        if self._client.ended(task_id, state, text):
            self.start()
            self._client.tasks.settled(1)


class _Stream(asyncio.Protocol):
    """One request, and all that the server sends until it closes the connection."""

    def __init__(self, request: bytes, follower: A2AFollower) -> None:
        self._request = request
        self._follower = follower
        self._answer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the request."""
        cast(asyncio.Transport, transport).write(self._request)

    def data_received(self, data: bytes) -> None:
        """Keep what came."""
        self._answer += data

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand all of it over."""
        self._follower.take(bytes(self._answer))


async def _connect(tasks: Tasks, plan: A2APlan) -> list[Starts]:
    """Return all clients and workers; workers wait first."""
    loop = asyncio.get_running_loop()

    async def connected(made: Exchange) -> Exchange:
        await loop.create_connection(lambda: made, "127.0.0.1", plan.port)
        return made

    workers: list[Exchange] = []
    for seat in plan.workers:
        worker = Worker(tasks, seat)
        workers += [worker, *(Hand(tasks, seat, worker, kind="peer_agent") for _ in range(plan.hands))]
    made: list[Starts] = [await connected(each) for each in workers]
    for seat in plan.sources:
        for _ in range(plan.connections):
            made.append(A2AFollower(tasks, seat) if plan.streams else await connected(A2ASender(tasks, seat)))
    return made


async def run(plan: A2APlan) -> TaskOutcome:
    """Do what is planned. Raises ConnectionError or TimeoutError."""
    tasks = Tasks(plan, asyncio.get_running_loop().create_future())
    return await work_off(tasks, await _connect(tasks, plan))


if __name__ == "__main__":
    converse(A2APlan, run)
