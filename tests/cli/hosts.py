"""A person's home on a machine of agents: `molecule connect` as they type it, in a folder of their own."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.journeys.processes import Process, environment, started

MOLECULE = (sys.executable, "-m", "molecule_core")


class Said(NamedTuple):
    """What the command said, and its exit code."""

    code: int
    out: str
    err: str


class Home:
    """Where a person works: a home, a project in it, a server at a port."""

    def __init__(self, folder: Path, state: Path, port: int) -> None:
        self.folder = folder / "home"
        self.project = self.folder / "project"
        self.project.mkdir(parents=True)
        self.state = state
        self._env = environment(state, port, HOME=str(self.folder), CLAUDE_CONFIG_DIR="", CODEX_HOME="")
        self._env.pop("XDG_CONFIG_HOME", None)

    @property
    def agents(self) -> Path:
        """The folder of tokens and of the book of changes."""
        return self.state / "agents"

    @asynccontextmanager
    async def running(self, *args: str | Path, told: str = "", **env: str) -> AsyncIterator[Process]:
        """The command in the project's folder; `told`: what comes on its standard input."""
        heard = self.folder / "heard"
        heard.write_text(told)
        words = 'cd "$0" && heard=$1 && shift && exec "$@" < "$heard"'
        line = ("sh", "-c", words, str(self.project), str(heard), *MOLECULE, *map(str, args))
        async with started(*line, env={**self._env, **env}) as process:
            yield process

    async def run(self, *args: str | Path, told: str = "", **env: str) -> Said:
        """The command to its end."""
        async with self.running(*args, told=told, **env) as process:
            code = await process.ended()
            return Said(code, await process.output(), process.said)

    async def connect(self, *args: str | Path, told: str = "", **env: str) -> Said:
        """`molecule connect`, which does not wait."""
        return await self.run("connect", *args, "--wait", "0", told=told, **env)

    def read(self, name: str) -> Any:
        """A JSON file below the home."""
        return json.loads((self.folder / name).read_text())

    def files(self) -> dict[str, bytes]:
        """Every file below the home, with what stands in it."""
        found = [each for each in self.folder.rglob("*") if each.is_file() and each.name != "heard"]
        return {str(each.relative_to(self.folder)): each.read_bytes() for each in found}
