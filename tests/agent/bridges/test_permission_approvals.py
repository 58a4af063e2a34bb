"""The approvals of a bridge's permissions, with a server: what an approver may change."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from molecule_core.agent.bridges.permission_approvals import PermissionApprovals
from molecule_core.agent.bridges.session_store import SessionStore
from molecule_core.agent.bridges.sessions import PermissionDecision, ToolPermission
from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.agent.host.host_approvals import HostApprovals
from molecule_core.common.clock import SystemClock
from molecule_core.tools.runners.requester import RetryingRequester
from testing.clocks import SeededRandomness
from testing.running_server import Running
from testing.waits import bounded, eventually
from tests.requirements import requirement

pytestmark = pytest.mark.parametrize("engine", ["sqlite"])
INPUT = {"command": "ls"}


async def decided(server: Running, folder: Path, edit: dict[str, Any], *, can_edit: bool) -> PermissionDecision:
    """The decision, once a person has approved with changed details."""
    seat, person, clock, dice = await server.seat(), await server.person(), SystemClock(), SeededRandomness()
    requester = RetryingRequester(seat.api, BoundedRetry(clock=clock, randomness=dice))
    store = SessionStore(folder, seat.id, "codex")
    store.load()
    host = HostApprovals(seat.id, requester, clock=clock, randomness=dice)
    approvals = PermissionApprovals(host, store, clock=clock, randomness=dice, max_bytes=10_000)
    request = ToolPermission(
        request_id="r", tool="shell", title="ls", tool_input=INPUT, suggestions=["always"], can_edit=can_edit
    )
    deciding = asyncio.create_task(approvals.decide(request, "t-1", "list the files"))
    page = await eventually(lambda: person.get("/approvals/pending"), lambda found: found["approvals"])
    item = page["approvals"][0]
    assert item["details"] == {"tool": "shell", "input": INPUT, "remember": False}
    path = f"/workspaces/{seat.id}/approvals/{item['approval_id']}/decide"
    about = {"revision": item["revision"], "action_hash": item["action_hash"]}
    await person.post(path, {"decision": "approve", "details": {**item["details"], **edit}, **about})
    decision = await bounded(deciding)
    assert not store.open_approvals
    return decision


@requirement("G17")
@pytest.mark.parametrize("can_edit", [False, True])
async def test_an_approver_may_have_a_permission_remembered(server: Running, tmp_path: Path, can_edit: bool) -> None:
    decision = await decided(server, tmp_path, {"remember": True}, can_edit=can_edit)
    assert decision == PermissionDecision(is_allowed=True, is_remembered=True)


@requirement("G17")
async def test_an_edited_input_runs_where_the_program_takes_it(server: Running, tmp_path: Path) -> None:
    decision = await decided(server, tmp_path, {"input": {"command": "ls -l"}}, can_edit=True)
    assert decision == PermissionDecision(is_allowed=True, edited_input={"command": "ls -l"})


@requirement("G17")
async def test_an_edited_input_is_a_denial_where_the_program_cannot_take_it(server: Running, tmp_path: Path) -> None:
    decision = await decided(server, tmp_path, {"input": {"command": "ls -l"}}, can_edit=False)
    assert not decision.is_allowed and "changed the details" in decision.reason
