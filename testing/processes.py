"""The real command in processes of its own: started, listened to, killed."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from molecule_core.client.api import ApiClient
from testing.forked_processes import Forked, fork
from testing.running_server import ADMIN_TOKEN
from testing.waits import PROCESS_START_SECONDS

ROOT = Path(__file__).resolve().parents[1]
LISTENS = "listening on"
MOLECULE = str(Path(sys.executable).parent / "molecule")
# A start of the interpreter also in a usual run: for tests of what the system shows of a process.
ANEW = (sys.executable, MOLECULE)


def environment(state: Path, port: int, **more: str) -> dict[str, str]:
    """What a process needs to know: where it lives. Nothing of a person's own settings comes along."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MOLECULE_", "ADMIN_"))}
    own = {"MOLECULE_STATE_DIR": str(state), "MOLECULE_PORT": str(port), "MOLECULE_ADMIN_TOKEN": ADMIN_TOKEN}
    # `up` says by itself only what a person must know; tests wait for what is said to machines.
    return {**kept, **own, "MOLECULE_LOG_LEVEL": "info", **more}


class Process:
    """A running program, and what it has said on standard error so far."""

    def __init__(self, process: asyncio.subprocess.Process | Forked) -> None:
        self._process = process
        self._said: list[str] = []
        self._more = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())
        self.pid = process.pid

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self._said.append(line.decode())
            self._more.set()
        self._more.set()

    @property
    def said(self) -> str:
        """All of standard error so far."""
        return "".join(self._said)

    async def says(self, text: str) -> None:
        """Waits until it has said something; fails if it ends before."""
        async with asyncio.timeout(PROCESS_START_SECONDS):
            while text not in self.said:
                assert not self._listening.done(), f"it ended and never said {text!r}:\n{self.said}"
                self._more.clear()
                await self._more.wait()

    def send(self, number: signal.Signals) -> None:
        """A signal; nothing if it runs no more."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)  # not by asyncio: that would ask how it ended, and then nobody else is told

    @property
    def has_ended(self) -> bool:
        """Whether it runs no more."""
        return self._process.returncode is not None

    async def ended(self) -> int:
        """Waits for its end; returns its exit code."""
        async with asyncio.timeout(PROCESS_START_SECONDS):
            code = await self._process.wait()
            await self._listening
        return code

    async def refused(self) -> int:
        """Waits for the end of a server that should not have begun to serve; fails as soon as it does."""
        async with asyncio.timeout(PROCESS_START_SECONDS):
            while not self._listening.done():
                assert LISTENS not in self.said, f"it serves:\n{self.said}"
                self._more.clear()
                await self._more.wait()
        return await self.ended()

    async def line(self) -> str:
        """The next line of standard output."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PROCESS_START_SECONDS):
            return (await self._process.stdout.readline()).decode()

    async def output(self) -> str:
        """All of standard output, once it has ended."""
        assert self._process.stdout is not None
        async with asyncio.timeout(PROCESS_START_SECONDS):
            return (await self._process.stdout.read()).decode()

    async def kill(self) -> None:
        """kill -9."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self.ended()


@contextlib.asynccontextmanager
async def started(
    *command: str, env: dict[str, str], cwd: Path = ROOT, stdin: Path = Path(os.devnull)
) -> AsyncIterator[Process]:
    """A program that reads the file `stdin`, killed at the end of the block if it still runs. A usual run forks
    `molecule`."""
    process = Process(await _begun(*command, env=env, cwd=cwd, stdin=stdin))
    try:
        yield process
    finally:
        await process.kill()
        await process.output()


async def _begun(
    program: str, *arguments: str, env: dict[str, str], cwd: Path, stdin: Path
) -> asyncio.subprocess.Process | Forked:
    if program == MOLECULE and "MOLECULE_TEST_FORKS" in os.environ:
        return await fork(*arguments, env=env, cwd=cwd, stdin=stdin)
    pipe = asyncio.subprocess.PIPE
    with stdin.open("rb") as read:
        return await asyncio.create_subprocess_exec(
            program, *arguments, env=env, cwd=cwd, stdin=read, stdout=pipe, stderr=pipe
        )


@contextlib.asynccontextmanager
async def serving(state: Path, port: int, *flags: str, **more: str) -> AsyncIterator[Process]:
    """`molecule serve`, listening. `more`: further environment."""
    async with started(MOLECULE, "serve", *flags, env=environment(state, port, **more)) as process:
        await process.says(LISTENS)
        yield process


@contextlib.asynccontextmanager
async def client(port: int, token: str = ADMIN_TOKEN) -> AsyncIterator[ApiClient]:
    """A client of a server on a port."""
    async with ApiClient(f"http://127.0.0.1:{port}", token, seconds=PROCESS_START_SECONDS) as api:
        yield api
