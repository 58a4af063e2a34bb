"""Runs `molecule prompt watch` for a workspace with a system prompt.

It builds and reports the prompt beside the agent, as it would for any agent, and follows changes in the company."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from molecule_core.common.settings import environment
from molecule_core.demo.model import AgentAssignment
from molecule_core.demo.shutdown import wait_or_kill

_COMMAND = (sys.executable, "-P", "-m", "molecule_core", "prompt", "watch", "--until-eof")
_PROMPT_FILE = "system-prompt.md"
_END_SECONDS = 5.0


@asynccontextmanager
async def watch_prompt(assignment: AgentAssignment) -> AsyncIterator[None]:
    """Report a workspace's prompt during the block. Does nothing for a workspace without one."""
    if not assignment.seat.prompt:
        yield
        return
    home = await asyncio.to_thread(_write_home, assignment)
    own = {
        "WORKSPACE_ID": assignment.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": assignment.token,
        "PLATFORM_URL": assignment.url,
    }
    quiet = asyncio.subprocess.DEVNULL  # its output is for a terminal of its own; the canvas shows it too
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
        await wait_or_kill(process, _END_SECONDS)


def _write_home(assignment: AgentAssignment) -> Path:
    home = Path(assignment.folder) / f"prompt-{assignment.workspace_id}"
    home.mkdir(parents=True, exist_ok=True)
    (home / _PROMPT_FILE).write_text(f"{assignment.seat.prompt.strip()}\n", encoding="utf-8")
    return home
