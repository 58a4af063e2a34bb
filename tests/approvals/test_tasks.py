"""A task whose work waits for an approval, as A2A clients see it: it says so, and goes on after the decision."""

import asyncio
from typing import Any

from testing.approval_world import ApprovalWorld
from testing.raw_http import ask
from testing.running_server import Seat
from testing.waits import bounded, until_waiting
from tests.requirements import requirement

WORK = {
    "role": "user",
    "parts": [{"kind": "text", "text": "pay"}],
    "messageId": "m-1",
    "metadata": {"delegation": True},
}


async def sent(world: ApprovalWorld, giver: Seat, worker: Seat, patience: int = 0) -> dict[str, Any]:
    """The task, as message/send answers it; under one message id it is always the same one."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": WORK}}
    headers = {"X-Timeout": str(patience), "A2A-Version": "0.3"}
    path = f"/workspaces/{worker.id}/a2a"
    reply = await bounded(ask(world.server.port, "POST", path, body, token=giver.token, headers=headers))
    task: dict[str, Any] = reply.json["result"]
    return task


@requirement("Q8")
async def test_a_task_whose_work_waits_for_an_approval_says_so_and_goes_on_after_the_decision(
    world: ApprovalWorld,
) -> None:
    lead, worker, stranger = await world.line("Lead", "Worker", "Stranger")
    waiting = asyncio.create_task(sent(world, lead, worker, 60))
    await until_waiting(world.server.server, 2)
    (row,) = await world.mail(worker)
    # A task is not held up by who only names it.
    await world.asks(stranger, "mischief", task_id=row["id"])
    assert not waiting.done()

    item = await world.asks(worker, "pay the bill", task_id=row["id"])
    task = await bounded(waiting)
    assert (task["id"], task["status"]["state"]) == (row["id"], "auth-required")
    (part,) = task["status"]["message"]["parts"]
    assert item["approval_id"] in part["text"] and "Lead" in part["text"] and part["text"].endswith("pay the bill")
    assert task["metadata"]["approval"] == {"approval_id": item["approval_id"], "action": "pay the bill"}
    full = await lead.api.get(f"/delegations/{row['id']}")
    assert (full["a2a_state"], full["delegation"]["phase"]) == ("auth-required", "claimed")

    await world.decides(lead, item, "approve")
    task = await sent(world, lead, worker)
    assert (task["status"]["state"], "approval" in task["metadata"]) == ("working", False)
    handle = row["instructions"]["reply_handle"]
    await worker.api.post(f"/workspaces/{worker.id}/reply", {"handle": handle, "text": "paid"})
    task = await sent(world, lead, worker, 5)
    assert (task["status"]["state"], task["artifacts"][0]["parts"][0]["text"]) == ("completed", "paid")
