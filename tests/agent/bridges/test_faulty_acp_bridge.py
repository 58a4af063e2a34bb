"""An ACP agent that lies, behind the whole bridge: what the person sees, fault by fault. Real processes."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from molecule_core.agent.bridges.acp.driver import AcpDriver
from molecule_core.agent.bridges.process_runner import ProcessStarter
from molecule_core.agent.bridges.session_main import DriverContext, SessionAgent, SessionOptions
from molecule_core.agent.bridges.session_tools import SESSION_TOOLS
from molecule_core.agent.bridges.sessions import SessionDriver
from molecule_core.agent.bridges.settings import BridgeSettings
from molecule_core.agent.config import ConfigurationError, read_configuration
from testing.faulty_acp_agent import FAULTS
from testing.running_server import Running, Seat, running
from testing.waits import IN_PROCESS_SECONDS, eventually
from tests.agent.bridges.acp_agents import agent_command, prompts
from tests.agent.bridges.bridge_process import drafts, failures, settings
from tests.requirements import requirement

pytestmark = pytest.mark.long


class Seen(NamedTuple):
    """What the person sees of two messages: answers in the chat, and words of the lines about failures."""

    answers: tuple[str, ...] = ("1: one", "2: two")
    failures: tuple[str, ...] = ()


RIGHT = Seen()
UNFINISHED = "2 turns were started and none finished"
OUTCOMES = {
    "none": RIGHT,
    "holds_first_load": RIGHT,
    "loads_late": RIGHT,
    "loads_nothing": RIGHT,
    "refuses_load": RIGHT,
    "repeats_old_message": RIGHT,
    "writes_after_end": RIGHT,
    "reports_cancel_as_end": RIGHT,
    "doubles_ids": RIGHT,
    "leaves_child": RIGHT,
    "garbage": RIGHT,
    "noise": RIGHT,
    "long_line": RIGHT,
    "unknown_updates": RIGHT,
    "odd_ids": RIGHT,
    "offers_only_always": RIGHT,
    "foreign_permission": RIGHT,
    "ends_before_permission": RIGHT,
    "drips": Seen(("slowly, 1: one", "slowly, 2: two")),
    "says_nothing": Seen((), ("wrote no final text",) * 2),
    "cancels_itself": Seen((), ("although it was not stopped",) * 2),
    "unknown_stop": Seen((), ("unknown reason ('tired')",) * 2),
    "error_without_code": Seen((), ("Faulty agent reports error 0: boom",) * 2),
    "session_without_id": Seen((), (*("a session without an id",) * 2, UNFINISHED) * 2),
    "endless_line": Seen((), (*("a line of more than 1,000,000 bytes",) * 2, UNFINISHED) * 2),
    "dies": Seen(("2: one", "3: two"), ("signal SIGKILL",)),
    "exits_with_success": Seen(("2: one", "3: two"), ("exit code 0",)),
}
OTHERS = {"hangs", "ignores_cancel", "merges_prompts", "limited"}
"""Faults with a test of their own."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Running]:
    """A server; what it keeps its data in is not what these tests are about."""
    folder = tmp_path / "server"
    folder.mkdir()
    async with running("sqlite", str(folder / "molecule.db"), folder, push_instructions_enabled=True) as found:
        yield found


@asynccontextmanager
async def bridging(server: Running, seat: Seat, folder: Path, fault: str, **wishes: Any) -> AsyncIterator[SessionAgent]:
    """The bridge of `molecule bridge acp`, in this process, to the agent."""
    wished = BridgeSettings(**{"end_seconds": 1, "stop_seconds": 1, "runs": 2, "line_bytes": 64 << 20, **wishes})

    def make_driver(context: DriverContext) -> SessionDriver:
        starter = ProcessStarter(
            agent_command(fault, folder), {"PATH": os.defpath}, folder, clock=context.clock, settings=wished
        )
        return AcpDriver(
            starter,
            SESSION_TOOLS,
            slot=context.slot,
            clock=context.clock,
            settings=wished,
            environment=context.environment,
        )

    state = folder / "bridge"
    state.mkdir(mode=0o700)
    environ = settings(server, seat, state)
    options = SessionOptions(settings=wished, cwd=folder)
    agent = SessionAgent(read_configuration(environ), options, environ, make_driver)
    await agent.check_program()
    work = asyncio.create_task(agent.run())
    try:
        yield agent
    finally:
        agent.request_exit(0)
        await asyncio.wait_for(work, IN_PROCESS_SECONDS)


async def until(seen: Callable[[], Awaitable[tuple[int, int]]], least: tuple[int, int]) -> None:
    """Until so many answers and lines are seen."""
    await eventually(seen, lambda found: found >= least, IN_PROCESS_SECONDS * 2)


async def chat(server: Running, seat: Seat) -> tuple[str, ...]:
    """What the agent has said to the person."""
    page = await server.admin.get(f"/workspaces/{seat.id}/chat-history")
    return tuple(line["content"] for line in page["messages"] if line["role"] == "agent")


async def reasons(seat: Seat) -> tuple[str, ...]:
    """The lines about failures, oldest first."""
    return tuple(row["detail"] for row in await failures(seat))


def test_every_fault_has_an_outcome() -> None:
    assert set(OUTCOMES) | OTHERS == set(FAULTS)


@requirement("G17")
@pytest.mark.parametrize("fault", OUTCOMES)
async def test_a_fault_has_its_named_outcome(fault: str, server: Running, tmp_path: Path) -> None:
    seat, wanted = await server.seat(), OUTCOMES[fault]
    limit = 1_000_000 if fault == "endless_line" else 64 << 20
    async with bridging(server, seat, tmp_path, fault, line_bytes=limit):

        async def seen() -> tuple[int, int]:
            return len(await chat(server, seat)), len(await reasons(seat))

        for number, text in enumerate(("one", "two"), 1):
            await server.admin.send(seat.id, text)
            lines = len(wanted.failures) if len(wanted.failures) < 2 else len(wanted.failures) * number // 2
            await until(seen, (len(wanted.answers) * number // 2, lines))
    assert await chat(server, seat) == wanted.answers
    found = await reasons(seat)
    assert len(found) == len(wanted.failures)
    for reason, words in zip(found, wanted.failures, strict=True):
        assert words in reason


async def test_a_limit_is_waited_for_and_nothing_is_tried_in_between(server: Running, tmp_path: Path) -> None:
    seat = await server.seat()
    async with bridging(server, seat, tmp_path, "limited") as agent:
        await server.admin.send(seat.id, "one")
        store = agent._bridge._store

        async def limited_until() -> int:
            return store.limit.until

        await eventually(limited_until, bool)
        await server.admin.send(seat.id, "two")
        await eventually(lambda: waiting(seat), lambda count: count == 2)
        path = f"/workspaces/{seat.id}/state"
        state = await eventually(lambda: seat.api.get(path), lambda found: found["limited_until"])
        assert abs(datetime.fromisoformat(state["limited_until"]).timestamp() * 1000 - store.limit.until) < 2
    assert len(prompts(tmp_path)) == 1
    assert (await chat(server, seat), await reasons(seat)) == ((), ())


async def waiting(seat: Seat) -> int:
    """How many messages are not handled."""
    return len(await seat.api.get(f"/workspaces/{seat.id}/activity", waiting="true", limit=100))


@pytest.mark.parametrize("fault", ["none", "reports_cancel_as_end", "ignores_cancel"])
async def test_a_person_stops_a_turn_and_the_next_message_is_answered(
    fault: str, server: Running, tmp_path: Path
) -> None:
    seat = await server.seat()
    async with bridging(server, seat, tmp_path, fault):
        receipt = await server.admin.send(seat.id, "SLOW")

        async def prompted() -> int:
            return len(prompts(tmp_path))

        await eventually(prompted, bool)
        await server.admin.post(f"/workspaces/{seat.id}/live/stop", {"activity_id": receipt["activity_id"]})
        await eventually(lambda: drafts(seat), lambda found: found[receipt["activity_id"]][0] == "declined")
        if fault != "ignores_cancel":
            await server.admin.send(seat.id, "next")
            assert await eventually(lambda: chat(server, seat), bool) == ("2: next",)


async def test_an_agent_that_answers_two_prompts_as_one_fails_by_its_time(server: Running, tmp_path: Path) -> None:
    seat = await server.seat()
    async with bridging(server, seat, tmp_path, "merges_prompts", turn_seconds=1):
        await server.admin.send(seat.id, "one")
        await server.admin.send(seat.id, "two")
        found = await eventually(lambda: reasons(seat), lambda lines: len(lines) == 2, IN_PROCESS_SECONDS * 2)
    assert found == ("the program did not end within 1 seconds",) * 2
    assert len(prompts(tmp_path)) == 2


async def test_an_agent_that_hangs_at_the_handshake_refuses_the_start(server: Running, tmp_path: Path) -> None:
    seat = await server.seat()
    with pytest.raises(ConfigurationError, match=r"it did not answer within 0\.5 seconds"):
        async with bridging(server, seat, tmp_path, "hangs", start_seconds=0.5):
            pass


async def test_a_decision_of_a_person_is_the_option_that_the_agent_gets(server: Running, tmp_path: Path) -> None:
    """Also where the agent sends its request twice: the person is asked once."""
    seat = await server.seat()
    async with bridging(server, seat, tmp_path, "doubles_ids"):
        await server.admin.send(seat.id, "ASK")

        async def pending() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await server.admin.get("/approvals", status="pending"))["approvals"]
            return found

        (approval,) = await eventually(pending, bool)
        path = f"/workspaces/{seat.id}/approvals/{approval['approval_id']}/decide"
        await server.admin.post(path, {"decision": "approved"})
        (answer,) = await eventually(lambda: chat(server, seat), bool)
    assert '"optionId": "once"' in answer
    assert approval["action"] == "permission:execute"
