"""The system prompt of a seat that has one: `molecule prompt watch` puts it together and tells it beside the agent, as
it would beside anybody's, and follows what happens in the company.

Above: agent. Below: model, ending.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from molecule_core.demo.ending import ended
from molecule_core.demo.model import Posting
from molecule_core.ground.settings import environment

_COMMAND = (sys.executable, "-P", "-m", "molecule_core", "prompt", "watch", "--until-eof")
_FILE = "system-prompt.md"
_END_SECONDS = 5.0


@asynccontextmanager
async def prompted(posting: Posting) -> AsyncIterator[None]:
    """Keeps a seat's prompt told until it is left; nothing for a seat without one."""
    if not posting.seat.prompt:
        yield
        return
    home = await asyncio.to_thread(_written, posting)
    own = {
        "WORKSPACE_ID": posting.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": posting.token,
        "PLATFORM_URL": posting.url,
    }
    quiet = asyncio.subprocess.DEVNULL  # what it says is for people at a terminal of its own; the canvas shows it too
    process = await asyncio.create_subprocess_exec(
        *(*_COMMAND, "--home", str(home)),
        stdin=asyncio.subprocess.PIPE,
        stdout=quiet,
        stderr=quiet,
        env={**environment(), **own},
    )
    try:
        yield
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await ended(process, _END_SECONDS)


def _written(posting: Posting) -> Path:
    home = Path(posting.folder) / f"prompt-{posting.workspace_id}"
    home.mkdir(parents=True, exist_ok=True)
    (home / _FILE).write_text(f"{posting.seat.prompt.strip()}\n", encoding="utf-8")
    return home
