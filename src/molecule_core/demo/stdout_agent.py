"""A demo agent that only reads a message on standard input, prints its answer, and ends.

`molecule bridge command` runs it for each message, as it would any script or command line model. Its output reaches the
sender only if it is caught, which is what the demo shows."""

import asyncio
import html
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.clock import Clock
from molecule_core.common.settings import environment
from molecule_core.demo.model import AgentAssignment, DemoMessage, DemoWorkspace
from molecule_core.demo.replies import answer_text
from molecule_core.demo.shutdown import wait_or_kill

_SEAT_VARIABLE = "MOLECULE_DEMO_SEAT"
_PYTHON = (sys.executable, "-P", "-m")
_BODY = re.compile(r"<body>(.*)</body>", re.DOTALL)
_RETRY_SECONDS = 0.2
_END_SECONDS = 5.0


class BridgeEndedError(Exception):
    """The bridge's process has ended."""


def message_from_stdin(stdin_text: str) -> DemoMessage:
    """Return the message in a bridge's input; without instructions around it, the whole text."""
    found = _BODY.search(stdin_text)
    text = html.unescape(found[1]) if found else stdin_text
    return DemoMessage(id="", attempt=1, text=text.strip())


async def run_stdout_agent(
    assignment: AgentAssignment, clock: Clock, on_ready: Callable[[], None], *, lease: int, beat: float
) -> None:
    """Run the bridge of a workspace until it ends. `lease`, `beat`: seconds, as for the other agents.

    `on_ready` is called once the workspace is online. Raises BridgeEndedError."""
    own = {
        "WORKSPACE_ID": assignment.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": assignment.token,
        "PLATFORM_URL": assignment.url,
        "CONFIGS_DIR": assignment.folder,
        "MOLECULE_AGENT_NAME": assignment.seat.name,
        "MOLECULE_AGENT_DESCRIPTION": assignment.seat.role,
        "MOLECULE_MCP_LEASE_SECONDS": str(lease),
        "MOLECULE_MCP_HEARTBEAT_SECONDS": str(beat),
        _SEAT_VARIABLE: msgspec.json.encode(assignment.seat).decode(),
    }
    command = (*_PYTHON, "molecule_core", "bridge", "command", "--until-eof", "--", *_PYTHON, __name__)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, env={**environment(), **own}
    )
    exit_task = asyncio.ensure_future(process.wait())
    try:
        async with ApiClient(assignment.url, assignment.token) as api:
            while not exit_task.done() and not await _is_online(api, assignment.workspace_id):
                await clock.wait(asyncio.shield(exit_task), _RETRY_SECONDS)
        if not exit_task.done():
            on_ready()
        await asyncio.shield(exit_task)
        raise BridgeEndedError
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await wait_or_kill(process, _END_SECONDS)


async def _is_online(api: ApiClient, workspace_id: str) -> bool:
    with suppress(NoAnswerError, ApiError):
        return bool((await api.get(f"/workspaces/{workspace_id}"))["status"] == "online")
    return False


def main() -> None:
    """Answer one message."""
    seat = msgspec.convert(json.loads(os.environ[_SEAT_VARIABLE]), DemoWorkspace)
    sys.stdout.write(f"{answer_text(seat, message_from_stdin(sys.stdin.read()), ())}\n")


if __name__ == "__main__":
    main()
