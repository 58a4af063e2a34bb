"""The bridge with sessions and real Claude Code: memory, permissions, questions, stops, and kills at any moment."""

import asyncio
import contextlib
import os
import random
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from molecule_core.client.api import ApiClient, NoAnswerError
from testing.ports import free_port
from testing.processes import Process, client, serving
from testing.running_server import Running, Seat, running
from testing.waits import eventually
from tests.interop.bridged import (
    RememberingMind,
    answers,
    bridging_claude,
    home_in,
    model,
    programs_of,
    question,
    runs,
    seen,
)
from tests.interop.hosts import Home
from tests.interop.model_endpoint import Endpoint
from tests.interop.model_scripts import Asked, Call
from tests.requirements import requirement

pytestmark = pytest.mark.long
# One second is asked for; the machine of the tests does other things too.
STOP_SECONDS = 15.0


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server with instructions, as it is by default."""
    state = tmp_path / "server"
    state.mkdir()
    async with running("sqlite", str(state / "molecule.db"), state, push_instructions_enabled=True) as server:
        yield server


def _has_at_least(count: int) -> Callable[[list[str]], bool]:
    return lambda said: len(said) >= count


@requirement("G17", "G20")
async def test_claude_code_remembers_a_conversation_over_restarts_of_its_bridge(
    server: Running, tmp_path: Path
) -> None:
    seat, person, home = await server.seat(), await server.person(), home_in(tmp_path)
    async with model(home) as endpoint:
        async with bridging_claude(server.url, seat, home, endpoint):
            for number in range(2):
                await person.send(seat.id, question(f"p{number}"))
                await seen(lambda: answers(server, seat), _has_at_least(number + 1))
        await person.send(seat.id, question("p2"))
        async with bridging_claude(server.url, seat, home, endpoint) as bridge:
            said = await seen(lambda: answers(server, seat), lambda said: len(said) >= 3)
            card = (await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"]
    assert said == [f"answer p{number}; known: {number + 1}" for number in range(3)], bridge.said
    assert (card["bridge"], card["bridged"]["program"]) == ("claude", "Claude Code")
    assert endpoint.strangers == []
    assert seat.token not in "".join(each.said for each in endpoint.mind.asked)


async def pending(person: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await person.get("/approvals/pending"))["approvals"]
    return found


@requirement("G16", "Q6")
async def test_a_permission_is_asked_with_its_whole_input_edited_and_denied_with_a_reason(
    server: Running, tmp_path: Path
) -> None:
    seat, person, home = await server.seat(), await server.person("owner"), home_in(tmp_path)
    async with model(home) as endpoint:
        mind = endpoint.mind
        assert isinstance(mind, RememberingMind)
        mind.acts_on = {"p0": runs("touch a.txt; echo done-a"), "p1": runs("touch b.txt")}
        async with bridging_claude(server.url, seat, home, endpoint) as bridge:
            await person.send(seat.id, question("p0"))
            (item,) = await seen(lambda: pending(person), bool)
            assert item["action"] == "permission:Bash", bridge.said
            path = f"/workspaces/{seat.id}/approvals/{item['approval_id']}"
            details = (await person.get(path))["details"]
            assert details["input"]["command"] == "touch a.txt; echo done-a"
            edited = {**details, "input": {**details["input"], "command": "touch edited.txt; echo done-edited"}}
            await person.post(f"{path}/decide", {"decision": "approve", "details": edited})
            assert await seen(lambda: answers(server, seat), bool) == ["it said: done-edited"]
            mind.acts_on["p1"] = _denied
            await person.send(seat.id, question("p1"))
            (item,) = await seen(lambda: pending(person), bool)
            path = f"/workspaces/{seat.id}/approvals/{item['approval_id']}"
            await person.post(f"{path}/decide", {"decision": "deny", "note": "not today, use staging"})
            said = await seen(lambda: answers(server, seat), lambda said: len(said) == 2)
    assert "says: not today, use staging" in said[1]
    assert (home.project / "edited.txt").exists() and not (home.project / "a.txt").exists()
    assert not (home.project / "b.txt").exists()


def _denied(asked: Asked) -> Any:
    if len(asked.results) < 2:
        return Call("Bash", {"command": "touch b.txt", "description": "as asked"})
    return f"it said: {asked.results[-1].text}"


@requirement("G17", "G20")
async def test_a_turn_is_stopped_within_a_second_and_the_session_goes_on(server: Running, tmp_path: Path) -> None:
    seat, person, home = await server.seat(), await server.person("owner"), home_in(tmp_path)
    async with model(home) as endpoint:
        mind = endpoint.mind
        assert isinstance(mind, RememberingMind)
        mind.acts_on = {"p0": runs("echo begun > begun.txt; sleep 600; touch late.txt")}
        flags = ("--permission-mode", "bypassPermissions", "--allow-skipping-permissions")
        async with bridging_claude(server.url, seat, home, endpoint, *flags, IS_SANDBOX="1") as bridge:
            sent = (await person.send(seat.id, question("p0")))["activity_id"]

            async def has_begun() -> bool:
                return (home.project / "begun.txt").exists()

            await seen(has_begun, bool)
            started = time.monotonic()
            await person.post(f"/workspaces/{seat.id}/live/stop", {"activity_id": sent})
            await seen(lambda: _state(seat, sent), lambda state: state == "declined")
            seconds = time.monotonic() - started
            await person.send(seat.id, question("p1"))
            said = await seen(lambda: answers(server, seat), lambda said: any("p1" in each for each in said))
    assert said[-1] == "answer p1; known: 2", bridge.said
    assert seconds < STOP_SECONDS, bridge.said


async def _state(seat: Seat, activity_id: str) -> str:
    page = await seat.api.get(f"/workspaces/{seat.id}/obligations", limit=100, state="all")
    return next((str(each["state"]) for each in page["obligations"] if each["activity_id"] == activity_id), "")


@requirement("G17", "G20")
async def test_a_question_of_claude_code_is_buttons_and_the_choice_is_its_answer(
    server: Running, tmp_path: Path
) -> None:
    seat, person, home = await server.seat(), await server.person("owner"), home_in(tmp_path)
    async with model(home) as endpoint:
        mind = endpoint.mind
        assert isinstance(mind, RememberingMind)
        mind.acts_on = {"p0": _asks_for_a_colour}
        async with bridging_claude(server.url, seat, home, endpoint) as bridge:
            await person.send(seat.id, question("p0"))
            page = await seen(lambda: _chat(server, seat), lambda lines: any(each.get("options") for each in lines))
            asked = next(each for each in page if each.get("options"))
            assert asked["options"] == ["Red", "Blue"]
            parts = [{"kind": "text", "text": "Blue"}]
            chosen = {"role": "user", "parts": parts, "metadata": {"option_of": asked["id"], "option": 1}}
            body = {"jsonrpc": "2.0", "id": "choice", "method": "message/send", "params": {"message": chosen}}
            await person.post(f"/workspaces/{seat.id}/a2a", body)
            said = await seen(lambda: answers(server, seat), lambda said: any("it said" in each for each in said))
    assert '"Which colour?"="Blue"' in said[-1], bridge.said


async def _chat(server: Running, seat: Seat) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await server.admin.get(f"/workspaces/{seat.id}/chat-history"))["messages"]
    return found


def _asks_for_a_colour(asked: Asked) -> Any:
    if asked.results:
        return f"it said: {asked.results[-1].text}"
    options = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
    asking = {"question": "Which colour?", "header": "Colour", "options": options, "multiSelect": False}
    return Call("AskUserQuestion", {"questions": [asking]})


# -- kills -------------------------------------------------------------------------------------------------------------

# A usual long run; the whole one, with 50 messages, by the environment: MOLECULE_BRIDGE_KILLS=20.
KILLS = int(os.environ.get("MOLECULE_BRIDGE_KILLS", "4"))
MESSAGES_PER_KILL = 2.5
# A bridge and its program start in two to four seconds: most kills come while they work.
LONGEST_PAUSE = 6.0


class Killed:
    """A server and a bridge that are killed and started again, and the programs of the bridge."""

    def __init__(self, folder: Path, home: Home, endpoint: Endpoint, dice: random.Random) -> None:
        self.dice = dice
        self._folder = folder
        self._home = home
        self._endpoint = endpoint
        self.port = free_port()
        self.kills: list[str] = []
        self.bridge: Process | None = None
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> "Killed":
        await self.start_server()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def start_server(self) -> None:
        self.server = await self._stack.enter_async_context(serving(self._folder, self.port))

    async def start_bridge(self, seat: Seat) -> None:
        url = f"http://127.0.0.1:{self.port}"
        self.bridge = await self._stack.enter_async_context(
            bridging_claude(url, seat, self._home, self._endpoint, MOLECULE_BRIDGE_RUNS="100")
        )

    async def kill(self, seat: Seat) -> None:
        """Kill -9 of one of the three, at whatever moment this is."""
        what = self.dice.choice(["bridge", "program", "server"])
        self.kills.append(what)
        if what == "server":
            await self.server.kill()
            await self.start_server()
        elif what == "bridge":
            assert self.bridge is not None
            await self.bridge.kill()
            await self.start_bridge(seat)
        else:
            for pid in programs_of(self._home):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


@requirement("G17", "G20", "P1")
async def test_kills_at_any_moment_lose_no_message_answer_none_twice_and_keep_the_memory(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    home, dice = home_in(tmp_path), random.Random(28)
    state = tmp_path / "killed"
    state.mkdir()
    count = int(KILLS * MESSAGES_PER_KILL / 2)
    async with model(home) as endpoint, Killed(state, home, endpoint, dice) as world:
        mind = endpoint.mind
        assert isinstance(mind, RememberingMind)
        endpoint.think_seconds = 0.5
        async with client(world.port) as admin, contextlib.AsyncExitStack() as stack:
            ops, peer = [await _seat(admin, world.port, name, stack) for name in ("Ops", "Peer")]
            await world.start_bridge(ops)
            asked: list[str] = []
            for number in range(count):
                for sender, mark in ((admin, f"p{number}"), (peer.api, f"q{number}")):
                    await _send_once(sender, ops.id, mark)
                    asked.append(mark)
                while len(world.kills) * MESSAGES_PER_KILL < len(asked) and len(world.kills) < KILLS:
                    with anyio.move_on_after(dice.random() * LONGEST_PAUSE):
                        await anyio.Event().wait()
                    await world.kill(ops)
            said = await eventually(
                lambda: _said(admin, ops, peer), lambda said: len(said) >= len(asked), 60.0 + 6 * KILLS
            )
            await eventually(lambda: _waiting(ops), lambda waiting: waiting == 0, 60.0)
            said = await _said(admin, ops, peer)
    by_mark = {mark: [each for each in said if each.startswith(f"answer {mark};")] for mark in asked}
    lost = [mark for mark, found in by_mark.items() if not found]
    twice = [mark for mark, found in by_mark.items() if len(found) > 1]
    assert (lost, twice, len(said)) == ([], [], len(asked)), (world.kills, said)
    # A message of a killed bridge comes again when its lease ends, so later ones may be answered before it.
    for letter in "pq":
        known = [int(each.rpartition(" ")[2]) for each in said if each.startswith(f"answer {letter}")]
        assert known == list(range(1, count + 1)), (world.kills, said)
    record_property("figures", f"{len(asked)} messages, kills {world.kills}, model asked {len(mind.asked)} times")


async def _seat(admin: ApiClient, port: int, name: str, stack: contextlib.AsyncExitStack) -> Seat:
    answer = await admin.post("/workspaces", {"name": name})
    return Seat(answer, await stack.enter_async_context(client(port, answer["connection"]["auth_token"])))


async def _send_once(sender: ApiClient, seat_id: str, mark: str) -> None:
    """Sends until the server has it, once."""
    async with asyncio.timeout(60):
        while True:
            try:
                await sender.send(seat_id, question(mark), message_id=mark)
                return
            except NoAnswerError:
                with anyio.move_on_after(0.1):
                    await anyio.Event().wait()


async def _said(admin: ApiClient, ops: Seat, peer: Seat) -> list[str]:
    """What the agent has answered to the person and to the peer."""
    try:
        page = await admin.get(f"/workspaces/{ops.id}/chat-history", limit=200)
        to_person = [line["content"] for line in page["messages"] if line["role"] == "agent"]
        rows = await peer.api.get(f"/workspaces/{peer.id}/activity", type="a2a_receive", limit=200)
    except NoAnswerError:
        return []
    return [*to_person, *(row["summary"] for row in reversed(rows) if row["source_id"] == ops.id)]


async def _waiting(seat: Seat) -> int:
    return len(await seat.api.get(f"/workspaces/{seat.id}/activity", waiting="true", limit=100))
