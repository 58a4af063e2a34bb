"""A lead of the company that is an agent of our own: `molecule agent run` with a script in place of a model.

It speaks to nobody by itself: it begins helpers in threads, which ask the teams, and waits for them. What it does
stands in `lead.yaml`. Above: agent, which starts it. Below: model, ending.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import resources
from pathlib import Path

import msgspec

from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.demo.ending import ended
from molecule_core.demo.model import Posting
from molecule_core.ground.clock import Clock
from molecule_core.ground.settings import environment

SCRIPT = "lead.yaml"
LOG = "agent.log"
"""What it says of itself, in its folder, since its last start."""
_COMMAND = (sys.executable, "-P", "-m", "molecule_core", "agent", "run", "--until-eof")
_AGAIN_SECONDS = 0.2
_END_SECONDS = 5.0
_CONFIG = """\
name: {name}
description: {role}
model: scripted:{script}
beat_seconds: 1
# The answer of a team is to be read whole.
tool_output_bytes: 200000
"""


class EngineEnded(Exception):
    """Its process has ended."""


async def drive(posting: Posting, clock: Clock, seated: Callable[[], None], *, lease: int, beat: float) -> None:
    """Starts the agent for a seat, and keeps it until it ends; `seated` is called once it is there and has told its
    prompt, with which its threads begin. `lease`, `beat`: seconds, as those of the other agents. Raises EngineEnded."""
    home = await asyncio.to_thread(_written, posting)
    own = {
        "WORKSPACE_ID": posting.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": posting.token,
        "PLATFORM_URL": posting.url,
        "CONFIGS_DIR": str(home / ".molecule"),
        "MOLECULE_MCP_LEASE_SECONDS": str(lease),
        "MOLECULE_MCP_HEARTBEAT_SECONDS": str(beat),
    }
    with (home / LOG).open("wb") as log:  # a line for each call would push the demo's own words off the terminal
        process = await asyncio.create_subprocess_exec(
            *(*_COMMAND, str(home)), stdin=asyncio.subprocess.PIPE, stderr=log, env={**environment(), **own}
        )
    ending = asyncio.ensure_future(process.wait())
    try:
        async with Api(posting.url, posting.token) as api:
            while not ending.done() and not await _is_seated(api, posting.workspace_id):
                await clock.wait(asyncio.shield(ending), _AGAIN_SECONDS)
        if not ending.done():
            seated()
        await asyncio.shield(ending)
        raise EngineEnded
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await ended(process, _END_SECONDS)


async def _is_seated(api: Api, workspace_id: str) -> bool:
    with suppress(NoAnswer, ApiError):  # as long as it has told none, there is no prompt
        await api.get(f"/workspaces/{workspace_id}/prompt")
        return bool((await api.get(f"/workspaces/{workspace_id}"))["status"] == "online")
    return False


def _written(posting: Posting) -> Path:
    """The agent's folder, as the company's file has it now; what the agent remembers in it stays."""
    home = Path(posting.folder)
    (home / ".molecule").mkdir(parents=True, exist_ok=True, mode=0o700)
    script = resources.files(__package__).joinpath(SCRIPT).read_text(encoding="utf-8")
    (home / SCRIPT).write_text(script, encoding="utf-8")
    (home / "system-prompt.md").write_text(f"{posting.seat.prompt.strip()}\n", encoding="utf-8")
    seat = posting.seat
    config = _CONFIG.format(name=_quoted(seat.name), role=_quoted(seat.role), script=SCRIPT)
    (home / "config.yaml").write_text(config, encoding="utf-8")
    return home


def _quoted(text: str) -> str:
    """As a string of YAML, which one of JSON is."""
    return msgspec.json.encode(text).decode()
