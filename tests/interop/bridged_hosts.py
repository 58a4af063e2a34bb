"""Real programs behind `molecule bridge`, whose bridge, program and server are killed while they answer."""

import contextlib
import json
import os
import random
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio

from molecule_core.client.api import ApiError, NoAnswerError
from testing.ports import free_port
from testing.processes import MOLECULE, Process, client, serving, started
from testing.waits import eventually
from tests.interop.hosts import Home, RealHost, outside_world
from tests.interop.model_endpoint import Endpoint, listening
from tests.interop.model_scripts import Act, Asked

_NUMBER = re.compile(r"M-(\d+)")
_ANSWER = re.compile(r"answer A-(\d+)")
_ANSWER_SECONDS = 240.0
_THINK_SECONDS = 0.3


class BridgedHost(NamedTuple):
    """A host behind a bridge. `bridge`: the command without the program; `arguments`: what the program gets."""

    host: RealHost
    driver: str
    arguments: tuple[str, ...]

    @property
    def command(self) -> tuple[str, ...]:
        """What starts the bridge."""
        program = self.host.pinned.command()
        if self.driver == "codex":
            return (MOLECULE, "bridge", "codex", "--program", *program)
        return (MOLECULE, "bridge", "acp", "--", *program, *self.arguments)


class Figures(NamedTuple):
    """What was seen. `known`: of the earlier messages of its conversation, how many the model knew at the last one."""

    sent: int
    kills: Counter[str]
    lost: list[int]
    twice: list[int]
    known: dict[str, tuple[int, int]]
    lost_lines: int


class Company:
    """A server process, a workspace whose agent is bridged, a person and a peer who write to it."""

    def __init__(self, bridged: BridgedHost, place: Path, endpoint: Endpoint) -> None:
        self.bridged = bridged
        self.home = Home(place / "home")
        self.endpoint = endpoint
        self.port = free_port()
        self.state = place / "bridge"
        self.server_state = place / "server"
        self.seat: dict[str, Any] = {}
        self.peer: dict[str, Any] = {}
        self.knew: dict[int, set[int]] = {}
        self._server = AsyncExitStack()
        self._bridge = AsyncExitStack()
        self.bridge: Process | None = None

    async def open(self) -> None:
        """Starts all of it."""
        for folder in (self.home.project, self.state, self.server_state):
            folder.mkdir(parents=True, mode=0o700)
        self.bridged.host.settle(self.home, self.endpoint)
        self.endpoint.mind.answer = self.answer  # type: ignore[method-assign]
        self.endpoint.think_seconds = _THINK_SECONDS
        await self.start_server()
        async with client(self.port) as admin:
            self.seat = await admin.post("/workspaces", {"name": "Ops"})
            self.peer = await admin.post("/workspaces", {"name": "Peer"})
        token = self.state / "token"
        token.write_text(self.seat["connection"]["auth_token"])
        token.chmod(0o600)
        await self.start_bridge()

    async def close(self) -> None:
        """Ends all of it."""
        await self._bridge.aclose()
        await self._server.aclose()

    async def start_server(self) -> None:
        """Starts the server, again if it was killed."""
        await self._server.aclose()
        await self._server.enter_async_context(serving(self.server_state, self.port))

    async def start_bridge(self) -> None:
        """Starts the bridge, again if it was killed."""
        await self._bridge.aclose()
        environment = {"PATH": os.defpath, "LANG": "C.UTF-8", "TERM": "dumb", **outside_world(self.home, self.endpoint)}
        environment |= self.bridged.host.variables(self.home, self.endpoint)
        environment |= {
            "WORKSPACE_ID": self.seat["id"],
            "MOLECULE_WORKSPACE_TOKEN_FILE": str(self.state / "token"),
            "PLATFORM_URL": f"http://127.0.0.1:{self.port}",
            "CONFIGS_DIR": str(self.state),
            "MOLECULE_MCP_LEASE_SECONDS": "5",
            "MOLECULE_BRIDGE_RUNS": "50",
        }
        self.bridge = await self._bridge.enter_async_context(
            started(*self.bridged.command, env=environment, cwd=self.home.project)
        )

    # -- kills ---------------------------------------------------------------------------------------------------------

    async def kill_bridge(self) -> None:
        """kill -9 of the bridge; its program is left to itself."""
        assert self.bridge is not None
        await self.bridge.kill()
        await self.start_bridge()

    async def kill_server(self) -> None:
        """kill -9 of the server."""
        await self._server.aclose()
        await self.start_server()

    async def kill_program(self) -> None:
        """kill -9 of the program, if it runs."""
        for file in self.state.glob(".bridge_turn_*"):
            text = file.read_text()
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if text.isdigit() and int(text) > 1:
                    os.killpg(int(text), signal.SIGKILL)

    # -- messages ------------------------------------------------------------------------------------------------------

    def answer(self, asked: Asked) -> Act:
        """The model answers the newest message, and it is noted which it was shown."""
        numbers = [int(each) for each in _NUMBER.findall(asked.said)]
        if not numbers:
            return "Nothing was asked."
        self.knew[numbers[-1]] = set(numbers)
        return f"answer A-{numbers[-1]}"

    async def write(self, number: int) -> None:
        """The person writes the even messages, the peer the odd ones, again if the server is being killed."""
        token = {} if number % 2 == 0 else {"token": self.peer["connection"]["auth_token"]}
        async with client(self.port, **token) as api:
            await persist(lambda: api.send(self.seat["id"], f"This is M-{number}.", message_id=f"m-{number}"))

    async def answers(self) -> Counter[int]:
        """How often each message was answered, as the person and the peer see it."""
        async with client(self.port) as admin:
            page = await persist(lambda: admin.get(f"/workspaces/{self.seat['id']}/chat-history", limit=200))
        async with client(self.port, self.peer["connection"]["auth_token"]) as api:
            path = f"/workspaces/{self.peer['id']}/activity"
            rows = await persist(lambda: api.get(path, waiting="true", limit=200))
        lines = [line["content"] for line in page["messages"] if line["role"] == "agent"]
        lines += [json.dumps(row) for row in rows]
        return Counter(int(number) for line in lines for number in set(_ANSWER.findall(line)))


async def persist(work: Callable[[], Awaitable[Any]]) -> Any:
    """The result of a call, repeated while the server is away."""
    async with contextlib.AsyncExitStack():
        while True:
            try:
                return await work()
            except (NoAnswerError, ApiError, OSError) as error:
                if isinstance(error, ApiError) and not error.is_transient:
                    raise
                with anyio.move_on_after(0.05):
                    await anyio.Event().wait()


@asynccontextmanager
async def company(bridged: BridgedHost, place: Path) -> AsyncIterator[Company]:
    """A company, until the block ends."""
    async with listening(Endpoint(bridged.host.dialect())) as endpoint:
        found = Company(bridged, place, endpoint)
        try:
            await found.open()
            yield found
        finally:
            await found.close()


async def run_with_kills(found: Company, messages: int, kills: int, seed: int) -> Figures:
    """Messages of two conversations, and kills at random moments; waits until all are answered."""
    chance, done = random.Random(seed), Counter[str]()
    moments = set(chance.sample(range(messages), kills))
    ways = {"bridge": found.kill_bridge, "program": found.kill_program, "server": found.kill_server}

    async def until_answered(numbers: int) -> None:
        wanted = set(range(numbers))
        await eventually(found.answers, lambda counts: set(counts) >= wanted, _ANSWER_SECONDS)

    for number in range(messages):
        await found.write(number)
        if number in moments:
            with anyio.move_on_after(chance.uniform(0, 2 * _THINK_SECONDS)):
                await anyio.Event().wait()
            way = chance.choice(sorted(ways))
            done[way] += 1
            await ways[way]()
        elif number % 4 == 3:  # some messages wait for others, some come to an idle agent
            await until_answered(number + 1)
    await until_answered(messages)
    counts = await found.answers()
    known = {}
    for name, last in (("person", messages - 2 + messages % 2), ("peer", messages - 1 - messages % 2)):
        own = set(range(last % 2, last, 2))
        known[name] = (len(found.knew.get(last, set()) & own), len(own))
    assert found.bridge is not None
    return Figures(
        messages,
        done,
        [number for number in range(messages) if not counts[number]],
        [number for number, count in counts.items() if count > 1],
        known,
        found.bridge.said.count("cannot be loaded"),
    )
