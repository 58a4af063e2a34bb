"""Agents that have never heard of Molecule: what they do is a function of the words that came with a message."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from testing.running_server import Running, Seat

TOOLS = ("reply", "reply_to_workspace", "send_message_to_user", "decline", "inbox_pop")
# A tool with what to give it: mcp__molecule__reply(handle="m17-k3f9q", text=…). A tool that is only spoken of, like
# reply(handle, text), tells nobody what to give.
_CALL = re.compile(r"(?:mcp__molecule__)?(\w+)\(((?:\w+=[^,()]*)(?:, \w+=[^,()]*)*)\)")


class Call(NamedTuple):
    """A tool that words name, with its arguments. An argument that is not spelled out is None."""

    tool: str
    arguments: dict[str, str | None]


class Heard(NamedTuple):
    """A message as it came: the row, and what was said with it."""

    row: dict[str, Any]
    instructions: dict[str, Any]

    @property
    def text(self) -> str:
        """The words."""
        return str(self.instructions["text"])

    @property
    def told_by(self) -> str:
        """The template and its version."""
        return str(self.instructions["template"])


def call_in(text: str) -> Call | None:
    """The call that the words tell an agent to make; None: they name no tool."""
    found = _CALL.findall(text)
    if not found:
        return None
    tool, given = found[-1]
    arguments: dict[str, str | None] = {}
    for name, _, value in (each.partition("=") for each in given.split(", ")):
        arguments[name] = value[1:-1] if value[:1] == '"' == value[-1:] else None
    return Call(tool, arguments)


class Agent:
    """Reads its mail as a host would, and answers as it is told. What it is told nothing about goes to its stdout."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.heard: list[Heard] = []
        self.stdout: list[str] = []
        self.is_mute = False
        """Whether it answers at all at this moment, whatever it is told."""

    async def turn(self) -> list[Heard]:
        """Takes what there is, answers, and is done with it."""
        path = f"/workspaces/{self.seat.id}/activity"
        rows = await self.seat.api.get(path, claim=60, limit=50, include="instructions")
        heard = [Heard(row, row.get("instructions") or {"text": "", "template": "", "form": ""}) for row in rows]
        for each in heard:
            await self._answer(each)
            await self.seat.api.ack(self.seat.id, each.row)
        self.heard += heard
        return heard

    async def _answer(self, heard: Heard) -> None:
        text = f"an answer to {heard.row['id']}"
        call = None if self.is_mute else call_in(heard.text)
        if call is None:
            self.stdout.append(text)
        else:
            await self._call(call, heard, text)

    async def _call(self, call: Call, heard: Heard, text: str) -> None:
        """What the tool does: a route of the public API."""
        own = f"/workspaces/{self.seat.id}"
        if call.tool == "reply":
            await self.seat.api.post(f"{own}/reply", {"handle": call.arguments["handle"], "text": text})
        elif call.tool == "reply_to_workspace":
            named = call.arguments
            if "reply_handle" in named:
                await self.seat.api.post(f"{own}/reply", {"handle": named["reply_handle"], "text": text})
                return
            peer = (heard.row["source_id"] or "") if named["peer_id"] is None else named["peer_id"]
            await (self.seat.api.send(peer, text) if peer else self.seat.api.post(f"{own}/notify", {"message": text}))
        else:
            raise AssertionError(f"this agent has no tool {call.tool!r}")


async def agent_of(server: Running, name: str = "Ops", tools: Sequence[str] = TOOLS, **fields: Any) -> Agent:
    """A new workspace, of Claude Code if nothing else is said, with an agent that has these tools."""
    seat = await server.seat(name, **{"runtime": "claude-code", **fields})
    card = {"name": name, "loaded_mcp_tools": list(tools)}
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": card})
    return Agent(seat)
