"""Programs in terminals, as a person starts them."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path


@contextlib.asynccontextmanager
async def terminal(folder: Path, program: Path) -> AsyncIterator[int]:
    """A program that a person has started in a terminal; its pid."""
    ours, theirs = os.openpty()
    # Not by `preexec_fn`, which can block a process with threads.
    command = ("setsid", "--ctty", "/bin/sh", str(program))
    process = await asyncio.create_subprocess_exec(*command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder)
    os.close(theirs)
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()
        os.close(ours)
