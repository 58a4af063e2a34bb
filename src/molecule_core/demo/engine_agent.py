"""A lead that runs as `molecule agent run`, with a script in place of a model.

It calls no team by itself: it starts helper threads, which ask the teams, and waits for them. The script is
`lead.yaml`."""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path

import msgspec

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.settings import environment
from molecule_core.demo.model import AgentAssignment
from molecule_core.demo.shutdown import wait_or_kill

SCRIPT_FILE = "lead.yaml"
LOG_FILE = "agent.log"
"""Log of the agent in its folder, since its last start."""
_COMMAND = (sys.executable, "-P", "-m", "molecule_core", "agent", "run", "--until-eof")
_RETRY_SECONDS = 0.2
_END_SECONDS = 5.0
_CONFIG = """\
name: {name}
description: {role}
examples: {examples}
model: scripted:{script}
beat_seconds: 1
# The full answer of a team is needed.
tool_output_bytes: 200000
"""


class EngineEndedError(Exception):
    """The agent's process has ended."""


async def run_engine_agent(
    assignment: AgentAssignment, clock: Clock, on_ready: Callable[[], None], *, lease: int, beat: float
) -> None:
    """Run the agent of a workspace until it ends. `lease`, `beat`: seconds, as for the other agents.

    `on_ready` is called once it is online and has reported its prompt, with which its threads begin. Raises
    EngineEndedError."""
    home = await asyncio.to_thread(_write_home, assignment)
    own = {
        "WORKSPACE_ID": assignment.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": assignment.token,
        "PLATFORM_URL": assignment.url,
        "CONFIGS_DIR": str(home / ".molecule"),
        "MOLECULE_MCP_LEASE_SECONDS": str(lease),
        "MOLECULE_MCP_HEARTBEAT_SECONDS": str(beat),
    }
    with (home / LOG_FILE).open("wb") as log:  # a line for each call would hide the demo's own output
        process = await asyncio.create_subprocess_exec(
            *(*_COMMAND, str(home)), stdin=asyncio.subprocess.PIPE, stderr=log, env={**environment(), **own}
        )
    exit_task = asyncio.ensure_future(process.wait())
    try:
        async with ApiClient(assignment.url, assignment.token) as api:
            while not exit_task.done() and not await _is_online(api, assignment.workspace_id):
                await clock.wait(asyncio.shield(exit_task), _RETRY_SECONDS)
        if not exit_task.done():
            on_ready()
        await asyncio.shield(exit_task)
        raise EngineEndedError
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await wait_or_kill(process, _END_SECONDS)


async def _is_online(api: ApiClient, workspace_id: str) -> bool:
    with suppress(NoAnswerError, ApiError):  # there is no prompt until the agent has reported one
        await api.get(f"/workspaces/{workspace_id}/prompt")
        return bool((await api.get(f"/workspaces/{workspace_id}"))["status"] == "online")
    return False


def _write_home(assignment: AgentAssignment) -> Path:
    """Write the agent's folder from the company file. What the agent stores there stays."""
    home = Path(assignment.folder)
    (home / ".molecule").mkdir(parents=True, exist_ok=True, mode=0o700)
    script = resources.files(__package__).joinpath(SCRIPT_FILE).read_text(encoding="utf-8")
    (home / SCRIPT_FILE).write_text(script, encoding="utf-8")
    (home / "system-prompt.md").write_text(f"{assignment.seat.prompt.strip()}\n", encoding="utf-8")
    seat = assignment.seat
    config = _CONFIG.format(
        name=_yaml(seat.name), role=_yaml(seat.role), examples=_yaml(seat.examples), script=SCRIPT_FILE
    )
    (home / "config.yaml").write_text(config, encoding="utf-8")
    return home


def _yaml(value: str | tuple[str, ...]) -> str:
    """Return a YAML text or list; JSON is YAML."""
    return msgspec.json.encode(value).decode()
