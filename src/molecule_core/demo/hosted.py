"""An agent of the company that knows nothing of HTTP: it lives in a host of MCP servers, as an agent in Claude Code or
Codex does, and reads and answers its mail through the tools of `molecule mcp` alone.

Above: agent. Below: mcp, the protocol; mind, which decides.
"""

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from molecule_core.demo.mail import approval_of, card_of
from molecule_core.demo.mcp import McpServer, ToolRefused, started
from molecule_core.demo.mind import State, react
from molecule_core.demo.model import Ack, Action, Answer, Message, PassOn, Posting, Report, Say, Seat, Work
from molecule_core.ground.clock import Clock
from molecule_core.ground.settings import environment

_COMMAND = (sys.executable, "-P", "-m", "molecule_core", "mcp")
_WAIT_SECONDS = 60
_AGAIN_SECONDS = 1.0


class Hosted:
    """Keeps one seat."""

    def __init__(self, seat: Seat, tools: McpServer, clock: Clock) -> None:
        self._seat = seat
        self._tools = tools
        self._clock = clock

    async def run(self, seated: Callable[[], None]) -> None:
        """Says who it is, then takes its mail for ever. Raises ServerEnded.

        After the first look into its inbox the seat is taken: what it said before that could be overwritten."""
        came = await self._insist(lambda: self._tools.call("wait_for_message", timeout_secs=0))
        await self._insist(lambda: self._tools.call("update_agent_card", card=card_of(self._seat)))
        seated()
        while True:
            if came["message"] is not None:
                await self._handle(heard(came["message"]))
            came = await self._insist(lambda: self._tools.call("wait_for_message", timeout_secs=_WAIT_SECONDS))

    async def _handle(self, message: Message) -> None:
        """A specialist needs nothing but the message: what is not acknowledged comes again, also to its next life."""
        for action in react(self._seat, State(), message).actions:
            try:
                await self._act(action, message)
            except ToolRefused as error:  # a peer may have been removed
                sys.stderr.write(f"{self._seat.name}: {error}\n")

    async def _act(self, action: Action, about: Message) -> None:
        answers = {"activity_id": about.id, "attempt": about.attempt}
        match action:
            case Work():
                await self._clock.wait(asyncio.get_running_loop().create_future(), action.seconds)
            case Say():
                await self._tools.call("reply_to_workspace", text=action.text, **answers)
            case Answer():
                await self._tools.call("reply_to_workspace", peer_id=about.sender, text=action.text, **answers)
            case Report():
                told = {"current_step": action.step, "percent": action.percent}
                await self._tools.call("report_progress", task_id=action.delegation_id, **told)
            case Ack():
                await self._tools.call("inbox_pop", **answers)
            case PassOn():
                wanted = action.approval
                told = {"approval_id": wanted.id, "revision": wanted.revision, "action_hash": wanted.action_hash}
                await self._tools.call("decide_approval", decision="escalate", note=action.note, **told)
            case _:  # a specialist asks nobody, and one in a host needs no leave
                raise AssertionError(action)

    async def _insist(self, call: Callable[[], Any]) -> Any:
        """Asks until the tool has an answer: the server of the company may be away."""
        while True:
            try:
                return await call()
            except ToolRefused as error:
                sys.stderr.write(f"{self._seat.name}: {error}\n")
            await self._clock.wait(asyncio.get_running_loop().create_future(), _AGAIN_SECONDS)


def heard(told: dict[str, Any]) -> Message:
    """A message as `wait_for_message` gives it."""
    wanted = told.get("kind") == "approval_request"
    return Message(
        id=told["activity_id"],
        attempt=told.get("attempt", 0),
        text=told["text"],
        sender=told.get("peer_id") or None,
        delegation_id=told.get("delegation_id", ""),
        wants_answer=told.get("intent", "request") == "request" and not wanted,
        approval=approval_of({"status": "pending", **told}) if wanted else None,
        to_decide=wanted,
    )


async def host(posting: Posting, clock: Clock, seated: Callable[[], None], *, lease: int, beat: float) -> None:
    """Starts `molecule mcp` for a seat and keeps the seat. `lease`, `beat`: seconds, as those of the other agents.
    Raises ServerEnded."""
    own = {
        "WORKSPACE_ID": posting.workspace_id,
        "MOLECULE_WORKSPACE_TOKEN": posting.token,
        "PLATFORM_URL": posting.url,
        "CONFIGS_DIR": posting.folder,
        "MOLECULE_AGENT_NAME": posting.seat.name,
        "MOLECULE_MCP_LEASE_SECONDS": str(lease),
        "MOLECULE_MCP_HEARTBEAT_SECONDS": str(beat),
    }
    async with started(_COMMAND, {**environment(), **own}) as tools:
        await Hosted(posting.seat, tools, clock).run(seated)
