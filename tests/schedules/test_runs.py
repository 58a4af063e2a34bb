"""What a due schedule does: messages, delegations, misses, overlaps, failures, pauses."""

from typing import Any

import pytest

from testing.running_server import Seat
from testing.schedules import Item, ScheduleWorld
from testing.waits import eventually, refused
from tests.requirements import requirement

DAY = 86_400


async def have_run(world: ScheduleWorld, schedule: Item, *expected: str) -> list[Item]:
    """Wait for the outcomes of all runs, oldest first; return the runs."""
    await eventually(lambda: world.outcomes(schedule), lambda found: found == list(expected))
    return await world.runs(schedule)


async def team(world: ScheduleWorld) -> tuple[Seat, Seat]:
    """A manager and its agent."""
    lead = await world.server.seat("Lead")
    return lead, await world.server.seat("Ops", parent_id=lead.id)


@requirement("SC2")
async def test_a_message_of_its_author_is_sent_at_each_planned_time(world: ScheduleWorld) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops, text="<b>Report</b> & rest.")
    assert schedule["next_runs"][:2] == ["2027-01-15T08:01:00+00:00", "2027-01-15T08:02:00+00:00"]
    await world.clock.advance(60)
    (run,) = await have_run(world, schedule, "sent")
    (row,) = await world.inbox(ops)
    assert (run["work_id"], run["planned_at"], run["reason"]) == (row["id"], "2027-01-15T08:01:00+00:00", "")
    message = row["request_body"]["params"]["message"]
    assert message["parts"] == [{"kind": "text", "text": "<b>Report</b> & rest."}]
    assert (message["metadata"]["schedule_id"], row["kind"]) == (schedule["schedule_id"], "canvas_user")
    await world.ack(ops, row)
    await world.clock.advance(60)
    await have_run(world, schedule, "sent", "sent")
    trace = await world.person.get(f"/orgs/{world.org_id}/traces/{row['id']}")
    assert [each["activity_id"] for each in trace["messages"]] == [row["id"]], "each run begins a chain of its own"


@requirement("SC2")
async def test_a_delegation_begins_for_the_workspace_that_the_schedule_acts_for(world: ScheduleWorld) -> None:
    lead, ops = await team(world)
    checks = [{"type": "schema", "schema": {"type": "object"}}]
    terms: dict[str, Any] = {"action": "delegate", "source_id": lead.id, "deadline_seconds": 600, "accept": checks}
    when = {"once": "2027-01-15T10:00:00+01:00", "time_zone": "Europe/Berlin"}
    schedule = await world.add(ops, **when, **terms)
    assert schedule["next_runs"] == ["2027-01-15T10:00:00+01:00"]
    await world.clock.advance(3600)
    (run,) = await have_run(world, schedule, "delegated")
    found = await world.person.get(f"/delegations/{run['work_id']}")
    item = found["delegation"]
    assert (item["source_id"], item["target_id"], item["checks"]) == (lead.id, ops.id, 1)
    assert (await world.get(schedule))["state"] == "ended"
    await world.clock.advance(DAY)
    assert await world.outcomes(schedule) == ["delegated"]


@requirement("SC3")
async def test_a_run_is_skipped_while_the_one_before_is_not_done(world: ScheduleWorld) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops)
    await world.clock.advance(60)
    await have_run(world, schedule, "sent")
    await world.clock.advance(60)
    runs = await have_run(world, schedule, "sent", "skipped")
    assert runs[1]["reason"] == "the run before it is not done"
    (row,) = await world.inbox(ops)
    await world.ack(ops, row)
    await world.clock.advance(60)
    await have_run(world, schedule, "sent", "skipped", "sent")


@requirement("SC3")
async def test_a_queued_run_starts_when_the_one_before_is_done(world: ScheduleWorld) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops, overlap="queue", cron="*/10 * * * *")
    await world.clock.advance(600)
    await have_run(world, schedule, "sent")
    await world.clock.advance(600)
    await have_run(world, schedule, "sent", "queued")
    (row,) = await world.inbox(ops)
    await world.ack(ops, row)
    await world.clock.advance(31)
    runs = await have_run(world, schedule, "sent", "sent")
    assert runs[1]["planned_at"] == "2027-01-15T08:20:00+00:00"


@requirement("SC3")
async def test_a_full_queue_skips_further_runs(world: ScheduleWorld) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops, overlap="queue")
    expected: list[str] = []
    for outcome in ("sent", *["queued"] * 10, "skipped", "skipped"):
        expected.append(outcome)
        await world.clock.advance(60)
        await have_run(world, schedule, *expected)
    runs = await world.runs(schedule)
    assert runs[-1]["reason"] == "10 runs are queued already"


@requirement("SC3")
@pytest.mark.parametrize(("misses", "outcome"), [("skip", "missed"), ("once", "sent")])
async def test_missed_runs_follow_their_policy(world: ScheduleWorld, misses: str, outcome: str) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops, cron="0 * * * *", misses=misses)
    await world.clock.advance(3 * 3600 + 1800)  # one jump: no server was up meanwhile
    (run,) = await have_run(world, schedule, outcome)
    assert run["planned_at"] == "2027-01-15T11:00:00+00:00"
    expected = ("3 planned times were missed", 3) if misses == "skip" else ("2 planned times were missed", 2)
    assert (run["reason"].startswith(expected[0]), run["missed"]) == (True, expected[1])
    assert len(await world.inbox(ops)) == (misses == "once")
    assert (await world.get(schedule))["next_runs"][0] == "2027-01-15T12:00:00+00:00"


@requirement("SC4")
async def test_a_run_fails_visibly_while_the_workspaces_may_not_talk(world: ScheduleWorld) -> None:
    lead, ops = await team(world)
    schedule = await world.add(ops, source_id=lead.id)
    other = await world.server.seat("Other")
    below = await world.server.seat("Below", parent_id=other.id)
    await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"parent_id": below.id})
    await world.clock.advance(60)
    (run,) = await have_run(world, schedule, "failed")
    assert "cannot" in run["reason"] or "not" in run["reason"]
    assert (await world.get(schedule))["state"] == "active"
    await world.person.call("PATCH", f"/workspaces/{ops.id}", body={"parent_id": lead.id})
    await world.clock.advance(60)
    await have_run(world, schedule, "failed", "sent")


@requirement("SC4")
@pytest.mark.parametrize("removed", ["target", "source"])
async def test_removing_a_workspace_pauses_its_schedules_with_the_reason(world: ScheduleWorld, removed: str) -> None:
    lead = await world.server.seat("Lead")
    ops, peer = await world.server.seat("Ops", parent_id=lead.id), await world.server.seat("Peer", parent_id=lead.id)
    schedule = await world.add(ops, source_id=peer.id)
    gone = ops if removed == "target" else peer
    await world.person.call("DELETE", f"/workspaces/{gone.id}", query={"confirm": "true"})
    found = await world.get(schedule)
    whose = "its target" if removed == "target" else "the workspace that it acts for"
    assert (found["state"], found["pause_reason"]) == ("paused", f"{whose} was removed")
    await world.clock.advance(120)
    assert await world.runs(schedule) == []


@requirement("SC4")
async def test_a_schedule_of_a_person_who_left_fails_once_and_is_paused(world: ScheduleWorld) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops)
    people = await world.server.admin.get(f"/orgs/{world.org_id}/people")
    (author,) = [each for each in people if each["role"] == "operator"]
    await world.server.admin.call("DELETE", f"/orgs/{world.org_id}/people/{author['id']}")
    await world.clock.advance(60)
    path = f"{world.path}/{schedule['schedule_id']}"
    found = await eventually(lambda: world.server.admin.get(path), lambda item: item["state"] == "paused")
    assert found["pause_reason"] == "its author is no longer an operator of the organisation"
    assert found["last_run"]["outcome"] == "failed"
    assert await world.inbox(ops) == []


@requirement("SC3")
async def test_a_run_of_a_paused_source_is_skipped_and_a_paused_target_keeps_its_message(world: ScheduleWorld) -> None:
    lead, ops = await team(world)
    schedule = await world.add(ops, source_id=lead.id)
    await world.person.post(f"/workspaces/{lead.id}/pause", {})
    await world.clock.advance(60)
    (run,) = await have_run(world, schedule, "skipped")
    assert run["reason"] == "the workspace that it acts for is paused"
    await world.person.post(f"/workspaces/{lead.id}/resume", {})
    await world.person.post(f"/workspaces/{ops.id}/pause", {})
    await world.clock.advance(60)
    await have_run(world, schedule, "skipped", "sent")


@requirement("SC3")
async def test_a_paused_schedule_does_not_run_and_a_resumed_one_misses_nothing(world: ScheduleWorld) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops, cron="0 * * * *", misses="once")
    paused = await world.pause(schedule, paused=True)
    assert (paused["state"], paused["pause_reason"], paused["next_runs"]) == ("paused", "", [])
    await world.clock.advance(5 * 3600)
    resumed = await world.pause(schedule, paused=False)
    assert resumed["next_runs"][0] == "2027-01-15T14:00:00+00:00"
    assert await world.runs(schedule) == []
    await world.clock.advance(3600)
    await have_run(world, schedule, "sent")


@requirement("SC5")
async def test_a_schedule_is_changed_and_deleted_with_events_in_the_activity(world: ScheduleWorld) -> None:
    ops = await world.server.seat()
    schedule = await world.add(ops)
    path = f"{world.path}/{schedule['schedule_id']}"
    body = {
        "name": "Summary",
        "target_id": ops.id,
        "cron": "0  9 * * MON",
        "time_zone": "Asia/Kathmandu",
        "text": "Sum.",
    }
    changed = await world.person.call("PUT", path, body=body)
    assert (changed["name"], changed["cron"], changed["next_runs"][0]) == (
        *("Summary", "0 9 * * MON"),
        "2027-01-18T09:00:00+05:45",
    )
    times = await world.person.get(f"{path}/next", count=2)
    assert times["next_runs"] == ["2027-01-18T09:00:00+05:45", "2027-01-25T09:00:00+05:45"]
    assert (await world.person.get(world.path))["schedules"] == [changed]
    await world.person.call("DELETE", path)
    assert (await refused(world.person.get(path))).status == 404
    page = await world.person.get(f"/orgs/{world.org_id}/activity", event="SCHEDULE_CHANGED,SCHEDULE_DELETED")
    assert [each["event"] for each in page["events"]] == ["SCHEDULE_DELETED", "SCHEDULE_CHANGED", "SCHEDULE_CHANGED"]


@requirement("SC5")
@pytest.mark.parametrize(
    ("fields", "member"),
    [
        ({"cron": "61 * * * *"}, "cron"),
        ({"time_zone": "Mars/Phobos"}, "time_zone"),
        ({"once": "2027-01-16T08:00:00Z", "cron": "* * * * *"}, "once"),
        ({"cron": None}, "once"),
        ({"cron": None, "once": "2020-01-01T00:00:00Z"}, "once"),
        ({"cron": None, "once": "tomorrow"}, "once"),
        ({"text": " "}, "text"),
        ({"action": "delegate"}, "source_id"),
        ({"rounds": 2}, "rounds"),
        ({"name": ""}, "name"),
    ],
)
async def test_what_cannot_be_a_schedule_is_rejected_with_the_member(
    world: ScheduleWorld, fields: dict[str, Any], member: str
) -> None:
    ops = await world.server.seat()
    body = {"name": "Report", "target_id": ops.id, "cron": "* * * * *", "text": "Report.", **fields}
    error = await refused(world.person.post(world.path, body))
    assert (error.status, member in error.problem["error"]) == (422, True)


@requirement("SC5")
async def test_a_preview_shows_the_planned_times_and_saves_nothing(world: ScheduleWorld) -> None:
    body = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin", "count": 2}
    found = await world.person.post(f"/orgs/{world.org_id}/schedule-preview", body)
    assert found["next_runs"] == ["2027-01-16T02:30:00+01:00", "2027-01-17T02:30:00+01:00"]
    assert (await world.person.get(world.path))["schedules"] == []


@requirement("SC4")
async def test_a_schedule_cannot_act_for_a_workspace_that_may_not_talk_to_its_target(world: ScheduleWorld) -> None:
    _, ops = await team(world)
    other = await world.server.seat("Other")
    below = await world.server.seat("Below", parent_id=other.id)
    body = {"name": "Report", "target_id": ops.id, "source_id": below.id, "cron": "* * * * *", "text": "Report."}
    assert (await refused(world.person.post(world.path, body))).status == 403
