"""Rules for tools stop what amounts to those tools by A2A 1.0 too, over JSON-RPC and REST, and nothing else of it."""

from typing import Any

import pytest

from molecule_core.client.api import ApiError
from testing.approval_world import ApprovalWorld
from testing.running_server import Seat
from tests.approvals.test_gate import ONE_ENGINE, call, rule, stopped
from tests.requirements import requirement

MESSAGE = {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": "count"}]}
NOW = {"returnImmediately": True}


def rpc(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """A call of A2A 1.0."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def task_of(ops: Seat, where: str, metadata: dict[str, Any]) -> str:
    """The task of a message that no rule stops."""
    params = {"message": {**MESSAGE, "metadata": metadata}, "configuration": NOW}
    sent = await call(ops, where, rpc("SendMessage", params), a2a_version="1.0")
    return str(sent["result"]["task"]["id"])


@ONE_ENGINE
@requirement("Q6", "A2A2")
@pytest.mark.parametrize(("metadata", "tool"), [({"delegation": True}, "delegate_task"), ({}, "reply_to_workspace")])
async def test_a_rule_stops_a_message_of_either_binding(
    world: ApprovalWorld, metadata: dict[str, Any], tool: str
) -> None:
    root, ops = await world.line("Root", "Ops")
    await rule(world, ops, tool)
    where, params = f"/workspaces/{root.id}/a2a", {"message": {**MESSAGE, "metadata": metadata}, "configuration": NOW}
    item = await stopped(ops, where, rpc("SendMessage", params), a2a_version="1.0")
    over_rest = await stopped(ops, f"{where}/message:send", params, a2a_version="1.0")
    assert (item["tool"], over_rest["tool"]) == (tool, tool)
    await world.decides(root, item, "approve")
    sent = await call(ops, where, rpc("SendMessage", params), item, a2a_version="1.0")
    assert sent["result"]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"


@ONE_ENGINE
@requirement("Q6", "A2A2")
async def test_a_rule_for_sending_stops_neither_reading_nor_cancelling(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    where = f"/workspaces/{root.id}/a2a"
    first, second = await task_of(ops, where, {}), await task_of(ops, where, {"delegation": True})
    await rule(world, ops, "reply_to_workspace", "delegate_task")
    for task_id in (first, second):
        read = await call(ops, where, rpc("GetTask", {"id": task_id}), a2a_version="1.0")
        assert read["result"]["id"] == task_id
        ended = await call(ops, where, rpc("CancelTask", {"id": task_id}), a2a_version="1.0")
        assert ended["result"]["status"]["state"] == "TASK_STATE_CANCELED"


@ONE_ENGINE
@requirement("Q6", "A2A2")
async def test_rules_for_reading_and_cancelling_stop_those(world: ApprovalWorld) -> None:
    root, ops = await world.line("Root", "Ops")
    where = f"/workspaces/{root.id}/a2a"
    task_id = await task_of(ops, where, {"delegation": True})
    await rule(world, ops, "cancel_task", "check_task_status")
    for method, tool in (("CancelTask", "cancel_task"), ("GetTask", "check_task_status")):
        assert (await stopped(ops, where, rpc(method, {"id": task_id}), a2a_version="1.0"))["tool"] == tool
    assert (await stopped(ops, f"{where}/tasks/{task_id}:cancel", {}, a2a_version="1.0"))["tool"] == "cancel_task"
    with pytest.raises(ApiError):
        await ops.api.get(f"{where}/tasks/{task_id}")
