"""Delegations over HTTP: given, waited for, looked at, by those who may."""

import asyncio
from typing import Any

import pytest

from testing.message_world import MessageWorld, handle, reply
from testing.running_server import Seat
from testing.waits import bounded, refused, until_waiting
from testing.workspaces import beat
from tests.requirements import requirement


async def pair(world: MessageWorld) -> tuple[Seat, Seat]:
    """Who gives work, and who gets it."""
    return await world.server.seat("Lead"), await world.server.seat("Ops")


async def give(source: Seat, target: Seat, task: str = "sort the mail", **more: Any) -> dict[str, Any]:
    """A workspace delegates."""
    body = {"target_id": target.id, "task": task, **more}
    told: dict[str, Any] = await bounded(source.api.post(f"/workspaces/{source.id}/delegate", body))
    return told


async def work(world: MessageWorld, seat: Seat, text: str = "sorted") -> None:
    """An agent takes the one task that it has, and answers it."""
    (row,) = [row for row in await world.take(seat) if row["kind"] == "delegation"]
    await reply(seat, handle(row), text)


async def full(seat: Seat, delegation_id: str) -> dict[str, Any]:
    """All about a delegation, as a workspace reads it."""
    found: dict[str, Any] = await seat.api.get(f"/delegations/{delegation_id}")
    return found


# -- giving ------------------------------------------------------------------------------------------------------------


@requirement("D2", "D3", "P5")
async def test_work_is_given_and_its_whole_story_can_be_read(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    told = await give(lead, ops, "sort the mail " * 20)
    assert {name: told[name] for name in ("status", "state", "phase", "target_id")} == {
        "status": "delegated",
        "state": "queued",
        "phase": "waiting",
        "target_id": ops.id,
    }
    assert "settled" not in told
    await work(world, ops, "sorted 😀" * 50)
    found = await full(lead, told["delegation_id"])
    assert (found["task"], found["result"]) == ("sort the mail " * 20, "sorted 😀" * 50)
    item = found["delegation"]
    assert (item["status"], item["via"], item["source_name"], item["target_name"]) == (
        "completed",
        "reply",
        "Lead",
        "Ops",
    )
    assert len(item["summary"].encode()) <= 100
    assert len(item["response_preview"].encode()) <= 300
    assert (found["a2a_state"], item["error"], item["error_detail"], item["advice"]) == ("completed", None, None, None)
    assert [each["fact"] for each in found["timeline"]] == ["begun", "stored", "stored", "claimed", "answered"]
    assert await full(ops, told["delegation_id"]) == found
    assert await world.person.get(f"/delegations/{told['delegation_id']}") == found


@requirement("D9")
async def test_the_same_again_is_the_same_delegation(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    first = await give(lead, ops)
    again = await give(lead, ops)
    assert (again["delegation_id"], again["status"], again["idempotent_hit"]) == (
        first["delegation_id"],
        "queued",
        True,
    )
    keyed = [await give(lead, ops, "file it", idempotency_key="k-1") for _ in range(2)]
    path, body = f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": "file it"}
    header = {"Idempotency-Key": "k-1"}
    keyed.append(await lead.api.call("POST", path, body=body, headers=header))
    assert len({each["delegation_id"] for each in keyed}) == 1
    error = await refused(give(lead, ops, "something else", idempotency_key="k-1"))
    assert (error.status, error.code) == (409, "message_id_reused")
    assert len(await lead.api.get(f"/workspaces/{lead.id}/delegations")) == 2


@requirement("D7")
async def test_who_asks_again_for_what_has_ended_reads_its_result(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    await give(lead, ops, idempotency_key="k-1")
    await work(world, ops)
    again = await give(lead, ops, idempotency_key="k-1")
    assert (again["settled"], again["status"], again["result"]) == (True, "completed", "sorted")


@requirement("D13")
async def test_a_refusal_says_limit_use_and_remedy(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    await give(lead, ops)
    await world.take(ops)
    error = await refused(give(ops, lead))
    assert (error.status, error.code) == (409, "delegation_cycle")
    assert {name: error.problem[name] for name in ("limit", "use", "most")} == {"limit": "cycle", "use": 1, "most": 1}
    assert error.problem["remedy"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("task", " "), ("in_reply_to", "a\x00b"), ("context_id", "with blanks"), ("idempotency_key", "x" * 500)],
)
async def test_a_field_that_can_be_nothing_is_refused_and_nothing_is_begun(
    world: MessageWorld, field: str, value: str
) -> None:
    lead, ops = await pair(world)
    error = await refused(give(lead, ops, **{field: value}))
    assert error.status in (400, 422)
    assert await lead.api.get(f"/workspaces/{lead.id}/delegations") == []


async def test_a_task_that_must_wait_says_why(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    assert (await give(lead, ops, "first"))["warning"] == "the target is awaiting_agent"
    await work(world, ops)
    await beat(ops)
    assert "warning" not in await give(lead, ops)
    told = await give(lead, ops, "and file it")
    assert told["warning"] == "queued behind 1; last seen 0 s ago"
    await world.person.post(f"/workspaces/{ops.id}/pause")
    told = await give(lead, ops, "and burn it")
    assert told["warning"].startswith("the target is paused; queued behind 2")


# -- waiting -----------------------------------------------------------------------------------------------------------


@requirement("D7")
async def test_who_gives_work_may_wait_for_its_end(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    waiting = asyncio.create_task(give(lead, ops, wait=60))
    await until_waiting(world.server.server, 1)
    await work(world, ops)
    told = await bounded(waiting)
    assert (told["status"], told["state"], told["settled"]) == ("delegated", "completed", True)
    assert (told["result"], told["delivered"]) == ("sorted", "here")
    assert await world.take(lead) == []  # it has the result already, and the inbox does not bring it again


@requirement("D7")
async def test_a_wait_ends_when_the_delegation_stands_otherwise_or_the_time_is_over(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    path = f"/workspaces/{lead.id}/delegations/{(await give(lead, ops))['delegation_id']}/wait"
    waiting = asyncio.create_task(lead.api.post(path, {"wait": 60}))
    await until_waiting(world.server.server, 1)
    await world.take(ops)
    assert (await bounded(waiting))["phase"] == "claimed"
    waiting = asyncio.create_task(lead.api.post(path, {"wait": 5}))
    await until_waiting(world.server.server, 1)
    await world.clock.advance(6)
    assert "settled" not in await bounded(waiting)
    error = await refused(ops.api.post(path.replace(lead.id, ops.id), {"wait": 0}))
    assert (error.status, error.code) == (404, "not_found")


# -- taking back -------------------------------------------------------------------------------------------------------


@requirement("D11")
async def test_who_gave_work_or_a_person_takes_it_back_and_it_stays_so(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    first, second = await give(lead, ops), await give(lead, ops, "file it")
    path = f"/workspaces/{lead.id}/delegations/{{}}/cancel"
    item = await lead.api.post(path.format(first["delegation_id"]), {"reason": "done by hand"})
    assert (item["status"], item["reason"], item["error"], item["via"]) == (
        "cancelled",
        "cancelled",
        "done by hand",
        "caller",
    )
    again = await lead.api.post(path.format(first["delegation_id"]))
    assert again == item
    by_person = await world.person.post(path.format(second["delegation_id"]))
    assert (by_person["status"], by_person["via"]) == ("cancelled", "person")
    error = await refused(ops.api.post(path.format(first["delegation_id"]).replace(lead.id, ops.id)))
    assert (error.status, error.code) == (404, "not_found")
    assert [row for row in await world.take(ops) if row["kind"] == "delegation"] == []


@requirement("D7")
async def test_who_stops_waiting_finds_the_result_in_the_inbox(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    waiting = asyncio.create_task(give(lead, ops, wait=5))
    await until_waiting(world.server.server, 1)
    await world.clock.advance(6)
    assert "settled" not in await bounded(waiting)
    await work(world, ops)
    (row,) = await world.take(lead)
    assert (row["kind"], row["response_body"]["text"]) == ("delegation_result", "sorted")


@requirement("D9")
async def test_what_has_ended_is_begun_once_more_and_what_has_not_is_not(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    first = await give(lead, ops)
    path = f"/workspaces/{lead.id}/delegations/{first['delegation_id']}"
    error = await refused(lead.api.post(f"{path}/retry"))
    assert (error.status, error.code) == (409, "delegation_open")
    await lead.api.post(f"{path}/cancel")
    again = await lead.api.post(f"{path}/retry")
    assert (again["retry_of"], again["status"]) == (first["delegation_id"], "delegated")


@requirement("D7", "D11")
async def test_who_waits_is_told_that_it_was_taken_back(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    waiting = asyncio.create_task(give(lead, ops, wait=60))
    await until_waiting(world.server.server, 1)
    (item,) = await lead.api.get(f"/workspaces/{lead.id}/delegations")
    await world.person.post(f"/workspaces/{lead.id}/delegations/{item['delegation_id']}/cancel", {"reason": "stop"})
    told = await bounded(waiting)
    assert (told["state"], told["settled"], told["reason"], told["error"]) == ("cancelled", True, "cancelled", "stop")
    assert told["advice"]


# -- lists -------------------------------------------------------------------------------------------------------------


def tasks(rows: list[dict[str, Any]]) -> list[str]:
    """What is asked for, in the order of a list."""
    return [row["summary"] for row in rows]


@requirement("D18", "D19")
async def test_lists_go_both_ways_page_back_and_ask_for_a_state(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    for number in range(5):
        await give(lead, ops, f"task {number}")
        await world.clock.advance(1)
    await give(ops, lead, "question")
    rows = await world.take(ops, limit=2)
    for row in rows[:2]:
        await reply(ops, handle(row), "done")
    path = f"/workspaces/{lead.id}/delegations"

    out = await lead.api.get(path)
    assert tasks(out) == [f"task {number}" for number in (4, 3, 2, 1, 0)]
    pages = [await lead.api.get(path, limit=2)]
    pages.append(await lead.api.get(path, limit=2, before=pages[0][-1]["delegation_id"]))
    assert tasks(pages[0] + pages[1]) == tasks(out)[:4]
    assert tasks(await lead.api.get(path, direction="in")) == ["question"]
    assert tasks(await lead.api.get(path, direction="both")) == ["question", *tasks(out)]
    paged, before = list[dict[str, Any]](), dict[str, str]()
    while page := await lead.api.get(path, direction="both", limit=2, **before):
        paged += page
        before = {"before": page[-1]["delegation_id"]}
    assert tasks(paged) == ["question", *tasks(out)]
    assert tasks(await lead.api.get(path, state="completed")) == ["task 1", "task 0"]
    assert tasks(await lead.api.get(path, state="open")) == ["task 4", "task 3", "task 2"]
    assert tasks(await ops.api.get(f"/workspaces/{ops.id}/delegations", direction="in", state="open")) == tasks(out)[:3]
    assert [row["queue_position"] for row in out] == [2, 1, 0, None, None]


@requirement("D19")
async def test_people_see_what_is_delegated_in_their_organisation(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    third = await world.server.seat("Third")
    await give(lead, ops, "one")
    await world.clock.advance(1)
    await give(third, ops, "two")
    org_id = world.server.server.registry.orgs()[0].id
    path = f"/orgs/{org_id}/delegations"
    page = await world.person.get(path)
    assert (tasks(page["delegations"]), page["open"], page["stuck"]) == (["two", "one"], 2, 0)
    assert tasks((await world.person.get(path, workspace_id=lead.id))["delegations"]) == ["one"]
    last = page["delegations"][0]["delegation_id"]
    assert tasks((await world.person.get(path, before=last, limit=5))["delegations"]) == ["one"]
    assert (await world.person.get(path, state="failed"))["delegations"] == []


@requirement("D19")
async def test_the_admin_sees_the_delegations_of_all_organisations_and_their_figures(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    org_id = await world.server.org("Other")
    far, near = await world.server.seat("Far", org_id=org_id), await world.server.seat("Near", org_id=org_id)
    for number, took in enumerate((4, 10, 30)):
        await give(lead, ops, f"task {number}")
        await world.clock.advance(took)
        await work(world, ops)
    told = await give(far, near, "elsewhere")
    await far.api.post(f"/workspaces/{far.id}/delegations/{told['delegation_id']}/cancel")
    await world.clock.advance(1)
    await give(far, near, "still open")
    admin = world.server.admin
    every = await admin.get("/admin/delegations")
    assert tasks(every) == ["still open", "elsewhere", "task 2", "task 1", "task 0"]
    pages = [await admin.get("/admin/delegations", limit=2)]
    pages.append(await admin.get("/admin/delegations", limit=2, before=pages[0][-1]["delegation_id"]))
    assert pages[0] + pages[1] == every[:4]
    assert tasks(await admin.get("/admin/delegations", org_id=org_id, state="open")) == ["still open"]
    figures = await admin.get("/admin/delegations/stats")
    assert figures == {
        "by_status": {"completed": 3, "cancelled": 1, "queued": 1},
        "by_reason": {"cancelled": 1},
        "open": 1,
        "stuck": 0,
        "median_seconds": 7.0,
    }
    own = (await lead.api.get(f"/workspaces/{lead.id}"))["org_id"]
    assert (await admin.get("/admin/delegations/stats", org_id=own))["median_seconds"] == 10.0
    assert (await admin.get("/admin/delegations/stats", org_id="nobody"))["median_seconds"] is None


@requirement("D5", "P5")
async def test_the_log_and_the_queue_show_a_delegation_as_it_stands(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    told = await give(lead, ops)
    log, queue = f"/workspaces/{lead.id}/activity", f"/workspaces/{ops.id}/a2a/queue/{told['delegation_id']}"

    async def stands() -> tuple[str, str, bool]:
        (row,) = await lead.api.get(log, type="delegation")
        found = await lead.api.get(queue)
        return row["status"], found["status"], "completed_at" in found

    assert await stands() == ("queued", "queued", False)
    (given,) = await world.take(ops)
    assert await stands() == ("queued", "dispatched", False)
    handled = {"activity_id": given["id"], "attempt": given["attempt"]}
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", handled)
    assert await stands() == ("queued", "dispatched", False)  # to be handled is not to be done
    await reply(ops, handle(given), "sorted")
    assert await stands() == ("completed", "completed", True)


@requirement("D14")
async def test_work_without_a_sign_of_life_is_shown_as_stuck_and_only_shown(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    told = await give(lead, ops)
    await give(lead, ops, "nobody has it in hand")
    await world.take(ops, limit=1)
    await world.clock.advance(world.server.server.settings.limits.delegation_stuck_seconds + 1)
    found = (await full(lead, told["delegation_id"]))["delegation"]
    assert (found["stuck"], found["status"]) == (True, "queued")
    org_id = world.server.server.registry.orgs()[0].id
    page = await world.person.get(f"/orgs/{org_id}/delegations")
    assert (page["open"], page["stuck"]) == (2, 1)


# -- who may see -------------------------------------------------------------------------------------------------------


@requirement("S8", "D19")
async def test_a_workspace_reads_its_own_delegations_and_all_below_them(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    helper = await world.server.seat("Helper", parent_id=ops.id)
    stranger = await world.server.seat("Stranger", org_id=await world.server.org("Other"))
    first = await give(lead, ops)
    await world.take(ops)
    second = await give(ops, helper, "a part of it")
    await work(world, helper)
    below = await full(lead, second["delegation_id"])
    assert (below["delegation"]["parent_id"], below["delegation"]["depth"]) == (first["delegation_id"], 2)
    unknown = await refused(full(stranger, "01900000-0000-7000-8000-00000000beef"))
    for seat, delegation_id in ((helper, first["delegation_id"]), (stranger, first["delegation_id"])):
        error = await refused(full(seat, delegation_id))
        assert (error.status, error.problem) == (404, unknown.problem)
    admin = await world.server.admin.get(f"/delegations/{second['delegation_id']}")
    assert admin["delegation"]["target_id"] == helper.id


@requirement("D19")
async def test_a_tree_tells_how_long_each_part_waited_and_was_worked_on(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    helper, other = await world.server.seat("Helper"), await world.server.seat("Other")
    first = await give(lead, ops)
    await world.clock.advance(10)
    await world.take(ops)
    second = await give(ops, helper, "a part of it")
    third = await give(ops, other, "the other part")
    await world.clock.advance(20)
    await work(world, helper, "half")
    tree = (await full(lead, first["delegation_id"]))["tree"]
    assert tree["own_seconds"] == {"waiting": 10.0, "working": 20.0}
    assert tree["subtree"] == {"nodes": 3, "open": 2, "failed": 0, "waiting": 50.0, "working": 20.0}
    assert [child["delegation_id"] for child in tree["children"]] == [second["delegation_id"], third["delegation_id"]]
    assert [child["own_seconds"]["waiting"] for child in tree["children"]] == [20.0, 20.0]
    alone = (await full(ops, second["delegation_id"]))["tree"]
    assert (alone["depth"], alone["children"], alone["subtree"]["nodes"]) == (2, [], 1)
