"""Organisations and seats: made, registered, read, changed, removed; and who is whose peer."""

import asyncio
import re
from pathlib import Path
from typing import Any

from molecule_core.api.routing import WORKSPACE, WorkspaceScope
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.raw_http import ask
from testing.running_server import ADMIN_TOKEN, Running, Seat, running
from testing.upload_forms import place_of, upload
from testing.waits import refused
from testing.workspaces import beat, remove
from tests.requirements import requirement

UNKNOWN = "01900000-0000-7000-8000-000000000000"


# -- making ------------------------------------------------------------------------------------------------------------


@requirement("M1")
async def test_a_new_seat_comes_with_all_that_its_agent_needs(server: Running) -> None:
    answer = await server.admin.post("/workspaces", {"name": "Ops", "external": True})

    connection = answer["connection"]
    assert (answer["status"], answer["external"], answer["delivery_mode"]) == ("awaiting_agent", True, "poll")
    assert connection["workspace_id"] == answer["id"]
    assert connection["platform_url"] == server.url
    assert connection["registry_endpoint"] == f"{server.url}/registry/register"
    assert connection["heartbeat_endpoint"] == f"{server.url}/registry/heartbeat"
    assert len(connection["auth_token"]) >= 43
    agent = server.api(connection["auth_token"])
    assert (await agent.get(f"/workspaces/{answer['id']}"))["name"] == "Ops"


@requirement("M1")
async def test_what_was_said_of_a_seat_is_what_is_read(server: Running) -> None:
    person = await server.person()
    said: dict[str, Any] = {
        "name": "Ops",
        "role": "keeps things running",
        "runtime": "claude-code",
        "tier": 3,
        "max_concurrent_tasks": 4,
        "instruction_compact": True,
        "instruction_template_id": "codex-default",
    }

    seat = await server.seat(**said, canvas={"x": 1.5, "y": -2})
    view = await person.get(f"/workspaces/{seat.id}")

    assert {name: view[name] for name in said} == said
    assert (view["x"], view["y"], view["collapsed"], view["rev"]) == (1.5, -2.0, False, 1)
    assert (view["parent_id"], view["removed_at"], view["agent_card"]) == (None, None, None)
    assert view in await person.get("/workspaces")


@requirement("M1", "P6")
async def test_workspaces_of_one_moment_have_ids_without_a_common_beginning_and_keep_their_order(
    engine: Engine, place: str, tmp_path: Path
) -> None:
    """The original runtime names its cursor files by the first eight digits of a workspace's id."""
    clock = FakeClock()
    async with running(engine, place, tmp_path, clock=clock) as server:
        lead = await server.seat("Lead")
        for number in range(10):
            await server.seat(f"Agent {number}", parent_id=lead.id)
        team = [{"name": f"Member {number}"} for number in range(10)]
        await server.admin.post(f"/workspaces/{lead.id}/expand", {"children": team})
        made = await server.admin.get("/workspaces")
    assert len({each["id"][:8] for each in made}) == len(made) == 21
    expected = ["Lead", *(f"Agent {n}" for n in range(10)), *(f"Member {n}" for n in range(10))]
    assert [each["name"] for each in made] == expected
    async with running(engine, place, tmp_path, clock=clock) as server:
        assert [each["name"] for each in await server.admin.get("/workspaces")] == expected


@requirement("M7", "O3")
async def test_the_token_is_shown_only_once(server: Running) -> None:
    person = await server.person("owner")
    seat = await server.seat("Ops")

    for answer in (
        await person.get(f"/workspaces/{seat.id}"),
        await person.get("/workspaces"),
        await person.call("PATCH", f"/workspaces/{seat.id}", body={"name": "Ops II"}),
        await seat.api.get(f"/workspaces/{seat.id}"),
    ):
        assert seat.token not in str(answer)


@requirement("M5")
async def test_a_name_that_is_taken_under_one_parent_gets_a_number(server: Running) -> None:
    lead = await server.seat("Lead")

    twins = [(await server.seat("Ops", parent_id=lead.id)).name for _ in range(3)]
    elsewhere = (await server.seat("Ops")).name
    freed = await server.seat("Solo")
    await remove(server.admin, freed)

    assert twins == ["Ops", "Ops 2", "Ops 3"]
    assert elsewhere == "Ops"
    assert (await server.seat("Solo")).name == "Solo"


@requirement("M5")
async def test_a_burst_of_equal_names_gives_each_its_own(server: Running) -> None:
    seats = await asyncio.gather(*(server.seat("Ops") for _ in range(8)))

    assert {seat.name for seat in seats} == {"Ops", *(f"Ops {number}" for number in range(2, 9))}


@requirement("M5")
async def test_a_name_that_people_cannot_read_is_refused(server: Running) -> None:
    seat = await server.seat("Ops")
    org_id = (await server.admin.get("/orgs"))[0]["id"]

    for name in ("", "   ", "a\nb", "a\u202eb", "a\U000e0041b", "\u200b", "x" * 121, "a\u2028b", "\x7f", "a\u2066b"):
        for method, path in (
            ("POST", "/workspaces"),
            ("PATCH", f"/workspaces/{seat.id}"),
            ("POST", "/orgs"),
            ("POST", f"/orgs/{org_id}/people"),
        ):
            error = await refused(server.admin.call(method, path, body={"name": name}))
            assert (error.status, error.code) == (422, "invalid_name"), (path, name)


@requirement("M5")
async def test_a_name_may_be_written_in_any_script_and_is_trimmed(server: Running) -> None:
    for name in ("Größe", "開発", "مدير", "👩‍💻 Dev", "x" * 120):
        assert (await server.seat(f"  {name} ")).name == name


@requirement("M3")
async def test_a_parent_is_a_living_seat_of_the_same_organisation(server: Running) -> None:
    other_org = await server.org("Other")
    elsewhere = await server.seat("Elsewhere", org_id=other_org)
    gone = await server.seat("Gone")
    await remove(server.admin, gone)

    errors = [await refused(server.seat("Ops", parent_id=each)) for each in (elsewhere.id, gone.id, UNKNOWN, "")]

    assert [(error.status, error.code) for error in errors] == [(422, "invalid_parent")] * 4
    assert len({error.problem["error"] for error in errors}) == 1


@requirement("O2")
async def test_the_tree_is_only_so_deep(engine: Engine, place: str, tmp_path: Path) -> None:
    async with running(engine, place, tmp_path, limits=Limits(tree_depth=3)) as server:
        lead = await server.seat("1")
        second = await server.seat("2", parent_id=lead.id)
        third = await server.seat("3", parent_id=second.id)

        error = await refused(server.seat("4", parent_id=third.id))

        assert (error.status, error.code) == (422, "invalid_parent")


@requirement("M3")
async def test_a_person_makes_seats_in_their_own_organisation_only(server: Running) -> None:
    org_id = await server.org("A")
    other_id = await server.org("B")
    person = await server.person("operator", org_id)

    own = await person.post("/workspaces", {"name": "Ops"})
    foreign = await refused(person.post("/workspaces", {"name": "Ops", "org_id": other_id}))
    unknown = await refused(person.post("/workspaces", {"name": "Ops", "org_id": UNKNOWN}))

    assert own["org_id"] == org_id
    assert foreign.status == unknown.status == 404
    assert foreign.problem == unknown.problem


@requirement("M1")
async def test_two_organisations_cannot_have_one_name(server: Running) -> None:
    await server.org("A")

    error = await refused(server.org("A"))

    assert (error.status, error.code) == (409, "org_exists")


# -- registering -------------------------------------------------------------------------------------------------------


@requirement("M9")
async def test_register_never_makes_a_seat_and_never_hands_out_a_token(server: Running) -> None:
    seat = await server.seat("Ops")
    before = await server.admin.get("/workspaces")

    first = await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})
    again = await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})
    by_admin = await server.admin.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}})
    unknown = [
        await refused(api.post("/registry/register", {"id": UNKNOWN, "agent_card": {"name": "x"}}))
        for api in (seat.api, server.admin)
    ]

    assert first == again == by_admin == {"status": "registered", "delivery_mode": "poll"}
    assert [error.status for error in unknown] == [403, 404]
    assert [each["id"] for each in await server.admin.get("/workspaces")] == [each["id"] for each in before]


@requirement("M9")
async def test_a_removed_seat_is_never_revived_by_its_agent(server: Running) -> None:
    seat = await server.seat("Ops")
    await remove(server.admin, seat)

    registering = await refused(seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "x"}}))
    beating = await refused(beat(seat))

    assert (registering.status, beating.status) == (410, 410)


@requirement("M1")
async def test_a_card_without_a_readable_name_gets_the_seats(server: Running) -> None:
    seat = await server.seat("Ops")

    for name in ({}, {"name": ""}, {"name": "  "}, {"name": UNKNOWN}, {"name": UNKNOWN.replace("-", "")}, {"name": 7}):
        card = {"description": "d", "skills": [{"name": "s"}], **name}
        await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": card})
        view = await seat.api.get(f"/workspaces/{seat.id}")
        assert view["agent_card"] == {"description": "d", "skills": [{"name": "s"}], "name": "Ops"}, name


@requirement("M1")
async def test_a_card_is_any_json(server: Running) -> None:
    seat, peer = await server.seat("Ops"), await server.seat("Peer")
    cards: list[Any] = [[], "text", 5, True, {"name": "Mine", "deep": {"er": [1, {"x": None}]}}]

    for card in cards:
        await seat.api.post("/registry/register", {"id": seat.id, "agent_card": card})

        assert (await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"] == card
        assert (await peer.api.get(f"/registry/{peer.id}/peers"))[0]["agent_card"] == card
        assert (await peer.api.get(f"/registry/discover/{seat.id}"))["agent_card"] == card


@requirement("M1")
async def test_a_card_that_is_too_large_is_refused_and_the_old_one_stays(server: Running) -> None:
    seat = await server.seat("Ops")
    await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": "small"}})

    error = await refused(
        seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": {"name": "x" * 70_000}})
    )

    assert error.status == 422
    assert (await seat.api.get(f"/workspaces/{seat.id}"))["agent_card"] == {"name": "small"}


# -- changing ----------------------------------------------------------------------------------------------------------


@requirement("M1")
async def test_a_change_changes_what_it_names_and_nothing_else(server: Running) -> None:
    person = await server.person()
    seat = await server.seat("Ops", role="old", tier=2)
    before = await person.get(f"/workspaces/{seat.id}")

    after = await person.call("PATCH", f"/workspaces/{seat.id}", body={"role": None, "x": 7.5, "collapsed": True})

    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"role", "x", "collapsed", "rev", "updated_at"}
    assert after["rev"] == before["rev"] + 1
    assert after == await person.get(f"/workspaces/{seat.id}")


@requirement("M5")
async def test_a_new_name_that_is_taken_gets_a_number_and_ones_own_does_not(server: Running) -> None:
    await server.seat("Ops")
    seat = await server.seat("Dev")

    taken = await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"name": "Ops"})
    same = await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"name": "Ops 2"})

    assert (taken["name"], same["name"]) == ("Ops 2", "Ops 2")


@requirement("M1")
async def test_a_change_of_what_may_not_change_is_refused(server: Running) -> None:
    seat = await server.seat("Ops")
    before = await server.admin.get(f"/workspaces/{seat.id}")
    changes: list[dict[str, Any]] = [
        {"created_at": 1},
        {"status": "removed"},
        {"org_id": "x"},
        {"tier": 10},
        {"max_concurrent_tasks": 0},
        {"x": "1"},
    ]

    for change in changes:
        error = await refused(server.admin.call("PATCH", f"/workspaces/{seat.id}", body=change))
        assert error.status == 422
        assert next(iter(change)) in error.problem["error"]
    assert await server.admin.get(f"/workspaces/{seat.id}") == before


# -- removing ----------------------------------------------------------------------------------------------------------


@requirement("M3")
async def test_removing_asks_first_and_names_what_goes_with_it(server: Running) -> None:
    person = await server.person()
    lead = await server.seat("Lead")
    child = await server.seat("Child", parent_id=lead.id)
    grandchild = await server.seat("Grandchild", parent_id=child.id)

    error = await refused(remove(person, lead, confirm=False))

    assert error.status == 409
    assert error.problem["status"] == "confirmation_required"
    assert error.problem["children_count"] == 2
    assert error.problem["children"] == [
        {"id": child.id, "name": "Child"},
        {"id": grandchild.id, "name": "Grandchild"},
    ]
    assert "confirm=true" in error.problem["error"]
    assert (await person.get(f"/workspaces/{grandchild.id}"))["status"] == "awaiting_agent"


@requirement("M3")
async def test_removing_takes_the_whole_subtree_and_nothing_beside_it(server: Running) -> None:
    lead, beside = await server.seat("Lead"), await server.seat("Beside")
    child = await server.seat("Child", parent_id=lead.id)
    grandchild = await server.seat("Grandchild", parent_id=child.id)

    answer = await remove(server.admin, lead)

    assert answer["status"] == "removed"
    assert [each["id"] for each in answer["removed"]] == [lead.id, child.id, grandchild.id]
    assert [each["id"] for each in await server.admin.get("/workspaces")] == [beside.id]
    for seat in (lead, child, grandchild):
        assert (await refused(server.admin.get(f"/workspaces/{seat.id}"))).status == 410


@requirement("M3")
async def test_what_is_removed_answers_410_to_its_own_and_404_to_all_others(server: Running) -> None:
    org_id, other_id = await server.org("A"), await server.org("B")
    lead = await server.seat("Lead", org_id=org_id)
    gone = await server.seat("Gone", org_id=org_id, parent_id=lead.id)
    peer = await server.seat("Peer", org_id=org_id, parent_id=lead.id)
    far = await server.seat("Far", org_id=org_id, parent_id=peer.id)
    foreign = await server.seat("Foreign", org_id=other_id)
    person, stranger = await server.person("viewer", org_id), await server.person("owner", other_id)

    await remove(server.admin, gone)

    for api in (gone.api, lead.api, peer.api, person, server.admin):
        error = await refused(api.get(f"/workspaces/{gone.id}"))
        assert error.status == 410
        assert error.problem["error"] == "workspace removed"
        assert error.problem["id"] == gone.id
        assert error.problem["removed_at"].endswith("Z")
        assert error.problem["hint"]
    for api in (far.api, foreign.api, stranger):
        gone_error = await refused(api.get(f"/workspaces/{gone.id}"))
        unknown_error = await refused(api.get(f"/workspaces/{UNKNOWN}"))
        assert (gone_error.status, gone_error.problem) == (404, unknown_error.problem)


@requirement("M3")
async def test_a_removed_seats_token_opens_nothing_any_more(server: Running) -> None:
    peer, gone = await server.seat("Peer"), await server.seat("Gone")
    await remove(server.admin, gone)
    text = {"params": {"message": {"content": "hi"}}}
    calls: list[tuple[str, str, Any]] = [
        ("GET", f"/workspaces/{gone.id}/activity", None),
        ("GET", f"/workspaces/{gone.id}/chat-history", None),
        ("POST", f"/workspaces/{gone.id}/notify", {"message": "hi"}),
        ("POST", f"/workspaces/{gone.id}/activity", {"activity_type": "agent_log"}),
        ("POST", f"/workspaces/{gone.id}/activity/ack", {"acked_seq": 0}),
        ("POST", f"/workspaces/{gone.id}/activity/release", {"claims": []}),
        ("POST", f"/workspaces/{gone.id}/a2a", text),
        ("POST", f"/workspaces/{peer.id}/a2a", text),
        ("GET", f"/workspaces/{peer.id}", None),
        ("GET", f"/registry/{gone.id}/peers", None),
        ("GET", f"/registry/discover/{peer.id}", None),
        ("POST", "/registry/update-card", {"workspace_id": gone.id, "agent_card": {}}),
    ]

    seen = {}
    for method, path, body in calls:
        answer = await ask(server.port, method, path, body, token=gone.token)
        seen[method, path] = (answer.status, answer.json.get("id"))

    assert seen == {(method, path): (410, gone.id) for method, path, _ in calls}


@requirement("M3")
async def test_a_removed_seats_token_opens_no_route_that_names_no_workspace(server: Running) -> None:
    peer, gone = await server.seat("Peer"), await server.seat("Gone")
    begun = await gone.api.post(f"/workspaces/{gone.id}/delegate", {"target_id": peer.id, "task": "count"})
    thread = await gone.api.post(f"/workspaces/{gone.id}/threads", {"base_instructions": "Be brief."})
    await remove(server.admin, gone)
    org_id = server.server.registry.orgs()[0].id
    ids = {"delegation_id": begun["delegation_id"], "thread_id": thread["thread_id"], "org_id": org_id}

    open_to_it = [each for each in server.server.routes.routes if WORKSPACE in each.access.kinds]
    calls = [
        (each.method, re.sub(r"{(\w+)}", lambda named: ids.get(named[1], UNKNOWN), each.path))
        for each in open_to_it
        if each.access.scope is WorkspaceScope.NONE
    ]
    seen = {}
    for method, path in calls:
        answer = await ask(server.port, method, path, None if method == "GET" else {}, token=gone.token)
        seen[method, path] = (answer.status, answer.json.get("id"))

    assert {("GET", f"/delegations/{ids['delegation_id']}"), ("GET", f"/threads/{ids['thread_id']}")} <= set(seen)
    assert seen == dict.fromkeys(calls, (410, gone.id))
    for api in (peer.api, server.admin):
        assert await api.get(f"/delegations/{ids['delegation_id']}"), "those who are there go on reading"


@requirement("M3")
async def test_writing_to_a_removed_seat_is_refused_and_its_log_stays_unchanged(server: Running) -> None:
    gone, peer, person = await server.seat("Gone"), await server.seat("Peer"), await server.person()
    await person.send(gone.id, "before")
    await remove(server.admin, gone)

    for api in (peer.api, person, server.admin):
        assert (await refused(api.send(gone.id, "after"))).status == 410


@requirement("M3")
async def test_include_removed_shows_what_is_gone_to_persons(server: Running) -> None:
    person, gone = await server.person("viewer"), await server.seat("Gone")
    await remove(server.admin, gone)

    view = await person.get(f"/workspaces/{gone.id}", include_removed="true")

    assert (view["id"], view["status"], view["name"]) == (gone.id, "removed", "Gone")
    assert view["removed_at"].endswith("Z")


@requirement("M3")
async def test_the_history_of_a_removed_workspace_stays_readable_for_people_only(server: Running) -> None:
    person, gone, asker = await server.person("viewer"), await server.seat("Gone"), await server.seat("Asker")
    uploaded = await upload(server, gone.id, ADMIN_TOKEN, ("a.txt", b"kept"))
    sent = await server.admin.send(gone.id, "unread")
    one = f"/workspaces/{gone.id}"
    paths = [
        *(f"{one}/{name}" for name in ("activity", "waiting", "chat-history", "obligations", "delegations")),
        *(f"{one}/{name}" for name in ("approvals", "dead-letters", "threads")),
        f"{one}/messages/{sent['activity_id']}/ticks",
        f"{one}/a2a/queue/{sent['activity_id']}",
        place_of(uploaded.json["files"][0]),
    ]
    before = [(await ask(server.port, "GET", path, token=ADMIN_TOKEN)).status for path in paths]
    await remove(server.admin, gone)
    after = [(await ask(server.port, "GET", path, token=ADMIN_TOKEN)).status for path in paths]
    by_viewer = await person.get(f"{one}/activity", waiting="true")
    listed = await person.get("/workspaces", include_removed="true")
    by_stranger = await refused((await server.person("viewer", await server.org("Other"))).get(f"{one}/activity"))

    assert before == after == [200] * len(paths)
    assert [row["id"] for row in by_viewer][-1] == sent["activity_id"]
    assert {row["name"]: row["removed_at"] is not None for row in listed} == {"Gone": True, "Asker": False}
    assert [row["name"] for row in await person.get("/workspaces")] == ["Asker"]
    assert by_stranger.status == 404
    for api in (gone.api, asker.api):
        assert (await refused(api.get(f"{one}/activity"))).status in (401, 404, 410)
    assert (await refused(server.admin.send(gone.id, "more"))).status == 410


@requirement("W1", "M3")
async def test_state_tells_an_agent_whether_to_go_on(server: Running) -> None:
    seat = await server.seat("Ops")
    await beat(seat)
    going = await seat.api.get(f"/workspaces/{seat.id}/state")
    await remove(server.admin, seat)
    gone = await refused(seat.api.get(f"/workspaces/{seat.id}/state"))

    wanted = {"workspace_id": seat.id, "status": "online", "paused": False, "deleted": False, "limited_until": None}
    assert going == wanted
    assert gone.status == 404
    assert gone.problem["deleted"] is True


@requirement("M3")
async def test_removing_twice_and_changing_what_is_gone_are_410(server: Running) -> None:
    seat = await server.seat("Ops")
    await remove(server.admin, seat)

    again = await refused(remove(server.admin, seat))
    changed = await refused(server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"name": "x"}))

    assert (again.status, changed.status) == (410, 410)


# -- tree and peers ----------------------------------------------------------------------------------------------------


@requirement("M1")
async def test_the_tree_shows_everybody_once_in_their_place(server: Running) -> None:
    org_id = await server.org("A")
    person = await server.person("viewer", org_id)
    lead = await server.seat("Lead", org_id=org_id, role="leads")
    first = await server.seat("First", org_id=org_id, parent_id=lead.id)
    second = await server.seat("Second", org_id=org_id, parent_id=lead.id)
    below = await server.seat("Below", org_id=org_id, parent_id=first.id)
    gone = await server.seat("Gone", org_id=org_id)
    await remove(server.admin, gone)

    tree = await person.get(f"/orgs/{org_id}/tree")

    def shape(node: dict[str, Any]) -> tuple[str, list[Any]]:
        return node["id"], [shape(child) for child in node["children"]]

    assert [shape(root) for root in tree] == [(lead.id, [(first.id, [(below.id, [])]), (second.id, [])])]
    assert (tree[0]["name"], tree[0]["role"], tree[0]["status"]) == ("Lead", "leads", "awaiting_agent")


@requirement("M3")
async def test_peers_are_siblings_then_children_then_the_parent(server: Running) -> None:
    lead = await server.seat("Lead")
    ops = await server.seat("Ops", parent_id=lead.id)
    older, younger = await server.seat("A", parent_id=lead.id), await server.seat("B", parent_id=lead.id)
    child, other_child = await server.seat("C", parent_id=ops.id), await server.seat("D", parent_id=ops.id)
    grandchild = await server.seat("E", parent_id=child.id)
    gone = await server.seat("Gone", parent_id=lead.id)
    await remove(server.admin, gone)

    async def peers(seat: Seat) -> list[str]:
        return [row["id"] for row in await seat.api.get(f"/registry/{seat.id}/peers")]

    assert await peers(ops) == [older.id, younger.id, child.id, other_child.id, lead.id]
    assert await peers(lead) == [ops.id, older.id, younger.id]
    assert await peers(grandchild) == [child.id]


@requirement("M3")
async def test_roots_are_siblings_inside_one_organisation_only(server: Running) -> None:
    org_id, other_id = await server.org("A"), await server.org("B")
    one, two = await server.seat("One", org_id=org_id), await server.seat("Two", org_id=org_id)
    foreign = await server.seat("Foreign", org_id=other_id)

    await one.api.send(two.id, "hello")

    assert (await refused(one.api.send(foreign.id, "hello"))).status == 404
    assert [row["id"] for row in await one.api.get(f"/registry/{one.id}/peers")] == [two.id]


@requirement("M3")
async def test_levels_are_skipped_only_where_the_organisation_allows_it(server: Running) -> None:
    strict = await server.org("Strict")
    loose = (await server.admin.post("/orgs", {"name": "Loose", "allow_skip_level": True}))["id"]
    outcomes = {}
    for org_id in (strict, loose):
        top = await server.seat("Top", org_id=org_id)
        middle = await server.seat("Middle", org_id=org_id, parent_id=top.id)
        bottom = await server.seat("Bottom", org_id=org_id, parent_id=middle.id)
        uncle = await server.seat("Uncle", org_id=org_id, parent_id=top.id)
        for name, (one, other) in {"up": (bottom, top), "down": (top, bottom), "aside": (bottom, uncle)}.items():
            try:
                await one.api.send(other.id, "hi")
            except Exception as error:
                outcomes[org_id, name] = str(getattr(error, "status", error))
            else:
                outcomes[org_id, name] = "sent"

    assert [outcomes[strict, name] for name in ("up", "down", "aside")] == ["403", "403", "403"]
    assert [outcomes[loose, name] for name in ("up", "down", "aside")] == ["sent", "sent", "403"]


@requirement("M1")
async def test_a_long_list_comes_in_pages_that_miss_nothing_and_show_the_removed_to_nobody(server: Running) -> None:
    seats = [await server.seat(f"Seat {number}") for number in range(11)]
    await server.seat("Elsewhere", org_id=await server.org("Elsewhere"))
    await remove(server.admin, seats[4])
    whole = [row["id"] for row in await (await server.person()).get("/workspaces")]
    assert whole == [seat.id for seat in seats if seat is not seats[4]]

    person = await server.person("viewer")
    pages: list[list[str]] = []
    after: dict[str, str] = {}
    while page := [row["id"] for row in await person.get("/workspaces", limit=3, **after)]:
        pages.append(page)
        after = {"after": page[-1]}
    assert [len(page) for page in pages] == [3, 3, 3, 1]
    assert [id_ for page in pages for id_ in page] == whole
    assert [row["id"] for row in await person.get("/workspaces", limit=2, after=seats[4].id)] == whole[4:6]


@requirement("M1", "S13")
async def test_a_page_behind_a_seat_that_one_may_not_see_is_a_cursor_that_is_gone(server: Running) -> None:
    foreign = await server.seat("Foreign", org_id=await server.org("Elsewhere"))
    person = await server.person()
    for after in (foreign.id, UNKNOWN):
        refusal = await refused(person.get("/workspaces", limit=3, after=after))
        assert (refusal.status, refusal.code) == (410, "cursor_gone")
        assert "Omit after" in refusal.problem["error"]


@requirement("M1")
async def test_a_list_is_never_older_than_what_was_changed_or_heard(server: Running) -> None:
    seat = await server.seat("Ops")
    rows = [(await server.admin.get("/workspaces"))[0]]
    await server.admin.call("PATCH", f"/workspaces/{seat.id}", body={"name": "Operations"})
    rows.append((await server.admin.get("/workspaces"))[0])
    await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, "active_tasks": 2})
    rows.append((await server.admin.get("/workspaces"))[0])
    seen = [(row["name"], row["status"], row["active_tasks"]) for row in rows]
    assert seen == [("Ops", "awaiting_agent", 0), ("Operations", "awaiting_agent", 0), ("Operations", "online", 2)]
    assert rows[2] == await server.admin.get(f"/workspaces/{seat.id}")
