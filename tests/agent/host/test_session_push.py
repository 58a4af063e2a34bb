"""Messages become prompts of the session of Codex that a person has started. A real agent's process; an app-server of
Codex played by a test."""

import json
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, unix_serve

from testing.mcp_host import agent, single
from testing.running_server import Running
from testing.waits import eventually
from tests.requirements import requirement


class AppServer:
    """An app-server with threads, which notes the turns that are begun."""

    def __init__(self) -> None:
        self.threads: dict[str, dict[str, Any]] = {}
        self.turns: list[dict[str, Any]] = []
        self.refusals = 0

    def add_thread(self, name: str, cwd: Path, status: str = "idle", **more: Any) -> None:
        """A thread that is loaded."""
        about = {"id": name, "cwd": str(cwd), "status": {"type": status}, "parentThreadId": None, "ephemeral": False}
        self.threads[name] = {**about, **more}

    async def serve(self, connection: ServerConnection) -> None:
        """The requests of one client."""
        async for line in connection:
            request = json.loads(line)
            await connection.send(json.dumps({"method": "thread/status/changed", "params": {}}))
            if "id" in request:
                answer = self._answer(request["method"], request["params"])
                await connection.send(json.dumps({"id": request["id"], **answer}))

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "thread/loaded/list":
            return {"result": {"data": list(self.threads)}}
        if method == "thread/read":
            return {"result": {"thread": self.threads[params["threadId"]]}}
        if method == "turn/start":
            if self.refusals:
                self.refusals -= 1
                return {"error": {"code": -32600, "message": "not now"}}
            self.turns.append(params)
        return {"result": {}}

    async def begun(self, count: int) -> list[dict[str, Any]]:
        """The turns, as soon as there are so many."""

        async def look() -> list[dict[str, Any]]:
            return self.turns

        return await eventually(look, lambda found: len(found) == count)


@pytest.fixture
async def codex(tmp_path: Path) -> AsyncIterator[AppServer]:
    """The app-server of a home of Codex."""
    folder = tmp_path / "codex" / "app-server-control"
    folder.mkdir(parents=True)
    app_server = AppServer()
    with tempfile.TemporaryDirectory() as short:  # as Codex does if the path is too long for an address
        socket = Path(short, "codex.sock")
        (folder / "app-server-control.sock").symlink_to(socket)
        async with unix_serve(app_server.serve, str(socket)):
            yield app_server


@requirement("G15h")
async def test_each_message_is_one_prompt_of_the_thread_in_this_folder(
    one: Running, state: Path, codex: AppServer, tmp_path: Path
) -> None:
    seat, person = await one.seat(), await one.person()
    codex.add_thread("elsewhere", Path("/elsewhere"))
    codex.add_thread("child", Path.cwd(), parentThreadId="mine")
    codex.add_thread("aside", Path.cwd(), ephemeral=True)
    codex.add_thread("mine", Path.cwd())
    codex.refusals = 1
    async with agent(state, CODEX_HOME=str(tmp_path / "codex"), **single(one, seat)) as process:
        await process.greet("codex-mcp-client")
        sent = [(await person.send(seat.id, text))["activity_id"] for text in ("one & all", "two")]
        turns = await codex.begun(2)
        messages = (await process.call("inbox_peek"))["messages"]
    assert [(each["threadId"], each["clientUserMessageId"]) for each in turns] == [("mine", id_) for id_ in sent]
    assert "one & all" in turns[0]["input"][0]["text"]
    assert [each["activity_id"] for each in messages] == sent
    assert len(codex.turns) == 2


@requirement("G15h")
async def test_a_busy_thread_gets_the_message_when_it_is_idle_and_the_one_that_calls_is_meant(
    one: Running, state: Path, codex: AppServer, tmp_path: Path
) -> None:
    seat, person = await one.seat(), await one.person()
    codex.add_thread("other", Path.cwd(), "active")
    async with agent(state, CODEX_HOME=str(tmp_path / "codex"), **single(one, seat)) as process:
        await process.greet("codex-mcp-client")
        await person.send(seat.id, "one")
        assert (await process.call("get_runtime_identity"))["runtime"] == "codex-mcp-client"
        assert codex.turns == []
        codex.add_thread("other", Path.cwd(), "idle")
        assert (await codex.begun(1))[0]["threadId"] == "other"
        codex.add_thread("mine", Path("/anywhere"))
        meta = {"threadId": "mine"}
        await process.request("tools/call", {"name": "get_runtime_identity", "arguments": {}, "_meta": meta})
        await person.send(seat.id, "two")
        assert (await codex.begun(2))[1]["threadId"] == "mine"


@requirement("G15h")
async def test_without_an_app_server_the_message_waits_for_the_tools(one: Running, state: Path, tmp_path: Path) -> None:
    seat, person = await one.seat(), await one.person()
    async with agent(state, CODEX_HOME=str(tmp_path / "none"), **single(one, seat)) as process:
        await process.greet("codex-mcp-client")
        await person.send(seat.id, "hello")
        assert (await process.next())["text"] == "hello"
