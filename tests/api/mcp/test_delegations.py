"""The tools about delegations at the endpoint of the server: what goes on between a host and the routes below, while a
task is open. The routes answer as a test wants; time stands still between its moves. What the real ones do is shown in
tests/delegations."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.api.http.response import Response
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, WorkspaceScope
from molecule_core.wire.schemas.delegations import DelegationProgress
from testing.clocks import FakeClock
from testing.mcp_clients import ERAS, Era, Hosted, hosted, until, within
from testing.running_server import Running, Seat, running
from testing.waits import bounded
from tests.requirements import requirement
from tests.tools.delegation_board import TASK, Board

_OWN = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN)


class Desk:
    """A server on which Ops gives Peer a task."""

    def __init__(self, server: Running, ops: Seat, peer: Seat, board: Board) -> None:
        self.server = server
        self.ops = ops
        self.peer = peer
        self.board = board
        self.under_way = 0
        """Requests about the task that are being answered."""

    def plant(self) -> None:
        """Puts the board's routes into the place of the server's own."""
        one = "/workspaces/{id}/delegations/{delegation_id}"
        rows = [
            Route("POST", "/workspaces/{id}/delegate", self._answer, _OWN, "Give a task"),
            *(Route("POST", f"{one}/{verb}", self._answer, _OWN, verb) for verb in ("wait", "cancel", "status")),
            Route("GET", "/delegations/{delegation_id}", self._answer, AccessPolicy(ALL_CREDENTIALS), "Look at a task"),
        ]
        taken = {(each.method, each.path) for each in rows}
        kept = [each for each in self.server.server.routes.routes if (each.method, each.path) not in taken]
        self.server.server.routes.__init__([*kept, *rows])  # type: ignore[misc]

    async def _answer(self, call: Request) -> Response:
        path = call.route.path
        for name, value in call.path_params.items():
            path = path.replace(f"{{{name}}}", value)
        key = call.headers.get(b"idempotency-key")
        headers = {} if key is None else {"idempotency-key": key.decode()}
        self.under_way += 1
        try:
            body = msgspec.json.decode(call.body) if call.body else None
            return Response(
                msgspec.json.encode(await self.board.call(call.route.method, path, body=body, headers=headers))
            )
        finally:
            self.under_way -= 1

    async def until_asked(self, count: int) -> None:
        """Until so many requests about the task have come, and one is held."""
        await until(lambda: len(self.board.asked) == count and self.under_way == 1)


@pytest.fixture
async def desk(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Desk]:
    """One whose time stands still."""
    async with running("sqlite", str(tmp_path / "molecule.db"), tmp_path, clock=clock, limits=within()) as server:
        ops, peer = await server.seat("Ops"), await server.seat("Peer")
        made = Desk(server, ops, peer, Board(clock, source=ops.id, target=peer.id))
        made.plant()
        yield made


@pytest.fixture(params=ERAS)
def era(request: pytest.FixtureRequest) -> Era:
    """Each era of the protocol in turn."""
    chosen: Era = request.param
    return chosen


def begin(host: Hosted, desk: Desk, wait: int, **more: Any) -> "asyncio.Task[Any]":
    """A call that waits for a result."""
    given = {"workspace_id": desk.peer.id, "task": "Make tea", "wait": wait}
    return asyncio.create_task(host.client.call_tool("delegate_task", given, **more))


@requirement("D10", "D12", "G13")
async def test_a_host_that_asks_for_progress_sees_how_far_its_task_is(desk: Desk, clock: FakeClock, era: Era) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def progressed(value: float, total: float | None, message: str | None) -> None:
        told.append((value, total, message))

    async with hosted(desk.server, desk.ops.token, era) as host:
        waiting = begin(host, desk, 60, progress_callback=progressed)
        await desk.until_asked(1)
        desk.board.progress = DelegationProgress(current_step="boils water", percent=40)
        await clock.advance(20)
        await desk.until_asked(3)  # it was begun, looked at, and is waited for
        await clock.advance(5)
        desk.board.move("completed", "ended", result="Two cups.", delivered="here")
        result = await bounded(waiting)
        assert not result.is_error
        assert (result.structured_content["result"], result.structured_content["delivered"]) == ("Two cups.", "here")
        await until(lambda: bool(told))
    assert told == [(20, 60, "boils water (40 %)")]


@requirement("D10")
async def test_a_host_that_asks_for_none_costs_no_look_between_the_slices(desk: Desk, clock: FakeClock) -> None:
    async with hosted(desk.server, desk.ops.token, "stateless") as host:
        meta = {"claudecode/toolUseId": "toolu_9"}
        given = {"workspace_id": desk.peer.id, "task": "Make tea", "wait": 30}
        waiting = asyncio.create_task(host.result("delegate_task", meta=meta, **given))
        await desk.until_asked(1)
        await clock.advance(20)
        await desk.until_asked(2)
        await clock.advance(10)
        result = await bounded(waiting)
    assert result.structured_content is not None
    assert (result.structured_content["settled"], result.structured_content["task_id"]) == (False, TASK)
    assert [path.rsplit("/", 1)[1] for path in desk.board.paths] == ["delegate", "wait"]


@requirement("D9", "D10", "G13")
async def test_a_host_that_gives_up_cancels_nothing_and_its_repetitions_carry_the_name_of_the_call(
    desk: Desk, clock: FakeClock
) -> None:
    meta: Any = {"claudecode/toolUseId": "toolu_1"}
    async with hosted(desk.server, desk.ops.token, "stateless") as host:
        for tried in range(1, 4):
            waiting = begin(host, desk, 300, meta=meta)
            await desk.until_asked(2 * tried - 1)
            await clock.advance(20)
            await desk.until_asked(2 * tried)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await bounded(waiting)
            await until(lambda: desk.under_way == 0)  # the request below has ended, and with it what it holds
        assert desk.board.status == "queued"
        desk.board.move("completed", "ended", result="Two cups.", delivered="here")
        last = await bounded(begin(host, desk, 300, meta=meta))
    assert last.structured_content["result"] == "Two cups."
    keys = {headers.get("idempotency-key") for _, path, _, headers in desk.board.asked if path.endswith("/delegate")}
    assert keys == {f"{desk.ops.id}:toolu_1"}
    assert not any(path.endswith("/cancel") for path in desk.board.paths)


@requirement("P3", "G12")
async def test_the_connection_of_one_workspace_delegates_as_no_other(desk: Desk, era: Era) -> None:
    async with hosted(desk.server, desk.ops.token, era) as host:
        given: dict[str, Any] = {"workspace_id": desk.peer.id, "task": "Make tea"}
        said = await host.refused("delegate_task_async", **given, via_workspace=desk.peer.id)
        assert f"this connection is workspace {desk.ops.id}" in said
        assert desk.board.asked == []
        told = await host.call("delegate_task_async", **given, via_workspace=desk.ops.id)
        assert (told["workspace_id"], desk.board.asked[0][3]) == (desk.ops.id, {})


@requirement("D11", "D12")
async def test_a_task_is_looked_at_cancelled_and_reported_on(desk: Desk, era: Era) -> None:
    async with hosted(desk.server, desk.ops.token, era) as host:
        # The older agents' argument is taken, and is no identity.
        seen = await host.call("check_task_status", task_id=TASK, workspace_id=desk.peer.id)
        assert (seen["status"], seen["workspace_id"], seen["target_id"]) == ("queued", desk.ops.id, desk.peer.id)
        assert (await host.call("cancel_task", task_id=TASK, reason="not wanted"))["status"] == "cancelled"
    async with hosted(desk.server, desk.peer.token, era) as host:
        noted = await host.call("report_progress", task_id=TASK, current_step="boils water", percent=40)
        assert noted == {"task_id": TASK, "noted": False, "status": "cancelled"}
    assert desk.board.bodies[-1] == {"current_step": "boils water", "percent": 40}
