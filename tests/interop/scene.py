"""What the tests of real hosts do: a person writes, a host is configured and runs, the chat is looked at."""

import json
import os
import shlex
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from molecule_core.client.host_config_edit import add_workspace
from molecule_core.tools.host_config import HostWorkspace as Configured
from molecule_core.tools.host_config import find_host, render_configuration, workspace_entry
from testing.hostile_modules import HostileModules
from testing.processes import MOLECULE, Process, environment, started
from testing.running_server import Running, Seat
from tests.interop.hosts import Home, Ran, RealHost, outside_world, run
from tests.interop.model_endpoint import Endpoint, listening
from tests.interop.model_scripts import Asked, Call, Mind, Step

MCP = (sys.executable, "-P", "-m", "molecule_core", "mcp")
TAP = Path(__file__).with_name("tap.py")


class Visit(NamedTuple):
    """A host's run: the process, what its model was asked and did, and the lines between it and `molecule mcp`."""

    ran: Ran
    mind: Mind
    lines: tuple[str, ...]

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
    def went_well(self) -> bool:
        """The host ended as it should, and its model could do all that its script says."""
        return self.ran.code == 0 and self.mind.faults == [] and self.mind.asked != []

    @property
    def told(self) -> str:
        """Everything that may tell why a test is red."""
        lines = "\n".join(self.lines)
        return f"{self.mind.faults}\nout: {self.ran.out[-3000:]}\nerr: {self.ran.err[-3000:]}\n{lines[-3000:]}"


class Sitting(NamedTuple):
    """A seat on a server, and a person who writes to it."""

    server: Running
    seat: Seat
    person: ApiClient

    async def writes(self, text: str) -> str:
        """The person writes to the seat; returns the activity's id."""
        return str((await self.person.send(self.seat.id, text))["activity_id"])

    async def chat(self) -> list[tuple[str, str]]:
        """Who said what in the seat's chat, as the person sees it."""
        page = await self.person.get(f"/workspaces/{self.seat.id}/chat-history")
        return [(line["role"], line["content"]) for line in page["messages"]]

    async def became(self, activity_id: str) -> list[str]:
        """What became of a message, in order; not that it was read, which a quick answer makes needless to report."""
        told = await self.person.get(f"/workspaces/{self.seat.id}/messages/{activity_id}/ticks")
        return [tick["tick"] for tick in told["ticks"] if tick["tick"] != "handed_over"]


async def sitting(server: Running, name: str = "Ops", **fields: Any) -> Sitting:
    """A new seat on a server."""
    return Sitting(server, await server.seat(name, **fields), await server.person())


class Scene:
    """A host in a home of its own, a model for it, and a seat that it may take."""

    def __init__(self, host: RealHost, home: Home, endpoint: Endpoint, ops: Sitting) -> None:
        self.host = host
        self.home = home
        self.endpoint = endpoint
        self.ops = ops
        told = find_host(host.name)
        assert told is not None
        self.told = told
        self.secrets: dict[str, str] = {}

    @property
    def tap(self) -> tuple[str, ...]:
        """What to put before the command that the host is told, so that the lines of the wire are written down."""
        return (sys.executable, str(TAP), str(self.home.path / "lines"))

    def configure(self, *others: Sitting, before: tuple[str, ...] = ()) -> None:
        """What `molecule connect` does to the host's file, for our seat and others, with each token in a file of its
        own. `before`: what stands before our command."""
        command = (*before, *MCP)
        for each in (self.ops, *others):
            self.home.write(f"~/{each.seat.id}.token", each.seat.token)
            edited = add_workspace(self.told, self.home.read(self.told.file), command, self._configured(each))
            self.home.write(self.told.file, edited)

    def configure_http(self, path: str) -> None:
        """The host is told of our server's own endpoint instead; its token is handed over when it starts."""
        text = self.host.over_http(self.home.read(self.told.file), self.ops.server.url + path)
        self.home.write(self.told.file, text)
        self.secrets = {"MOLECULE_WORKSPACE_TOKEN": self.ops.seat.token}

    def configuration(self) -> str:
        """The same as text, for a host that has nothing else configured."""
        return render_configuration(self.told, MCP, [workspace_entry(self._configured(self.ops))])

    def _configured(self, sitting: Sitting) -> Configured:
        return Configured(sitting.seat.id, sitting.server.url, str(self.home.path / f"{sitting.seat.id}.token"))

    @asynccontextmanager
    async def connecting(self, *flags: str, installed: bool = False) -> AsyncIterator[Process]:
        """`molecule connect`, as the operator of the server calls it in the project's folder. `installed`: the host is
        on the PATH, and is asked for its servers."""
        settings = environment(self.home.path / ".molecule", self.ops.server.port, HOME=str(self.home.path))
        settings |= {"MOLECULE_CONNECT_HOST_SECONDS": "0"}
        if installed:
            folder = self.home.path / "programs"
            self._install(folder / self.told.program)
            settings |= outside_world(self.home, self.endpoint) | self.host.variables(self.home, self.endpoint)
            settings |= {"PATH": f"{folder}:{os.defpath}", "MOLECULE_CONNECT_HOST_SECONDS": "120"}
        async with started(MOLECULE, "connect", self.host.name, *flags, env=settings, cwd=self.home.project) as process:
            yield process

    def _install(self, program: Path) -> None:
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.host.pinned.command())} "$@"\n')
        program.chmod(0o755)

    @property
    def launcher(self) -> Path:
        """The program that `molecule connect` has the host start."""
        return self.home.path / ".molecule" / "bin" / "molecule"

    def offered(self, asked: Asked) -> set[str]:
        """The tools of ours that the model may call at once, by their bare names."""
        return {name.removeprefix(self.host.prefix) for name in asked.tools if name.startswith(self.host.prefix)}

    async def run(self, *steps: Step) -> Visit:
        """The host runs to its end; its model plays the steps."""
        self.endpoint.mind = Mind(self.host.prefix, steps)
        ran = await run(self.host, self.home, self.endpoint, self.secrets)
        file = self.home.path / "lines"
        lines = tuple(file.read_text(encoding="utf-8").splitlines()) if file.exists() else ()
        return Visit(ran, self.endpoint.mind, lines)


@asynccontextmanager
async def staged(host: RealHost, place: Path, ops: Sitting) -> AsyncIterator[Scene]:
    """A host that may take a seat: its home has been used before, without us, and its model listens."""
    home = Home(place)
    home.project.mkdir(parents=True)
    hostile = HostileModules(home.project, place / "executed")
    async with listening(Endpoint(host.dialect())) as endpoint:
        host.settle(home, endpoint)
        yield Scene(host, home, endpoint, ops)
    assert hostile.executed == []


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
