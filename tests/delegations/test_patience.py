"""A peer that takes ten minutes, and a client of MCP that has given up after thirty seconds and tries three times more.
The ten minutes are simulated."""

import asyncio
from typing import Any

from testing.mcp_clients import Hosted, hosted
from testing.message_world import MessageWorld
from testing.running_server import Seat
from testing.waits import bounded, until_waiting
from tests.delegations.test_by_tools import begun, works
from tests.requirements import requirement

_PATIENCE, _SLICE, _AT_WORK = 30, 20, 10 * 60


async def tried(world: MessageWorld, host: Hosted, ops: Seat, call: str) -> dict[str, Any]:
    """One call that its client lets wait for so long; what it has then."""
    given = {"workspace_id": ops.id, "task": "Make tea", "wait": _PATIENCE}
    meta = {"claudecode/toolUseId": call}
    waiting = asyncio.create_task(host.result("delegate_task", meta=meta, **given))
    for seconds in (_SLICE, _PATIENCE - _SLICE):
        await until_waiting(world.server.server, 1)
        await world.clock.advance(seconds)
    found: dict[str, Any] = (await bounded(waiting)).structured_content
    return found


@requirement("X3", "D9", "D10")
async def test_four_calls_about_one_task_of_ten_minutes_have_four_receipts_and_one_result(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    async with hosted(world.server, lead.token, "stateless") as host:
        # A host names each of its calls anew: what they have in common is who asks whom for what.
        receipts = [await tried(world, host, ops, f"toolu_{number}") for number in range(4)]
        await begun(lead)
        assert len({each["task_id"] for each in receipts}) == 1
        assert [each["idempotent_hit"] for each in receipts] == [False, True, True, True]
        assert [(each["settled"], each["result"]) for each in receipts] == [(False, "")] * 4

        await world.clock.advance(_AT_WORK - 4 * _PATIENCE)
        assert await works(ops, "Two cups.") == receipts[0]["task_id"]
        seen = await host.call("check_task_status", task_id=receipts[0]["task_id"])
    assert (seen["status"], seen["result"]) == ("completed", "Two cups.")
    rows = await lead.api.get(f"/workspaces/{lead.id}/activity", type="a2a_receive", limit=50)
    assert [row["kind"] for row in rows] == ["delegation_result"]
    assert rows[0]["request_body"]["params"]["message"]["parts"][0]["text"].count("Two cups.") == 1
    await begun(lead)  # one, now as before
