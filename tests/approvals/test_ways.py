"""Other ways to what a tool does: a rule for the tool stops them too, and every route of an agent is known to it."""

import pytest

from tests.approvals.house import House, Item, code
from tests.approvals.test_leave import ONE_ENGINE, call, rule, stopped
from tests.requirements import requirement
from tests.running import Seat


async def given(source: Seat, target: Seat) -> str:
    """A task that somebody gives."""
    work = {"target_id": target.id, "task": "count"}
    return str((await call(source, f"/workspaces/{source.id}/delegate", work))["delegation_id"])


@ONE_ENGINE
@requirement("Q6")
@pytest.mark.parametrize(
    ("tool", "said"),
    [("reply", {"status": "completed", "result": "seven"}), ("decline", {"status": "failed", "error": "not now"})],
)
async def test_how_work_has_ended_is_said_by_no_other_way_either(house: House, tool: str, said: Item) -> None:
    root, ops = await house.line("Root", "Ops")
    await rule(house, ops, tool)
    begun = await given(root, ops)
    where = f"/workspaces/{ops.id}/delegations/{begun}/update"
    item = await stopped(ops, where, said)
    assert item["tool"] == tool
    (row,) = await house.person.get(f"/workspaces/{root.id}/delegations")
    assert row["status"] not in ("completed", "failed")
    await house.decides(root, item, "approve")
    for used in (item, item, None):
        told = await call(ops, where, said, used)
        assert told["status"] == said["status"], "said again, it is the end that it has come to"


@ONE_ENGINE
@requirement("Q6")
async def test_the_end_of_work_given_elsewhere_is_told_without_leave_and_of_others_work_nothing_is_told(
    house: House,
) -> None:
    root, lead, ops = await house.line("Root", "Lead", "Ops")
    await rule(house, lead, "*")
    noted = {"target_id": ops.id, "task": "count", "delegation_id": "d-1"}
    await call(lead, f"/workspaces/{lead.id}/delegations/record", noted)
    said = {"status": "completed", "result": "seven"}
    assert (await call(lead, f"/workspaces/{lead.id}/delegations/d-1/update", said))["status"] == "completed"
    others = await given(root, await house.seat("Else", root))
    for name in (others, "nothing"):
        refusal = call(lead, f"/workspaces/{lead.id}/delegations/{name}/update", said)
        assert await code(refusal) == (404, "not_found")


@ONE_ENGINE
@requirement("Q6")
async def test_progress_needs_leave_on_both_its_ways(house: House) -> None:
    root, ops = await house.line("Root", "Ops")
    await rule(house, ops, "report_progress")
    begun = await given(root, ops)
    for where in (f"/delegations/{begun}/status", f"/workspaces/{ops.id}/delegations/{begun}/status"):
        assert (await stopped(ops, where, {"current_step": "counting"}))["tool"] == "report_progress"
