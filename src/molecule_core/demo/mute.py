"""An agent of the company that knows of no platform: it reads a message on its standard input, prints its answer, and
ends. `molecule bridge command` stands before it, as it would before anybody's script or command line model.

Nobody reads what it prints, unless somebody catches it: that is what the demo shows with it.

Above: agent, which starts the bridge; the bridge, which starts this for each message. Below: saying, which answers.
"""

import asyncio
import html
import json
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress

import msgspec

from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.demo.ending import ended
from molecule_core.demo.model import Message, Posting, Seat
from molecule_core.demo.saying import answer
from molecule_core.ground.clock import Clock
from molecule_core.ground.settings import environment

_SEAT = "MOLECULE_DEMO_SEAT"
_PYTHON = (sys.executable, "-P", "-m")
_BODY = re.compile(r"<body>(.*)</body>", re.DOTALL)
_AGAIN_SECONDS = 0.2
_END_SECONDS = 5.0


class BridgeEnded(Exception):
    """The bridge's process has ended."""


def heard(told: str) -> Message:
    """The message in what a bridge hands over; all of it, where there are no instructions around it."""
    found = _BODY.search(told)
    text = html.unescape(found[1]) if found else told
    return Message(id="", attempt=1, text=text.strip())


async def keep(posting: Posting, clock: Clock, seated: Callable[[], None], *, lease: int, beat: float) -> None:
    """Starts the bridge for a seat, and keeps it until it ends; `seated` is called once the server has seen it.
    `lease`, `beat`: seconds, as those of the other agents. Raises BridgeEnded."""
    own = {
        "WORKSPACE_ID": posting.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": posting.token,
        "PLATFORM_URL": posting.url,
        "CONFIGS_DIR": posting.folder,
        "MOLECULE_AGENT_NAME": posting.seat.name,
        "MOLECULE_AGENT_DESCRIPTION": posting.seat.role,
        "MOLECULE_MCP_LEASE_SECONDS": str(lease),
        "MOLECULE_MCP_HEARTBEAT_SECONDS": str(beat),
        _SEAT: msgspec.json.encode(posting.seat).decode(),
    }
    command = (*_PYTHON, "molecule_core", "bridge", "command", "--until-eof", "--", *_PYTHON, __name__)
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, env={**environment(), **own}
    )
    ending = asyncio.ensure_future(process.wait())
    try:
        async with Api(posting.url, posting.token) as api:
            while not ending.done() and not await _is_seated(api, posting.workspace_id):
                await clock.wait(asyncio.shield(ending), _AGAIN_SECONDS)
        if not ending.done():
            seated()
        await asyncio.shield(ending)
        raise BridgeEnded
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await ended(process, _END_SECONDS)


async def _is_seated(api: Api, workspace_id: str) -> bool:
    with suppress(NoAnswer, ApiError):
        return bool((await api.get(f"/workspaces/{workspace_id}"))["status"] == "online")
    return False


def main() -> None:
    """One turn: a message in, its answer out."""
    seat = msgspec.convert(json.loads(os.environ[_SEAT]), Seat)
    sys.stdout.write(f"{answer(seat, heard(sys.stdin.read()), ())}\n")


if __name__ == "__main__":
    main()
