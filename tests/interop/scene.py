"""What the tests of real hosts do: a person writes, a host is configured and runs, the chat is looked at."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from molecule_core.client.api import Api
from molecule_core.wire.hosts import Seat as Configured
from molecule_core.wire.hosts import configuration, entry_of_seat, host_of
from tests.interop.endpoint import Endpoint, listening
from tests.interop.hosts import Home, Ran, RealHost, run
from tests.interop.minds import Asked, Call, Mind, Step
from tests.running import Running, Seat

MCP = (sys.executable, "-m", "molecule_core", "mcp")
TAP = Path(__file__).with_name("tap.py")
ROOT = Path(__file__).resolve().parents[2]
TOKEN_FILE = ".molecule/agents/ops.token"


class Visit(NamedTuple):
    """A host's run: the process, what its model was asked and did, and the lines between it and `molecule mcp`."""

    ran: Ran
    endpoint: Endpoint
    lines: tuple[str, ...]

    @property
    def mind(self) -> Mind:
        """The model's part."""
        return self.endpoint.mind

    def from_us(self) -> list[dict[str, Any]]:
        """The messages of `molecule mcp`, in order. A line that is no message is an error here, as it is to hosts."""
        return [json.loads(line[2:]) for line in self.lines if line.startswith("<")]

    def to_us(self, method: str = "") -> list[dict[str, Any]]:
        """The messages of the host, all or those of one method."""
        all_of_them = [json.loads(line[2:]) for line in self.lines if line.startswith(">")]
        return [each for each in all_of_them if method in ("", each.get("method"))]

    def answer_to(self, method: str) -> dict[str, Any]:
        """The result of the first request of a method."""
        (asked, *_) = self.to_us(method)
        return dict(next(each for each in self.from_us() if each.get("id") == asked["id"])["result"])

    @property
    def told(self) -> str:
        """Everything that may tell why a test is red."""
        lines = "\n".join(self.lines)
        return f"{self.mind.faults}\nout: {self.ran.out[-3000:]}\nerr: {self.ran.err[-3000:]}\n{lines[-3000:]}"


class Scene:
    """A server with a seat, a person, and a home for a host."""

    def __init__(self, server: Running, home: Home, seat: Seat, person: Api) -> None:
        self.server = server
        self.home = home
        self.seat = seat
        self.person = person

    async def writes(self, text: str) -> str:
        """The person writes to the seat; returns the activity's id."""
        return str((await self.person.send(self.seat.id, text))["activity_id"])

    async def chat(self) -> list[tuple[str, str]]:
        """Who said what in the seat's chat, as the person sees it."""
        page = await self.person.get(f"/workspaces/{self.seat.id}/chat-history")
        return [(line["role"], line["content"]) for line in page["messages"]]

    async def became(self, activity_id: str) -> list[str]:
        """What became of a message, in order."""
        told = await self.person.get(f"/workspaces/{self.seat.id}/messages/{activity_id}/ticks")
        return [tick["tick"] for tick in told["ticks"]]

    def configured(self, host: RealHost, *, tapped: bool = False) -> tuple[str, str]:
        """The file of the host that a person edits, and what `molecule connect` has him put there for this seat."""
        known = host_of(host.name)
        assert known is not None
        command = (sys.executable, str(TAP), str(self.home.path / "lines"), *MCP) if tapped else MCP
        seat = Configured(self.seat.id, self.server.url, str(self.home.path / TOKEN_FILE))
        return known.file, configuration(known, command, [entry_of_seat(seat)])

    def configure(self, host: RealHost, *, tapped: bool = False) -> None:
        """Does it, with the token in a file of its own. `tapped`: the lines of the wire are written down."""
        self.home.write(f"~/{TOKEN_FILE}", self.seat.token)
        self.home.write(*self.configured(host, tapped=tapped))

    async def run(self, host: RealHost, steps: Sequence[Step]) -> Visit:
        """The host runs to its end; its model plays the steps."""
        async with listening(Endpoint(host.dialect(), Mind(host.prefix, steps))) as endpoint:
            host.settle(self.home, endpoint)
            ran = await run(host, self.home, endpoint)
        file = self.home.path / "lines"
        lines = tuple(file.read_text(encoding="utf-8").splitlines()) if file.exists() else ()
        return Visit(ran, endpoint, lines)


# -- steps -------------------------------------------------------------------------------------------------------------


def peeks(_asked: Asked) -> Call:
    """Looks at what waits."""
    return Call("inbox_peek", {})


def waits(_asked: Asked) -> Call:
    """Waits for a message."""
    return Call("wait_for_message", {"timeout_secs": 20})


def answers(asked: Asked) -> Call:
    """Answers the one message that the tool before has shown, with its words and the ids that came with it."""
    shown = asked.last
    (message,) = shown["messages"] if "messages" in shown else [shown["message"]]
    seat = {"workspace_id": message["arrival_workspace_id"]} if "arrival_workspace_id" in message else {}
    named = {"activity_id": message["activity_id"], "peer_id": message.get("peer_id", "")}
    return Call("reply_to_workspace", {**seat, **named, "text": answer_to(message["text"])})


def answer_to(text: str) -> str:
    """What nobody says who has not read the text."""
    return f"{len(text)} letters, backwards: {text[::-1]}"
