"""The tools about delegations in the agent's process: as the right seat of several, beside other calls, and with
progress for a host that asks for it. Time stands still between the moves of a test."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_core.client.api import ApiError
from molecule_core.tools.schemas.delegations import (
    CancelTaskArguments,
    CheckTaskStatusArguments,
    DelegateTaskArguments,
    DelegateTaskAsyncArguments,
)
from molecule_core.tools.spec import ToolError
from testing.clocks import FakeClock, settle
from testing.waits import bounded
from tests.agent.inbox_server import StandIn
from tests.agent.tools.test_inbox_tools import Desk, Told, desk_of
from tests.requirements import requirement
from tests.tools.delegation_board import TASK, Board


class Giving(StandIn):
    """The server of a workspace that gives work to peers."""

    def __init__(self, clock: FakeClock, workspace_id: str, *, reaches: bool = True) -> None:
        super().__init__(clock, workspace_id)
        self.board = Board(clock, source=workspace_id)
        self.board.friends = {workspace_id: reaches}

    async def _answer(self, path: str, body: Any, query: dict[str, Any]) -> Any:
        verb = path.rsplit("/", 1)[1]
        if "/delegations/" in path or verb in ("delegate", "check-access"):
            method = "GET" if verb == TASK else "POST"
            return await self.board.call(method, path, body=body)
        return await super()._answer(path, body, query)


ASKED = DelegateTaskArguments(workspace_id="peer", task="Make tea", wait=60)


@pytest.fixture
def servers(clock: FakeClock) -> tuple[Giving, Giving]:
    """Those of `a`, which cannot reach the peer, and of `b`, which can."""
    return Giving(clock, "a", reaches=False), Giving(clock, "b")


@requirement("G12", "D10")
async def test_the_seat_that_reaches_the_peer_delegates_and_the_host_is_told_of_progress(
    servers: tuple[Giving, Giving], clock: FakeClock, tmp_path: Path
) -> None:
    one, other = servers
    async with desk_of(tmp_path, clock, one, other) as desk:
        told = Told(progressToken=7)
        waiting = asyncio.create_task(desk.verbs.run_delegation_tool(ASKED, told))
        await settle()
        await clock.advance(20)
        assert told.progressed == [(20, 60)]
        other.board.move("completed", "ended", result="Two cups.", delivered="here")
        found = await bounded(waiting)
        assert (found["workspace_id"], found["result"]) == ("b", "Two cups.")
        assert one.count("/delegate") == 0


@requirement("D10")
async def test_a_wait_for_a_result_holds_up_no_other_call_and_its_end_cancels_nothing(
    servers: tuple[Giving, Giving], clock: FakeClock, tmp_path: Path
) -> None:
    _, other = servers
    async with desk_of(tmp_path, clock, other, single=True) as desk:
        waiting = asyncio.create_task(desk.verbs.run_delegation_tool(ASKED, Told()))
        await settle()
        other.put("m-1")
        assert await desk.next_id() == "m-1"
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bounded(waiting)
        found = await bounded(desk.verbs.run_delegation_tool(CheckTaskStatusArguments(task_id=TASK), Told()))
        assert (found["status"], other.count("/cancel")) == ("queued", 0)


@requirement("G8", "G12")
async def test_a_seat_of_somebody_else_is_an_error_with_ones_own(
    servers: tuple[Giving, Giving], clock: FakeClock, tmp_path: Path
) -> None:
    async def refused(desk: Desk, via: str) -> ToolError:
        given = DelegateTaskAsyncArguments(workspace_id="peer", task="Make tea", via_workspace=via)
        with pytest.raises(ToolError) as found:
            await desk.verbs.run_delegation_tool(given, Told())
        return found.value

    async with desk_of(tmp_path, clock, *servers) as desk:
        assert (await refused(desk, "x")).code == "unknown_workspace"
        servers[1].board.friends = {}
        assert "none of your workspaces may message peer" in (await refused(desk, "")).text
    assert {token for server in servers for token in server.tokens} == {"token-of-a", "token-of-b"}


@requirement("D11", "G12")
async def test_a_task_is_ended_as_the_seat_that_gave_it(
    servers: tuple[Giving, Giving], clock: FakeClock, tmp_path: Path
) -> None:
    one, other = servers
    one.refuses = {f"/delegations/{TASK}": ApiError(404, {"error": "no such delegation", "code": "not_found"})}
    async with desk_of(tmp_path, clock, one, other) as desk:
        found = await bounded(desk.verbs.run_delegation_tool(CancelTaskArguments(task_id=TASK), Told()))
    assert (found["workspace_id"], found["status"]) == ("b", "cancelled")
    assert (one.count("/cancel"), other.count("/cancel")) == (0, 1)
