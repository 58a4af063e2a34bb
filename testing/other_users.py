"""The command `molecule` as other users of the machine run it: a process of root that becomes another user.

The interpreter of the tests may be where other users cannot read it. So the process imports the whole package first,
and then becomes the user."""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import NamedTuple

from testing.processes import ROOT, Process, environment
from testing.waits import PROCESS_START_SECONDS

SERVER_USER, OTHER_USER = 2601, 2602
IS_ROOT = os.geteuid() == 0
AS_USER = ROOT / "testing" / "as_user.py"


class Said(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def public_folder() -> Iterator[Path]:
    """A folder that every user can reach, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="molecule-users-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def make_state_folder(folder: Path, user: int = SERVER_USER) -> Path:
    """Make the private state folder of a user."""
    state = folder / "state"
    state.mkdir(mode=0o700)
    os.chown(state, user, user)
    return state


@contextlib.asynccontextmanager
async def started_as(user: int, state: Path, port: int, *args: str, **env: str) -> AsyncIterator[Process]:
    """A `molecule` of a user, killed at the end of the block if it still runs."""
    pipe = asyncio.subprocess.PIPE
    variables = environment(state, port, MOLECULE_ADMIN_TOKEN="", HOME=str(state), **env)
    del variables["MOLECULE_ADMIN_TOKEN"]
    process = Process(
        await asyncio.create_subprocess_exec(
            sys.executable, "-P", AS_USER, str(user), *args, env=variables, cwd="/", stdout=pipe, stderr=pipe
        )
    )
    try:
        yield process
    finally:
        await process.kill()
        await process.output()


async def run_as(user: int, state: Path, port: int, *args: str, **env: str) -> Said:
    """Run `molecule` to its end as a user."""
    async with started_as(user, state, port, *args, **env) as process, asyncio.timeout(PROCESS_START_SECONDS):
        code = await process.ended()
        return Said(code, await process.output(), process.said)
