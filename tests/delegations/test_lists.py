"""Lists of delegations: each way, by state, page by page; and what a place in one of them tells nobody."""

from typing import Any

import pytest

from testing.callers import UNKNOWN
from testing.message_world import MessageWorld
from testing.running_server import Seat
from testing.waits import refused
from tests.delegations.test_over_http import give, pair, tasks
from tests.requirements import requirement


async def listed(seat: Seat, **query: Any) -> list[dict[str, Any]]:
    """What a workspace lists."""
    found: list[dict[str, Any]] = await seat.api.get(f"/workspaces/{seat.id}/delegations", **query)
    return found


async def all_pages(seat: Seat, **query: Any) -> list[dict[str, Any]]:
    """The same, one at a time."""
    found: list[dict[str, Any]] = []
    more: dict[str, str] = {}
    while page := await listed(seat, limit=1, **query, **more):
        found += page
        more = {"before": page[-1]["delegation_id"]}
    return found


async def many(world: MessageWorld) -> tuple[Seat, Seat]:
    """Work both ways, all begun in one moment, some of it over."""
    lead, ops = await pair(world)
    for number in range(3):
        await give(lead, ops, f"out {number}")
        given = await give(ops, lead, f"in {number}")
        if number == 1:
            await ops.api.post(f"/workspaces/{ops.id}/delegations/{given['delegation_id']}/cancel")
    return lead, ops


@requirement("D19")
@pytest.mark.parametrize("state", [None, "open", "cancelled", "queued", "completed"])
@pytest.mark.parametrize("direction", ["out", "in", "both"])
async def test_pages_of_one_are_the_list_also_of_what_began_in_one_moment(
    world: MessageWorld, direction: str, state: str | None
) -> None:
    lead, _ = await many(world)
    query = {"direction": direction} | ({} if state is None else {"state": state})
    whole = await listed(lead, **query)
    assert await all_pages(lead, **query) == whole
    wanted = [f"out {number}" for number in range(3)] if direction != "in" else []
    wanted += [f"in {number}" for number in range(3)] if direction != "out" else []
    over = {"in 1"}
    kept = {"cancelled": over, "completed": set[str]()}.get(state or "", set(wanted) - (over if state else set()))
    assert sorted(tasks(whole)) == sorted(kept & set(wanted))


@requirement("D19", "S8")
@pytest.mark.parametrize("direction", ["out", "in", "both"])
async def test_a_place_in_the_lists_of_others_is_as_unknown_as_none(world: MessageWorld, direction: str) -> None:
    lead, ops = await pair(world)
    third, fourth = await world.server.seat("Third"), await world.server.seat("Fourth")
    other = (await give(third, fourth))["delegation_id"]
    await give(lead, ops)
    errors = [await refused(listed(lead, direction=direction, before=place)) for place in (other, UNKNOWN)]
    assert [error.status for error in errors] == [404, 404]
    assert errors[0].problem == errors[1].problem


@requirement("D19")
async def test_a_place_among_what_was_given_must_be_one_that_was_given(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    back = (await give(ops, lead))["delegation_id"]
    error = await refused(listed(lead, before=back))
    assert (error.status, error.code) == (422, "invalid_field")
    assert await listed(lead, direction="in", before=back) == []


@requirement("D19")
async def test_the_admin_pages_in_one_organisation_by_an_id_that_another_one_has_too(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    org_id = await world.server.org("Other")
    far, near = await world.server.seat("Far", org_id=org_id), await world.server.seat("Near", org_id=org_id)
    for source, target, seconds in ((far, near, 100), (lead, ops, 1)):
        for name in ("first", "same"):
            body = {"target_id": target.id, "task": f"{name} of {source.name}", "delegation_id": name}
            await source.api.post(f"/workspaces/{source.id}/delegations/record", body)
            await world.clock.advance(seconds)
    found = await world.server.admin.get("/admin/delegations", org_id=org_id, before="same")
    assert tasks(found) == ["first of Far"]
    own = (await lead.api.get(f"/workspaces/{lead.id}"))["org_id"]
    assert tasks(await world.server.admin.get("/admin/delegations", org_id=own, before="same")) == ["first of Lead"]


@requirement("D19", "S8")
async def test_in_a_tree_nothing_is_hidden_from_who_sees_its_top(world: MessageWorld) -> None:
    """Who gave the work, or has it, sees what became of it further down, also among those it may not talk to."""
    lead, ops = await pair(world)
    below = await world.server.seat("Below", parent_id=ops.id)
    first = await give(lead, ops)
    await world.take(ops)
    second = await give(ops, below, "a part of it")
    trees = [await api.get(f"/delegations/{first['delegation_id']}") for api in (lead.api, ops.api, world.person)]
    assert trees[0] == trees[1] == trees[2]
    (child,) = trees[0]["tree"]["children"]
    assert (child["delegation_id"], child["summary"]) == (
        second["delegation_id"],
        "a part of it",
    )
    own = (await below.api.get(f"/delegations/{second['delegation_id']}"))["tree"]
    assert (own["delegation_id"], own["parent_id"]) == (second["delegation_id"], first["delegation_id"])
    assert (await refused(below.api.get(f"/delegations/{first['delegation_id']}"))).status == 404
