"""What a guard stopped is shown to whoever looks later: in the snapshot, as its event told it."""

from typing import Any

import pytest

from molecule_core.delegations.errors import DelegationCycle
from testing.delegation_steps import begin
from testing.message_world import MessageWorld
from testing.running_server import Seat
from tests.requirements import requirement

DAY_SECONDS = 86_400
TASK = "sort the mail"


async def snapshot(world: MessageWorld) -> dict[str, Any]:
    """What a page that is opened now reads."""
    (org,) = await world.server.admin.get("/orgs")
    found: dict[str, Any] = await world.person.get(f"/orgs/{org['id']}/snapshot")
    return found


async def back_and_forth(world: MessageWorld) -> tuple[Seat, Seat]:
    """Ops has work of Lead."""
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await begin(world, lead, ops, TASK)
    await world.take(ops)
    return lead, ops


async def stopped(world: MessageWorld, source: Seat, target: Seat) -> None:
    """It is given back in the same words."""
    with pytest.raises(DelegationCycle):
        await begin(world, source, target, TASK)


@requirement("D13", "S11")
async def test_what_was_stopped_within_a_day_is_in_the_snapshot_newest_first(world: MessageWorld) -> None:
    lead, ops = await back_and_forth(world)
    assert (await snapshot(world))["refusals"] == []
    await stopped(world, ops, lead)
    first = await snapshot(world)
    (told,) = first["refusals"]
    assert 0 < told["seq"] <= first["as_of"]
    words = ("source_id", "target_id", "task_preview", "limit", "use", "most")
    assert [told[each] for each in words] == [ops.id, lead.id, TASK, "cycle", 1, 1]
    assert "answer your own delegation" in told["remedy"]

    await world.pass_time(60)
    await stopped(world, ops, lead)
    second = (await snapshot(world))["refusals"]
    assert [each["seq"] for each in second] == sorted((each["seq"] for each in second), reverse=True)
    assert second[1] == told and second[0]["at"] > told["at"]

    await world.pass_time(DAY_SECONDS - 30)
    assert (await snapshot(world))["refusals"] == second[:1]


@requirement("D15", "S11")
async def test_another_organisation_is_told_nothing_of_it(world: MessageWorld) -> None:
    lead, ops = await back_and_forth(world)
    await stopped(world, ops, lead)
    other = await world.server.org("Other")
    person = await world.server.person("viewer", other)
    assert (await person.get(f"/orgs/{other}/snapshot"))["refusals"] == []
