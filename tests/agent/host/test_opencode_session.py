"""Messages become prompts of the session of opencode that a person has started with a port. A real agent's process
below a program of that name; the server of its TUI is played by a test."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.host.opencode_session import OpencodeCommand, find_command, parse_command
from testing.mcp_host import Agent, agent, single
from testing.ports import free_port
from testing.processes import MOLECULE
from testing.running_server import Running, Seat
from testing.waits import eventually
from tests.requirements import requirement

LATER = 4_000_000_000_000
"""A time after the start of every process."""


class TuiServer:
    """The server of a TUI with sessions, which notes the prompts."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path.cwd()
        self.password = ""
        self.sessions: list[dict[str, Any]] = []
        self.busy: set[str] = set()
        self.failures = 0
        self.looks = 0
        self.shown: list[str] = []
        self.prompts: list[tuple[str, str]] = []

    def add_session(self, name: str, updated: int = LATER, **more: Any) -> None:
        """A session in this folder."""
        about = {"id": name, "directory": str(self.folder), "time": {"created": 1, "updated": updated}}
        self.sessions.append({**about, **more})

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """The server listens."""
        async with await asyncio.start_server(self._serve, "127.0.0.1", self.port):
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            status, answer = self._answer(head[0].split(" ")[:2], headers.get("authorization", ""), body)
            content = b"" if answer is None else json.dumps(answer).encode()
            lines = (f"HTTP/1.1 {status} played", f"content-length: {len(content)}", "connection: close", "", "")
            writer.write("\r\n".join(lines).encode() + content)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, words: list[str], authorization: str, body: bytes) -> tuple[int, Any]:
        path = words[1].partition("?")[0]
        expected = "Basic " + base64.b64encode(f"opencode:{self.password}".encode()).decode()
        if self.password and authorization != expected:
            return 401, None
        if words[0] == "GET":
            self.looks += path == "/session/status"
            known = {"/path": {"directory": str(self.folder)}, "/session": self.sessions}
            return 200, known.get(path, {each: {"type": "busy"} for each in self.busy})
        return self._act(path, json.loads(body))

    def _act(self, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        if path == "/session":
            self.add_session("new")
            return 200, self.sessions[-1]
        if path == "/tui/select-session":
            self.shown.append(body["sessionID"])
            return 200, True
        if self.failures:
            self.failures -= 1
            return 500, {"name": "UnknownError"}
        assert path.endswith("/prompt_async")
        self.prompts.append((path.split("/")[2], body["parts"][0]["text"]))
        return 204, None

    async def prompted(self, count: int) -> list[tuple[str, str]]:
        """The prompts, as soon as there are so many: sessions and texts."""

        async def look() -> list[tuple[str, str]]:
            return self.prompts

        return await eventually(look, lambda found: len(found) == count)


@pytest.fixture
async def tui() -> AsyncIterator[TuiServer]:
    """A server that listens."""
    server = TuiServer()
    async with server.listening():
        yield server


@asynccontextmanager
async def below_opencode(state: Path, one: Running, seat: Seat, *arguments: str, **more: str) -> AsyncIterator[Agent]:
    """An agent's process below a program that is called opencode and has these arguments."""
    program, script = state / "opencode", state / "script"
    program.symlink_to("/bin/sh")
    script.write_text(f'"{MOLECULE}" mcp\nexit $?\n')
    own = {"OPENCODE_SERVER_PASSWORD": "", **more, **single(one, seat)}
    async with agent(state, command=(str(program), str(script), *arguments), **own) as process:
        await process.greet("opencode")
        try:
            yield process
        finally:  # a kill of the program would leave the process below it
            process.close()
            await process.ended()


@requirement("G15h")
async def test_each_message_is_one_prompt_of_the_session_that_was_used_last(
    one: Running, state: Path, tui: TuiServer
) -> None:
    seat, person = await one.seat(), await one.person()
    tui.add_session("mine", LATER)
    tui.add_session("earlier", LATER - 1)
    tui.add_session("child", LATER + 1, parentID="mine")
    tui.add_session("elsewhere", LATER + 1, directory="/elsewhere")
    tui.add_session("archived", time={"updated": LATER + 1, "archived": LATER + 1})
    tui.failures = 1
    async with below_opencode(state, one, seat, "--port", str(tui.port)) as process:
        sent = [(await person.send(seat.id, text))["activity_id"] for text in ("one & all", "two")]
        prompts = await tui.prompted(2)
        messages = (await process.call("inbox_peek"))["messages"]
        await process.hears("the server of opencode answers with status 500")
    assert [session for session, _ in prompts] == ["mine", "mine"]
    assert "one & all" in prompts[0][1]
    assert "two" in prompts[1][1]
    assert [each["activity_id"] for each in messages] == sent
    assert (len(tui.prompts), tui.shown) == (2, [])


@requirement("G15h")
async def test_a_busy_session_gets_the_message_when_it_is_idle(one: Running, state: Path, tui: TuiServer) -> None:
    seat, person = await one.seat(), await one.person()
    tui.add_session("mine")
    tui.add_session("other", LATER - 1)
    tui.busy = {"mine"}
    async with below_opencode(state, one, seat, f"--port={tui.port}"):
        await person.send(seat.id, "hello")
        await eventually(lambda: _value(tui.looks), lambda looks: looks >= 2)
        assert tui.prompts == []
        tui.busy = {"other"}
        assert [session for session, _ in await tui.prompted(1)] == ["mine"]


async def _value(value: int) -> int:
    return value


@requirement("G15h")
async def test_without_a_session_since_the_start_one_is_shown_and_used_again(
    one: Running, state: Path, tui: TuiServer
) -> None:
    seat, person = await one.seat(), await one.person()
    tui.add_session("of yesterday", 1)
    async with below_opencode(state, one, seat, "--port", str(tui.port)):
        for count in (1, 2):
            await person.send(seat.id, "hello")
            await tui.prompted(count)
    assert ([session for session, _ in tui.prompts], tui.shown) == (["new", "new"], ["new"])


@pytest.mark.parametrize("arguments", [("--continue",), ("-s", "old")])
async def test_a_session_that_the_command_has_opened_is_meant(
    one: Running, state: Path, tui: TuiServer, arguments: tuple[str, ...]
) -> None:
    seat, person = await one.seat(), await one.person()
    tui.add_session("old", 1)
    async with below_opencode(state, one, seat, "--port", str(tui.port), *arguments):
        await person.send(seat.id, "hello")
        assert [session for session, _ in await tui.prompted(1)] == ["old"]
    assert tui.shown == []


@requirement("G15h")
async def test_a_refused_password_is_reported_once_and_the_message_waits(
    one: Running, state: Path, tui: TuiServer
) -> None:
    seat, person = await one.seat(), await one.person()
    tui.add_session("mine")
    tui.password = "right"
    async with below_opencode(state, one, seat, "--port", str(tui.port), OPENCODE_SERVER_PASSWORD="wrong") as process:
        await person.send(seat.id, "hello")
        await process.hears("the server of opencode refuses the password. Set OPENCODE_SERVER_PASSWORD")
        assert (await process.next())["text"] == "hello"
        assert (process.said.count("refuses the password"), tui.prompts) == (1, [])


@requirement("G15h")
async def test_the_password_of_the_environment_is_used(one: Running, state: Path, tui: TuiServer) -> None:
    seat, person = await one.seat(), await one.person()
    tui.add_session("mine")
    tui.password = "right"
    async with below_opencode(state, one, seat, "--port", str(tui.port), OPENCODE_SERVER_PASSWORD="right"):
        await person.send(seat.id, "hello")
        assert [session for session, _ in await tui.prompted(1)] == ["mine"]


@requirement("G15h")
async def test_the_server_of_another_folder_gets_nothing(one: Running, state: Path, tui: TuiServer) -> None:
    seat, person = await one.seat(), await one.person()
    tui.folder = Path("/elsewhere")
    async with below_opencode(state, one, seat, "--port", str(tui.port)) as process:
        await person.send(seat.id, "hello")
        await process.hears("is the server of opencode in another folder")
        assert (await process.next())["text"] == "hello"
    assert (tui.prompts, tui.sessions) == ([], [])


@requirement("G15h")
async def test_a_message_waits_for_a_server_that_is_gone(one: Running, state: Path) -> None:
    seat, person = await one.seat(), await one.person()
    tui = TuiServer()
    tui.add_session("mine")
    async with below_opencode(state, one, seat, "--port", str(tui.port)) as process:
        await person.send(seat.id, "one")
        await process.hears("the server of opencode does not answer")
        async with tui.listening():
            await tui.prompted(1)
        await person.send(seat.id, "two")
        await process.until(lambda each: each.said.count("the server of opencode does not answer") == 2)
        async with tui.listening():
            assert "two" in (await tui.prompted(2))[1][1]


@pytest.mark.parametrize("arguments", [(), ("serve", "--port", "{port}"), ("acp", "--port", "{port}")])
async def test_without_a_port_or_a_screen_the_message_waits_for_the_tools(
    one: Running, state: Path, tui: TuiServer, arguments: tuple[str, ...]
) -> None:
    seat, person = await one.seat(), await one.person()
    tui.add_session("mine")
    async with below_opencode(state, one, seat, *(each.format(port=tui.port) for each in arguments)) as process:
        await person.send(seat.id, "hello")
        assert (await process.next())["text"] == "hello"
    assert (tui.looks, tui.prompts) == (0, [])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--port 4096", OpencodeCommand("http://127.0.0.1:4096")),
        ("--port=4096 --hostname=localhost", OpencodeCommand("http://localhost:4096")),
        ("--hostname 0.0.0.0 --port 1 --port 2", OpencodeCommand("http://127.0.0.1:2")),
        ("--hostname ::1 --port 4096", OpencodeCommand("http://[::1]:4096")),
        ("--port 4096 --session s1", OpencodeCommand("http://127.0.0.1:4096", "s1")),
        ("--port 4096 -s s1 --fork", OpencodeCommand("http://127.0.0.1:4096", "", continues=True)),
        ("--port 4096 -c", OpencodeCommand("http://127.0.0.1:4096", "", continues=True)),
        ("--port", None),
        ("--port 0", None),
        ("--port 65536", None),
        ("--port x", None),
        ("--hostname 192.0.2.1 --port 4096", None),
        ("run --port 4096 hello", None),
    ],
)
def test_the_command_of_opencode_names_its_server(arguments: str, expected: OpencodeCommand | None) -> None:
    assert parse_command(arguments.split()) == expected


def test_the_nearest_opencode_among_the_ancestors_is_meant() -> None:
    lines = {
        3: ["/bin/sh", "/home/ada/.molecule/bin/molecule", "mcp", "--port", "9"],
        2: ["/usr/lib/opencode", "--port", "1"],
        1: ["opencode", "--port", "2"],
    }
    assert find_command([4, 3, 2, 1], lambda pid: lines.get(pid, [])) == OpencodeCommand("http://127.0.0.1:1")
    assert find_command([4, 3], lambda pid: lines.get(pid, [])) is None
