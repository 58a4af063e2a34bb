"""The tree changes while everybody works: moves, teams, collapses, removals with a typed name."""

import asyncio
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient, ApiError
from molecule_core.common.limits import Limits
from testing.engines import Engine
from testing.live_clients import all_live, channel, check_shape, journal_of
from testing.running_server import Running, Seat, running
from testing.waits import refused
from testing.workspaces import remove
from tests.requirements import requirement

UNKNOWN = "01900000-0000-7000-8000-000000000000"


async def move(api: ApiClient, seat: Seat, parent: Seat | None, **more: Any) -> Any:
    """Moves a seat below another, or to the top."""
    body = {"parent_id": None if parent is None else parent.id, **more}
    return await api.call("PATCH", f"/workspaces/{seat.id}", body=body)


async def peers_of(seat: Seat) -> set[str]:
    """Whom a seat may talk to, as its agent is told."""
    return {row["id"] for row in await seat.api.get(f"/registry/{seat.id}/peers")}


# -- move --------------------------------------------------------------------------------------------------------------


@requirement("M4", "M3")
async def test_a_moved_seat_takes_its_team_along_and_everybodys_peers_change_at_once(server: Running) -> None:
    red, blue = await server.seat("Red"), await server.seat("Blue")
    ops, twin = await server.seat("Ops", parent_id=red.id), await server.seat("Twin", parent_id=red.id)
    other, below = await server.seat("Other", parent_id=blue.id), await server.seat("Below", parent_id=ops.id)
    assert await peers_of(ops) == {red.id, twin.id, below.id}

    moved = await move(await server.person(), ops, blue)

    assert (moved["parent_id"], moved["name"], moved["rev"]) == (blue.id, "Ops", 2)
    assert await peers_of(ops) == {blue.id, other.id, below.id}
    assert await peers_of(other) == {blue.id, ops.id}
    assert await peers_of(twin) == {red.id}
    assert await peers_of(below) == {ops.id}
    assert (await refused(ops.api.send(twin.id, "hello"))).code == "may_not_talk"
    assert (await refused(twin.api.send(ops.id, "hello"))).code == "may_not_talk"
    await ops.api.send(other.id, "hello")


@requirement("M4", "M32")
async def test_a_move_is_told_with_both_places_and_a_new_name_where_its_own_was_taken(server: Running) -> None:
    lead = await server.seat("Lead")
    await server.seat("Ops", parent_id=lead.id)
    ops = await server.seat("Ops")

    moved = await move(server.admin, ops, lead, role="moved")

    assert (moved["name"], moved["role"], moved["rev"]) == ("Ops 2", "moved", 3)
    *_, told, updated = await journal_of(server)
    check_shape(told)
    assert (told["event"], told["workspace_id"]) == ("WORKSPACE_MOVED", ops.id)
    assert told["payload"] == {"parent_id": lead.id, "old_parent_id": None, "name": "Ops 2"}
    assert (updated["event"], updated["entity"]["rev"]) == ("WORKSPACE_UPDATED", 3)
    back = await move(server.admin, ops, None)
    assert (back["parent_id"], back["name"]) == (None, "Ops 2")
    assert (await journal_of(server))[-1]["payload"] == {"parent_id": None, "old_parent_id": lead.id}


@requirement("M4")
async def test_a_circle_is_refused_with_words_and_nothing_changes(server: Running) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    deep = await server.seat("Deep", parent_id=ops.id)
    before = await server.admin.get("/workspaces")

    circle = await refused(move(server.admin, lead, deep))
    itself = await refused(move(server.admin, lead, lead, role="changed too"))

    assert (circle.status, circle.code) == (422, "invalid_parent")
    assert "Deep is below Lead, so the move would create a circle" in circle.problem["error"]
    assert "Lead cannot be moved below itself" in itself.problem["error"]
    assert await server.admin.get("/workspaces") == before


@requirement("M4", "S8")
async def test_a_seat_moves_only_below_a_living_one_of_its_own_organisation(server: Running) -> None:
    ops, gone = await server.seat("Ops"), await server.seat("Gone")
    elsewhere = await server.seat("Elsewhere", org_id=await server.org("Elsewhere"))
    await remove(server.admin, gone)

    errors = [
        await refused(server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"parent_id": each}))
        for each in (gone.id, elsewhere.id, UNKNOWN, "")
    ]

    assert {(error.status, error.problem["error"]) for error in errors} == {
        (422, "the workspace cannot have this parent_id: it was not found in this organisation. Choose another parent.")
    }


@requirement("M4", "O2")
async def test_no_move_and_no_team_makes_the_tree_deeper_than_its_limit(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    async with running(engine, place, tmp_path, limits=Limits(tree_depth=3, expand_most=4)) as server:
        one = await server.seat("1")
        two = await server.seat("2", parent_id=one.id)
        team = await server.seat("Team")
        member = await server.seat("Member", parent_id=team.id)

        assert "deeper than the limit of 3 levels" in (await refused(move(server.admin, team, two))).problem["error"]
        await move(server.admin, team, one)
        nested = {"children": [{"name": "a", "children": [{"name": "b"}]}]}
        error = await refused(server.admin.post(f"/workspaces/{two.id}/expand", nested))
        assert (error.code, "deeper than the limit of 3 levels" in error.problem["error"]) == ("invalid_parent", True)
        many = {"children": [{"name": "x"}] * 5}
        error = await refused(server.admin.post(f"/workspaces/{two.id}/expand", many))
        assert (error.code, "a team cannot have 5 members. Use 1 to 4." in error.problem["error"]) == (
            "invalid_field",
            True,
        )
        assert (await refused(server.admin.post(f"/workspaces/{two.id}/expand", {"children": []}))).status == 422
        assert await peers_of(two) == {one.id, team.id}
        assert await peers_of(member) == {team.id}


@requirement("M4", "P6")
async def test_a_workspaces_own_token_never_moves_it_nor_changes_how_it_stands(server: Running) -> None:
    lead, ops = await server.seat("Lead"), await server.seat("Ops")
    before = await server.admin.get("/workspaces")
    for method, path, body in (
        ("PATCH", "", {"parent_id": lead.id}),
        ("POST", "/expand", {"children": [{"name": "x"}]}),
        ("POST", "/collapse?confirm=true", None),
        ("POST", "/pause", None),
        ("POST", "/hibernate", None),
        ("PATCH", "/abilities", {"broadcast_enabled": True}),
        ("POST", "/tokens", None),
        ("GET", "/tokens", None),
        ("POST", "/external/rotate", None),
    ):
        error = await refused(ops.api.call(method, f"/workspaces/{ops.id}{path}", body=body))
        assert error.code == "credential_not_accepted", path
    assert await server.admin.get("/workspaces") == before


@requirement("M4")
async def test_of_two_moves_at_once_that_would_make_a_circle_exactly_one_wins(server: Running) -> None:
    for number in range(12):
        one, other = await server.seat(f"One {number}"), await server.seat(f"Other {number}")
        found = await asyncio.gather(
            move(server.admin, one, other), move(server.admin, other, one), return_exceptions=True
        )
        refusals = [each for each in found if isinstance(each, ApiError)]
        assert [each.code for each in refusals] == ["invalid_parent"]
        assert "circle" in refusals[0].problem["error"]


@requirement("M4", "M3")
async def test_the_tree_is_the_same_after_a_restart(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path) as server:
        old, young = await server.seat("Old"), await server.seat("Young")
        first, last = await server.seat("First"), await server.seat("Last", parent_id=young.id)
        await move(server.admin, last, None)
        await move(server.admin, first, young)
        await move(server.admin, last, young)
        await server.admin.post(f"/workspaces/{old.id}/pause")
        org_id = (await server.admin.get("/orgs"))[0]["id"]
        tree, rows = await server.admin.get(f"/orgs/{org_id}/tree"), await server.admin.get("/workspaces")
    async with running(engine, place, tmp_path) as server:
        assert await server.admin.get(f"/orgs/{org_id}/tree") == tree
        assert await server.admin.get("/workspaces") == rows
        assert [each["name"] for each in tree[1]["children"]] == ["First", "Last"]


@requirement("M4", "M32")
async def test_a_moved_seat_is_told_about_its_new_peers_and_no_more_about_the_old_ones(server: Running) -> None:
    """Live and by a resume alike: who may see an event is read from the tree as it is when the event is told."""
    red, blue = await server.seat("Red"), await server.seat("Blue")
    ops, left = await server.seat("Ops", parent_id=red.id), await server.seat("Left", parent_id=red.id)
    new = await server.seat("New", parent_id=blue.id)
    async with channel(server, ops.token) as opened:
        await all_live(server)
        start = opened.frames[0]["head"]
        await move(server.admin, ops, blue)
        assert (await opened.event())["event"] == "WORKSPACE_MOVED"
        for seat in (left, new, blue):
            await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"role": "changed"})
        live = [(await opened.event())["workspace_id"] for _ in range(2)]
    assert live == [new.id, blue.id]
    resumed = await journal_of(server, ops.token, after=start)
    assert [event["workspace_id"] for event in resumed] == [ops.id, new.id, blue.id]
    # What happened among its new peers before it came is told to who resumes: they are its peers now.
    everything = await journal_of(server, ops.token)
    assert left.id not in {event["workspace_id"] for event in everything}
    assert {new.id, blue.id} <= {event["workspace_id"] for event in everything}


# -- teams -------------------------------------------------------------------------------------------------------------

TEAM = {
    "children": [
        {"name": "Dev", "role": "builds", "runtime": "codex", "children": [{"name": "Test"}, {"name": "Test"}]},
        {"name": "Ops", "max_concurrent_tasks": 3, "key": "ops"},
    ]
}


@requirement("M4")
async def test_a_team_is_made_with_its_tokens_below_its_coordinator(server: Running) -> None:
    lead = await server.seat("Lead")
    await server.seat("Ops", parent_id=lead.id)

    answer = await server.admin.post(f"/workspaces/{lead.id}/expand", TEAM)

    assert answer["status"] == "expanded"
    names = [(each["name"], each["role"]) for each in answer["children"]]
    assert names == [("Dev", "builds"), ("Test", None), ("Test 2", None), ("Ops 2", None)]
    dev, test = answer["children"][:2]
    assert (dev["parent_id"], test["parent_id"]) == (lead.id, dev["id"])
    agent = server.api(test["connection"]["auth_token"])
    assert {row["name"] for row in await agent.get(f"/registry/{test['id']}/peers")} == {"Dev", "Test 2"}
    assert (await server.admin.get(f"/workspaces/{answer['children'][3]['id']}"))["key"] == "ops"
    events = await journal_of(server)
    assert [event["event"] for event in events[-5:]] == ["WORKSPACE_PROVISIONING"] * 4 + ["WORKSPACE_EXPANDED"]
    check_shape(events[-1])
    assert [each["name"] for each in events[-1]["payload"]["children"]] == ["Dev", "Test", "Test 2", "Ops 2"]
    assert "mol_ws_" not in str(events)


@requirement("M4")
async def test_a_team_with_one_bad_member_is_not_made_at_all(server: Running) -> None:
    lead = await server.seat("Lead", key="lead")
    bad: list[dict[str, Any]] = [
        {"name": "a\u202eb"},
        {"name": "x", "tier": 10},
        {"name": "x", "key": "lead"},
        {"name": "x", "key": "one"},
        {"name": "x", "colour": "red"},
        {"name": "x", "role": "y" * 501},
    ]
    for member in bad:
        team = {"children": [{"name": "Good", "key": "one", "children": [member]}]}
        assert (await refused(server.admin.post(f"/workspaces/{lead.id}/expand", team))).status == 422, member
    assert [each["id"] for each in await server.admin.get("/workspaces")] == [lead.id]


@requirement("M4")
async def test_collapsing_asks_first_then_removes_all_below_and_not_itself(server: Running) -> None:
    lead, beside = await server.seat("Lead"), await server.seat("Beside")
    made = (await server.admin.post(f"/workspaces/{lead.id}/expand", TEAM))["children"]

    asked = await refused(server.admin.post(f"/workspaces/{lead.id}/collapse"))
    mistyped = await refused(server.admin.post(f"/workspaces/{lead.id}/collapse", confirm="true", name="Beside"))
    answer = await server.admin.post(f"/workspaces/{lead.id}/collapse", confirm="true", name="Lead")
    again = await server.admin.post(f"/workspaces/{lead.id}/collapse")

    assert (asked.status, asked.problem["name"], asked.problem["children_count"]) == (409, "Lead", 4)
    assert {each["id"] for each in asked.problem["children"]} == {each["id"] for each in made}
    assert (mistyped.status, mistyped.code) == (409, "confirmation_required")
    assert sorted(answer["removed"]) == ["Dev", "Ops", "Test", "Test 2"]
    assert set(answer["removed_ids"]) == {each["id"] for each in made}
    assert again == {"status": "collapsed", "removed": [], "removed_ids": []}
    assert [each["id"] for each in await server.admin.get("/workspaces")] == [lead.id, beside.id]
    told = (await journal_of(server))[-1]
    check_shape(told)
    assert (told["event"], told["workspace_id"]) == ("WORKSPACE_COLLAPSED", lead.id)
    assert {each["id"] for each in told["payload"]["removed_children"]} == {each["id"] for each in made}
    agent = server.api(made[0]["connection"]["auth_token"])
    assert (await refused(agent.get(f"/workspaces/{made[0]['id']}"))).status == 410


@requirement("M3")
async def test_a_removal_with_a_typed_name_takes_only_the_seat_that_has_that_name_now(server: Running) -> None:
    seat = await server.seat("Ops")
    wrong = await refused(
        server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true", "name": "Lead"})
    )
    assert (wrong.status, wrong.problem["name"]) == (409, "Ops")
    gone = await server.admin.call("DELETE", f"/workspaces/{seat.id}", query={"confirm": "true", "name": "Ops"})
    assert gone["status"] == "removed"


@requirement("M6")
async def test_a_key_is_for_one_seat_of_an_organisation(server: Running) -> None:
    ops = await server.seat("Ops", key="ops")
    other = await server.seat("Other", org_id=await server.org("Other"), key="ops")
    assert other.name == "Other"
    for work in (
        server.seat("Twin", key="ops"),
        server.admin.call("PATCH", f"/workspaces/{(await server.seat('Dev')).id}", body={"key": "ops"}),
    ):
        error = await refused(work)
        assert (error.status, "the workspace 'Ops' already has the key" in error.problem["error"]) == (422, True)
    same = await server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"key": "ops", "role": "same"})
    assert same["key"] == "ops"
    await remove(server.admin, ops)
    assert (await server.seat("Heir", key="ops")).name == "Heir"


@requirement("M32")
async def test_what_a_team_is_made_of_is_told_to_persons_and_its_coordinator_alone(server: Running) -> None:
    lead, sibling = await server.seat("Lead"), await server.seat("Sibling")
    child = await server.seat("Child", parent_id=lead.id)
    await server.admin.post(f"/workspaces/{lead.id}/expand", TEAM)
    await server.admin.call("PATCH", f"/workspaces/{lead.id}", body={"role": "the last that all of them see"})
    for token, sees in ((lead.token, True), (child.token, False), (sibling.token, False)):
        names = [event["event"] for event in await journal_of(server, token)]
        assert ("WORKSPACE_EXPANDED" in names) == sees
