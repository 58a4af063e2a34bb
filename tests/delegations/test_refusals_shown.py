"""What a guard stopped is shown to whoever looks later: in the snapshot, as its event told it."""

from typing import Any

import pytest

from molecule_core.common.errors import DelegationCycle
from tests.answers.office import Office
from tests.delegations.work import begin
from tests.requirements import requirement
from tests.running import Seat

DAY_SECONDS = 86_400
TASK = "sort the mail"


async def snapshot(office: Office) -> dict[str, Any]:
    """What a page that is opened now reads."""
    (org,) = await office.server.admin.get("/orgs")
    found: dict[str, Any] = await office.person.get(f"/orgs/{org['id']}/snapshot")
    return found


async def back_and_forth(office: Office) -> tuple[Seat, Seat]:
    """Ops has work of Lead."""
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await begin(office, lead, ops, TASK)
    await office.take(ops)
    return lead, ops


async def stopped(office: Office, source: Seat, target: Seat) -> None:
    """It is given back in the same words."""
    with pytest.raises(DelegationCycle):
        await begin(office, source, target, TASK)


@requirement("D13", "S11")
async def test_what_was_stopped_within_a_day_is_in_the_snapshot_newest_first(office: Office) -> None:
    lead, ops = await back_and_forth(office)
    assert (await snapshot(office))["refusals"] == []
    await stopped(office, ops, lead)
    first = await snapshot(office)
    (told,) = first["refusals"]
    assert 0 < told["seq"] <= first["as_of"]
    words = ("source_id", "target_id", "task_preview", "limit", "use", "most")
    assert [told[each] for each in words] == [ops.id, lead.id, TASK, "cycle", 1, 1]
    assert "the delegation that you have" in told["remedy"]

    await office.pass_time(60)
    await stopped(office, ops, lead)
    second = (await snapshot(office))["refusals"]
    assert [each["seq"] for each in second] == sorted((each["seq"] for each in second), reverse=True)
    assert second[1] == told and second[0]["at"] > told["at"]

    await office.pass_time(DAY_SECONDS - 30)
    assert (await snapshot(office))["refusals"] == second[:1]


@requirement("D15", "S11")
async def test_another_organisation_is_told_nothing_of_it(office: Office) -> None:
    lead, ops = await back_and_forth(office)
    await stopped(office, ops, lead)
    other = await office.server.org("Other")
    person = await office.server.person("viewer", other)
    assert (await person.get(f"/orgs/{other}/snapshot"))["refusals"] == []
