"""`molecule bridge` with a real program and a model of ours, and what became of each message."""

import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from testing.processes import MOLECULE, Process, started
from testing.running_server import Running, Seat
from testing.waits import PROCESS_START_SECONDS, eventually
from tests.interop.host_requirements import require
from tests.interop.hosts import CLAUDE, Home, outside_world
from tests.interop.model_endpoint import Endpoint, listening
from tests.interop.model_protocols import Messages
from tests.interop.model_scripts import Act, Asked, Call, Mind

T = TypeVar("T")
_TOKEN = re.compile(r"ask-([a-z]\d+)-ask")


class RememberingMind(Mind):
    """A model that answers each message with its mark and with how many marks of its letter the session has shown it.

    `acts_on`: what it does instead, by mark, for as long as it returns something."""

    def __init__(self) -> None:
        super().__init__("", [])
        self.acts_on: dict[str, Callable[[Asked], Act | None]] = {}
        self.answered: list[str] = []
        """Marks in the order in which it was asked about them."""

    def answer(self, asked: Asked) -> Act:
        """Answer the newest message."""
        self.asked.append(asked)
        marks = list(dict.fromkeys(_TOKEN.findall(asked.said)))
        newest = _TOKEN.findall(asked.said)[-1] if marks else "none"
        act = self.acts_on[newest](asked) if newest in self.acts_on else None
        if act is None:
            self.answered.append(newest)
            return f"answer {newest}; known: {sum(each[0] == newest[0] for each in marks)}"
        return act


def question(mark: str) -> str:
    """A message whose answer names this mark."""
    return f"What about ask-{mark}-ask?"


def runs(command: str, marker: str = "") -> Callable[[Asked], Act | None]:
    """The model runs a command once, then says what it gave."""

    def act(asked: Asked) -> Act | None:
        if not asked.results:
            return Call("Bash", {"command": command, "description": f"as asked {marker}".strip()})
        return f"it said: {asked.results[-1].text}"

    return act


@contextlib.asynccontextmanager
async def model(home: Home) -> AsyncIterator[Endpoint]:
    """A model for Claude Code, which a person has set up in this home."""
    home.project.mkdir(parents=True, exist_ok=True)
    endpoint = Endpoint(Messages())
    endpoint.mind = RememberingMind()
    async with listening(endpoint):
        CLAUDE.settle(home, endpoint)
        yield endpoint


@contextlib.asynccontextmanager
async def bridging_claude(
    url: str, seat: Seat, home: Home, endpoint: Endpoint, *flags: str, **more: str
) -> AsyncIterator[Process]:
    """The bridge as a process of its own. Its program gets the model as a person would set it."""
    state = home.path / "bridge"
    state.mkdir(mode=0o700, exist_ok=True)
    token = state / "token"
    token.write_text(seat.token)
    token.chmod(0o600)
    (program,) = require(CLAUDE).pinned.command()
    own = {
        "WORKSPACE_ID": seat.id,
        "MOLECULE_WORKSPACE_TOKEN_FILE": str(token),
        "PLATFORM_URL": url,
        "CONFIGS_DIR": str(state),
        "MOLECULE_MCP_LEASE_SECONDS": "5",
        "MOLECULE_MCP_RETRY_MOST_SECONDS": "1",
    }
    person = {"PATH": os.defpath, "LANG": "C.UTF-8", **outside_world(home, endpoint), "NO_PROXY": "127.0.0.1"}
    command = (MOLECULE, "bridge", "claude", "--program", program, "--cwd", str(home.project), *flags)
    env = {**person, **CLAUDE.variables(home, endpoint), **own, **more}
    async with started(*command, env=env, cwd=home.project) as process:
        yield process


async def answers(server: Running, seat: Seat) -> list[str]:
    """What the agent has said to people, oldest first."""
    page = await server.admin.get(f"/workspaces/{seat.id}/chat-history", limit=200)
    return [line["content"] for line in page["messages"] if line["role"] == "agent"]


async def seen(look: Callable[[], Awaitable[T]], wanted: Callable[[T], Any]) -> T:
    """What is seen at last, by a program that must start first."""
    return await eventually(look, lambda found: bool(wanted(found)), PROCESS_START_SECONDS)


def home_in(folder: Path) -> Home:
    """A throw-away home."""
    return Home(folder / "home")


def programs_of(home: Home) -> list[int]:
    """The processes of Claude Code that work in a home."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes().split(b"\0")
            is_claude = (folder / "exe").readlink().name == "claude"
            if f"HOME={home.path}".encode() in variables and is_claude:
                found.append(int(folder.name))
    return found
