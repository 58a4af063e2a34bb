"""A person's home on a machine of agents: `molecule connect` as they type it, in a folder of their own."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from testing.processes import MOLECULE, Process, environment, started


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
        self._env["MOLECULE_CONNECT_HOST_SECONDS"] = "0"  # hosts that this machine has are not asked

    @property
    def agents(self) -> Path:
        """The folder of tokens and of the book of changes."""
        return self.state / "agents"

    @property
    def launcher(self) -> Path:
        """The program that hosts start."""
        return self.state / "bin" / "molecule"

    @asynccontextmanager
    async def running(self, *args: str | Path, told: str = "", **env: str) -> AsyncIterator[Process]:
        """The command in the project's folder; `told`: what comes on its standard input."""
        heard = self.folder / "heard"
        heard.write_text(told)
        env = {**self._env, **env}
        async with started(MOLECULE, *map(str, args), env=env, cwd=self.project, stdin=heard) as process:
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
