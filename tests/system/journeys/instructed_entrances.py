"""Agents that do exactly what the instructions of a message say, at every entrance: one side claims, the other answers.

Each entrance yields the messages that it received and makes the calls that their instructions name."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from langchain_core.tools import BaseTool
from msgspec import Struct

from molecule_core.langchain import Toolkit
from testing.mcp_clients import hosted
from testing.mcp_host import agent, single
from testing.push_agents import HttpAgent, Pushed, Reply, http_agent, said
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.agent.bridges.bridge_process import bridging
from tests.instructions.untrained_agents import call_in
from tests.tools.tool_callers import Sitting

Reads = Callable[[dict[str, Any]], tuple[str, dict[str, Any]]]


def by_json(instructions: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The call as programs read it: `reply_via` with `reply_args`."""
    return instructions["reply_via"], dict(instructions["reply_args"])


def by_text(instructions: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The call as models read it: the last one that the text names."""
    if "Your HTTP response is the answer" in instructions["text"]:
        return "response", {}
    found = call_in(instructions["text"])
    assert found is not None, instructions["text"]
    return found.tool, {name: value for name, value in found.arguments.items() if value is not None}


READERS: dict[str, Reads] = {"json": by_json, "text": by_text}


class Answer(Struct, frozen=True):
    """A received message and the call that answers it."""

    text: str
    send: Callable[[str], Awaitable[Any]]


class Entrance(Protocol):
    """A way for an agent to receive its messages and to answer them."""

    async def receive(self, count: int) -> Sequence[Answer]:
        """So many messages, all of which are open."""


class _ToolAgent:
    """An agent that receives and answers with tools."""

    def __init__(self, call: Callable[..., Awaitable[dict[str, Any]]], reads: Reads) -> None:
        self._call = call
        self._reads = reads

    async def receive(self, count: int) -> Sequence[Answer]:
        return [await self._next() for _ in range(count)]

    async def _next(self) -> Answer:
        message = (await self._call("wait_for_message", timeout_secs=20))["message"]
        tool, arguments = self._reads(message["instructions"])
        member = "message" if tool == "send_message_to_user" else "text"

        async def send(text: str) -> Any:
            result = await self._call(tool, **arguments, **{member: text})
            assert result["acknowledged"], result

        return Answer(message["text"], send)


@contextlib.asynccontextmanager
async def stdio(server: Running, seat: Seat, state: Path, reads: Reads) -> AsyncIterator[Entrance]:
    """`molecule mcp` as a process."""
    async with agent(state, **single(server, seat)) as process:
        await process.greet()
        yield _ToolAgent(process.call, reads)


@contextlib.asynccontextmanager
async def endpoint(server: Running, seat: Seat, state: Path, reads: Reads) -> AsyncIterator[Entrance]:
    """The official SDK's client at the server's `/mcp`."""
    async with hosted(server, seat.token, "stateless") as client:
        yield _ToolAgent(client.call, reads)


@contextlib.asynccontextmanager
async def langchain(server: Running, seat: Seat, state: Path, reads: Reads) -> AsyncIterator[Entrance]:
    """The toolkit of LangChain."""
    own = {"WORKSPACE_ID": seat.id, "MOLECULE_WORKSPACE_TOKEN": seat.token, "PLATFORM_URL": server.url}
    with Toolkit({**own, "CONFIGS_DIR": str(state)}) as kit:
        tools: dict[str, BaseTool] = {tool.name: tool for tool in kit.tools}

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            message = await tools[name].ainvoke({"type": "tool_call", "id": "1", "name": name, "args": arguments})
            assert message.status == "success", message.content
            found: dict[str, Any] = message.artifact
            return found

        yield _ToolAgent(call, reads)


class _RestAgent:
    """A program that claims over REST and runs the tools by their HTTP requests."""

    def __init__(self, seat: Seat, reads: Reads) -> None:
        self._seat = seat
        self._reads = reads
        self._call = Sitting(seat)

    async def receive(self, count: int) -> Sequence[Answer]:
        rows = await self._seat.api.claim(self._seat.id, limit=count, include="instructions")
        assert len(rows) == count
        return [self._answer_of(row) for row in rows]

    def _answer_of(self, row: dict[str, Any]) -> Answer:
        tool, arguments = self._reads(row["instructions"])

        async def send(text: str) -> Any:
            await self._call(tool, **arguments, text=text)

        parts = row["request_body"]["params"]["message"]["parts"]
        return Answer(parts[0]["text"], send)


@contextlib.asynccontextmanager
async def rest(server: Running, seat: Seat, state: Path, reads: Reads) -> AsyncIterator[Entrance]:
    """Claims over REST."""
    yield _RestAgent(seat, reads)


class _PushAgent:
    """An agent that messages are pushed to. It answers none before it has received all."""

    def __init__(self, http: HttpAgent, reads: Reads) -> None:
        self._reads = reads
        self._open: asyncio.Queue[tuple[Pushed, asyncio.Future[str]]] = asyncio.Queue()
        http.reply = self._reply

    async def _reply(self, pushed: Pushed) -> Reply:
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._open.put_nowait((pushed, answer))
        return said(await answer)

    async def receive(self, count: int) -> Sequence[Answer]:
        async with asyncio.timeout(PROCESS_START_SECONDS):
            return [self._answer_of(*await self._open.get()) for _ in range(count)]

    def _answer_of(self, pushed: Pushed, answer: "asyncio.Future[str]") -> Answer:
        metadata = pushed.body["params"]["message"]["metadata"]
        assert self._reads(metadata["instructions"]) == ("response", {})

        async def send(text: str) -> Any:
            answer.set_result(text)

        return Answer(pushed.text, send)


@contextlib.asynccontextmanager
async def push(server: Running, seat: Seat, state: Path, reads: Reads) -> AsyncIterator[Entrance]:
    """An agent with an address of its own."""
    async with http_agent(HttpAgent()) as http:
        change = {"delivery_mode": "push", "url": http.url}
        await server.admin.call("PATCH", f"/workspaces/{seat.id}", body=change)
        yield _PushAgent(http, reads)


# A new process for each message, as `claude -p` is one. It waits until the test says what to answer.
_PROGRAM = """
import json, os, pathlib, re, subprocess, sys, time
here, words = pathlib.Path(sys.argv[1]), sys.stdin.read()
own = here / os.environ["MOLECULE_ACTIVITY_ID"]
found = re.findall(r"`(molecule reply m[^` ]*)`", words)
command = found[-1].split() if sys.argv[2] == "text" else ["molecule", "reply", os.environ["MOLECULE_REPLY_HANDLE"]]
body = words.split("<body>")[-1].split("</body>")[0].strip()
own.with_suffix(".new").write_text(body)
own.with_suffix(".new").rename(own.with_suffix(".open"))
answer = own.with_suffix(".answer")
while not answer.exists():
    time.sleep(0.02)
subprocess.run(command, input=answer.read_bytes(), check=True, stdout=subprocess.DEVNULL)
"""


class _BridgedPrograms:
    """The programs behind `molecule bridge command`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def receive(self, count: int) -> Sequence[Answer]:
        async def look() -> list[Path]:
            return sorted(self._folder.glob("*.open"))

        found = await eventually(look, lambda each: len(each) == count, PROCESS_START_SECONDS)
        return [self._answer_of(each) for each in found]

    def _answer_of(self, path: Path) -> Answer:
        async def send(text: str) -> Any:
            new = path.with_suffix(".text")
            new.write_text(text)
            new.rename(path.with_suffix(".answer"))

        return Answer(path.read_text(), send)


@contextlib.asynccontextmanager
async def bridge(server: Running, seat: Seat, state: Path, reads: Reads) -> AsyncIterator[Entrance]:
    """A program that is no host of tools."""
    folder = state / "programs"
    folder.mkdir()
    kind = "text" if reads is by_text else "json"
    program = f"import sys; sys.argv = [{json.dumps('program')}, {str(folder)!r}, {kind!r}]\n{_PROGRAM}"
    async with bridging(server, seat, state, program, MOLECULE_BRIDGE_PARALLEL="5"):
        yield _BridgedPrograms(folder)


ENTRANCES = {
    "stdio": stdio,
    "mcp": endpoint,
    "langchain": langchain,
    "rest": rest,
    "push": push,
    "bridge": bridge,
}
