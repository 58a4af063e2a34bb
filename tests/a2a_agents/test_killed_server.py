"""A server that is killed after it has accepted a push notification, before it has read the task."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testing.ports import free_port
from testing.processes import client, serving
from testing.raw_http import ask
from testing.waits import eventually
from tests.requirements import requirement

pytestmark = pytest.mark.long


class SlowAgent:
    """An agent with a socket. A read of its task gets no response until the test allows it."""

    def __init__(self) -> None:
        self.port = 0
        self.sends: list[dict[str, Any]] = []
        self.reads = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.state = "TASK_STATE_WORKING"

    @property
    def card(self) -> dict[str, Any]:
        """The card."""
        interface = {"url": f"http://127.0.0.1:{self.port}/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return {"name": "Slow", "supportedInterfaces": [interface], "capabilities": {"pushNotifications": True}}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await reader.readuntil(b"\r\n\r\n")
            lengths = [line.partition(b":")[2] for line in head.lower().split(b"\r\n") if b"content-length:" in line]
            body = await reader.readexactly(int(lengths[0])) if lengths else b""
            answer = msgspec.json.encode(await self._answer(body))
            response = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
            writer.write(response + b"Content-Length: %d\r\n\r\n" % len(answer) + answer)
            await writer.drain()
        writer.close()

    async def _answer(self, body: bytes) -> Any:
        if not body:
            return self.card
        call = msgspec.json.decode(body)
        task: dict[str, Any] = {"id": "t", "contextId": "c", "status": {"state": self.state}, "artifacts": []}
        if self.state == "TASK_STATE_COMPLETED":
            task["artifacts"] = [{"artifactId": "a", "parts": [{"text": "sorted"}]}]
        if call["method"] == "SendMessage":
            self.sends.append(call["params"])
            return {"jsonrpc": "2.0", "id": call["id"], "result": {"task": task}}
        if call["method"] == "ListTasks":
            return {"jsonrpc": "2.0", "id": call["id"], "result": {"tasks": []}}
        self.reads += 1
        await self.may_answer.wait()
        return {"jsonrpc": "2.0", "id": call["id"], "result": task}


@contextlib.asynccontextmanager
async def slow_agent() -> AsyncIterator[SlowAgent]:
    """An agent that listens."""
    agent = SlowAgent()
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    agent.port = server.sockets[0].getsockname()[1]
    try:
        yield agent
    finally:
        agent.may_answer.set()
        server.close()


@requirement("P1", "P2")
async def test_a_kill_between_the_notification_and_the_read_loses_nothing(tmp_path: Path) -> None:
    port = free_port()
    settings = {
        "MOLECULE_PUSH_NETWORKS": "127.0.0.0/8",
        "MOLECULE_PUBLIC_URL": f"http://127.0.0.1:{port}",
        "MOLECULE_LIMIT_A2A_POLL_SECONDS": "3600",
        "MOLECULE_LIMIT_A2A_NOTIFIED_POLL_SECONDS": "3600",
    }
    async with slow_agent() as agent:
        async with serving(tmp_path, port, **settings) as server, client(port) as admin:
            card_url = f"http://127.0.0.1:{agent.port}/card.json"
            made = await admin.post("/workspaces", {"name": "Worker", "a2a_card_url": card_url})
            lead = await admin.post("/workspaces", {"name": "Lead"})
            async with client(port, lead["connection"]["auth_token"]) as own:
                body = {"target_id": made["id"], "task": "sort the mail", "wait": 0}
                begun = await own.post(f"/workspaces/{lead['id']}/delegate", body)

            async def reads() -> int:
                return agent.reads

            await eventually(reads, bool, 20)
            agent.may_answer.clear()
            config, before = agent.sends[0]["configuration"]["taskPushNotificationConfig"], agent.reads
            headers = {"X-A2A-Notification-Token": config["token"]}
            accepted = await ask(
                port, "POST", config["url"].removeprefix(f"http://127.0.0.1:{port}"), {}, headers=headers
            )
            await eventually(reads, lambda count: count > before, 20)
            await server.kill()
        agent.state = "TASK_STATE_COMPLETED"
        agent.may_answer.set()
        async with serving(tmp_path, port, **settings), client(port) as admin:

            async def ended() -> dict[str, Any]:
                found: dict[str, Any] = await admin.get(f"/delegations/{begun['delegation_id']}")
                return found

            found = await eventually(ended, lambda each: each["delegation"]["status"] == "completed", 20)
    assert (accepted.status, found["result"], len(agent.sends)) == (202, "sorted", 1)
