"""A vendor's limit makes a workspace limited until a time: its mail waits, nothing is tried, then work goes on."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from molecule_core.client.api import ApiClient
from molecule_core.common.clock import SECOND, to_rfc3339
from molecule_core.common.errors import FetchFailed
from molecule_core.common.limits import Limits
from testing.clocks import FakeClock
from testing.engines import Engine
from testing.push_agents import Pushed, Reply, said
from testing.running_server import Seat, running
from testing.waits import eventually, refused
from testing.workspaces import beat
from tests.messages.delivery.push_server import URL, PushServer

MINUTES = 60
REASON = "5-hour limit <b>reached</b>"


async def limit(post: PushServer, seat: Seat, seconds: float, api: ApiClient | None = None) -> Any:
    """A limit that the agent reports, or `api` for it."""
    until = to_rfc3339(post.clock.now() + round(seconds * SECOND))
    return await (api or seat.api).post(f"/workspaces/{seat.id}/limit", {"until": until, "reason": REASON})


async def limited_until(post: PushServer, seat: Seat) -> Any:
    """Until when the workspace is limited."""
    return (await post.person.get(f"/workspaces/{seat.id}"))["limited_until"]


async def goes_on(post: PushServer, seat: Seat, seconds: float) -> None:
    """The time passes, and the limit is over."""
    await post.clock.advance(seconds)
    await eventually(lambda: limited_until(post, seat), lambda found: found is None)


async def events(post: PushServer, seat: Seat, name: str) -> list[Any]:
    """Journaled payloads of one kind about a seat."""
    org = (await post.person.get(f"/workspaces/{seat.id}"))["org_id"]
    rows = await post.server.server.store.rows("events_after", {"org_id": org, "seq": 0, "count": 1000})
    return [msgspec.json.decode(row[8]) for row in rows if (row[1], row[2]) == (name, seat.id)]


async def test_a_push_agent_is_sent_nothing_until_its_limit_ends_and_then_everything_in_order(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    view = await limit(post, post.ops, 2 * MINUTES)
    assert (view["limited_until"], view["limit_reason"]) == (to_rfc3339(post.clock.now() + 120 * SECOND), REASON)

    ids = [await post.ask(f"task {number}") for number in range(3)]
    for _ in range(11):
        await beat(post.ops)
        await post.clock.advance(10)
        await post.quiet()
    assert post.net.pushed == []
    assert (await post.ticks(ids[0]))["stuck"] == {"reason": f"limited until {view['limited_until']}"}
    assert [(await post.queue(each))["attempts"] for each in ids] == [0, 0, 0]

    await goes_on(post, post.ops, 10)
    for each in ids:
        await post.stands(each, "completed")
    assert [each.activity for each in post.net.pushed] == ids
    assert await post.letters() == []
    assert await events(post, post.ops, "WORKSPACE_LIMITED") == [
        {"limited_until": view["limited_until"], "limit_reason": REASON}
    ]
    assert await events(post, post.ops, "WORKSPACE_LIMIT_ENDED") == [{"ended_by": "time"}]


async def test_a_push_that_fails_on_the_limit_is_no_failed_attempt_and_is_made_again_when_it_ends(
    post: PushServer,
) -> None:
    """The agent reports its limit while it has a message, and answers that with an error."""
    gate = asyncio.Event()

    async def reply(_pushed: Pushed) -> Reply:
        await gate.wait()
        raise FetchFailed(reason="connection refused", sent=False, status=None)

    post.net.agents[URL] = reply
    asked = await post.ask("task")
    await post.until_pushed(1)
    await limit(post, post.ops, 10 * MINUTES)
    gate.set()
    await post.quiet()
    await post.clock.advance(9 * MINUTES)
    await post.quiet()
    assert len(post.net.pushed) == 1
    assert await post.letters() == []

    post.net.answers(URL, said("done"))
    await goes_on(post, post.ops, 61)
    await post.stands(asked, "completed")
    assert len(post.net.pushed) == 2


async def test_a_polling_agent_keeps_what_it_holds_and_gets_the_rest_when_the_limit_ends(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    held, waits = [(await post.say(text, to=poller))["activity_id"] for text in ("first", "second")]
    (row,) = await poller.api.claim(poller.id, lease=30, wait=0, limit=1)
    await limit(post, poller, 20 * MINUTES)

    await post.clock.advance(19 * MINUTES)
    assert await poller.api.claim(poller.id, wait=0) == []
    assert await poller.api.get(f"/workspaces/{poller.id}/activity", type="a2a_receive", since_secs=86400) == []
    for each in (held, waits):
        assert (await post.ticks(each, seat=poller))["stuck"]["reason"].startswith("limited until ")

    await goes_on(post, poller, 61)
    assert [each["id"] for each in await poller.api.claim(poller.id, wait=0)] == [waits]  # `held` is with the agent
    await poller.api.ack(poller.id, row)
    ticks = (await post.ticks(held, seat=poller))["ticks"]
    assert [each["tick"] for each in ticks] == ["stored", "handed_over", "acked"]


async def test_a_waiting_claim_gets_mail_at_the_end_of_the_limit_by_itself(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    await limit(post, poller, 20)
    asked = (await post.say("hi", to=poller))["activity_id"]
    claiming = asyncio.ensure_future(poller.api.claim(poller.id, wait=25))
    await post.clock.advance(5)
    assert not claiming.done()
    await post.clock.advance(16)
    assert [row["id"] for row in await claiming] == [asked]


async def test_what_an_agent_owes_is_due_later_by_the_time_of_its_limit(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    await post.person.call("PATCH", f"/workspaces/{poller.id}", body={"reply_seconds": 600})
    asked = (await post.say("hi", to=poller))["activity_id"]
    await poller.api.ack(poller.id, (await poller.api.claim(poller.id, wait=0))[0])

    async def owed() -> Any:
        page = await post.person.get(f"/workspaces/{poller.id}/obligations", state="all")
        return next(each for each in page["obligations"] if each["activity_id"] == asked)

    due = post.clock.now() + 600 * SECOND
    assert (await owed())["due_at"] == to_rfc3339(due)
    await post.clock.advance(100)
    await limit(post, poller, 3600)
    assert (await owed())["due_at"] == to_rfc3339(due + 3600 * SECOND)
    await limit(post, poller, 7200)
    assert (await owed())["due_at"] == to_rfc3339(due + 7200 * SECOND)
    await post.clock.advance(1000)
    assert ((await owed())["reminded_at"], (await owed())["overdue_at"]) == (None, None)
    await post.person.call("DELETE", f"/workspaces/{poller.id}/limit")
    assert (await owed())["due_at"] == to_rfc3339(due + 1000 * SECOND)
    await post.clock.advance(501)
    await eventually(owed, lambda found: found["due_at"] != to_rfc3339(due + 1000 * SECOND))  # its reminder
    await post.clock.advance(601)
    await eventually(owed, lambda found: found["overdue_at"] is not None)


async def test_a_person_ends_a_limit_early_and_deliveries_go_on_at_once(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    poller = await post.server.seat("Poller")
    for seat in (post.ops, poller):
        await limit(post, seat, 3 * 3600)
    pushed, polled = await post.ask("hi"), (await post.say("hi", to=poller))["activity_id"]
    await post.quiet()
    assert post.net.pushed == []
    for seat in (post.ops, poller):
        view = await post.person.call("DELETE", f"/workspaces/{seat.id}/limit")
        assert (view["limited_until"], view["limit_reason"]) == (None, None)
        await post.person.call("DELETE", f"/workspaces/{seat.id}/limit")  # pressed twice
        assert await events(post, seat, "WORKSPACE_LIMIT_ENDED") == [{"ended_by": "person"}]
    await post.stands(pushed, "completed")
    assert [row["id"] for row in await poller.api.claim(poller.id, wait=0)] == [polled]


async def test_messages_that_were_held_are_delivered_again_soon_after_an_early_end(post: PushServer) -> None:
    """Its agent has died meanwhile: nothing waits until the time that the limit had."""
    poller = await post.server.seat("Poller")
    asked = (await post.say("hi", to=poller))["activity_id"]
    await poller.api.claim(poller.id, lease=30, wait=0)
    await limit(post, poller, 3 * 3600)
    await post.clock.advance(100)
    await post.person.call("DELETE", f"/workspaces/{poller.id}/limit")
    assert await poller.api.claim(poller.id, wait=0) == []
    await post.clock.advance(61)
    assert [(row["id"], row["attempt"]) for row in await poller.api.claim(poller.id, wait=0)] == [(asked, 2)]


@pytest.mark.parametrize("limits", [Limits(vendor_limit_hours=2)])
async def test_a_limit_has_a_longest_time_and_one_in_the_past_ends_it(post: PushServer) -> None:
    view = await limit(post, post.ops, 365 * 86400)
    assert view["limited_until"] == to_rfc3339(post.clock.now() + 7200 * SECOND)
    view = await limit(post, post.ops, -1)
    assert view["limited_until"] is None
    assert await events(post, post.ops, "WORKSPACE_LIMIT_ENDED") == [{"ended_by": "agent"}]
    wrong = await refused(post.ops.api.post(f"/workspaces/{post.ops.id}/limit", {"until": "soon"}))
    assert (wrong.status, wrong.code) == (422, "invalid_field")


async def test_only_the_workspace_itself_and_operators_limit_it(post: PushServer) -> None:
    other = await post.server.seat("Other")
    org = (await post.person.get(f"/workspaces/{post.ops.id}"))["org_id"]
    viewer = await post.server.person("viewer", org)
    foreign = await post.server.person("owner", await post.server.org("Elsewhere"))
    for api in (other.api, viewer, foreign):
        assert (await refused(limit(post, post.ops, 60, api))).status in (403, 404)
        assert (await refused(api.call("DELETE", f"/workspaces/{post.ops.id}/limit"))).status in (403, 404)
    assert await limited_until(post, post.ops) is None
    assert (await limit(post, post.ops, 60, post.person))["limited_until"]


async def test_peers_and_lists_say_until_when_a_workspace_is_limited(post: PushServer) -> None:
    lead, worker = await post.server.seat("Lead"), await post.server.seat("Worker")
    until = (await limit(post, worker, 3600))["limited_until"]
    begun = await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": worker.id, "task": "count"})
    (peer,) = [each for each in await lead.api.get(f"/registry/{lead.id}/peers") if each["id"] == worker.id]
    org = (await post.person.get(f"/workspaces/{lead.id}"))["org_id"]
    (node,) = [each for each in await post.person.get(f"/orgs/{org}/tree") if each["id"] == worker.id]
    (item,) = await lead.api.get(f"/workspaces/{lead.id}/delegations")
    assert [peer["limited_until"], node["limited_until"], item["target_limited_until"]] == [until] * 3
    assert f"the target is limited until {until}" in begun["warning"]
    assert (await worker.api.get(f"/workspaces/{worker.id}/state"))["limited_until"] == until
    await post.clock.advance(1200)
    assert (await post.person.get(f"/orgs/{org}/untaken"))["untaken"] == []
    await goes_on(post, worker, 2401)
    assert [row["id"] for row in await worker.api.claim(worker.id, wait=0)] == [begun["delegation_id"]]


async def test_a_delegation_whose_deadline_passes_says_that_its_target_was_limited(post: PushServer) -> None:
    lead, worker = await post.server.seat("Lead"), await post.server.seat("Worker")
    until = (await limit(post, worker, 3600))["limited_until"]
    body = {"target_id": worker.id, "task": "count", "deadline_seconds": 600}
    await lead.api.post(f"/workspaces/{lead.id}/delegate", body)
    await post.clock.advance(601)

    async def error() -> Any:
        (item,) = await lead.api.get(f"/workspaces/{lead.id}/delegations")
        return item["error"]

    wanted = f"its deadline has passed; the target is limited until {until}"
    assert await eventually(error, lambda found: found is not None) == wanted


async def test_a_limit_outlives_its_server_and_ends_by_itself_under_the_next_one(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with running(engine, place, tmp_path, clock=clock) as server:
        poller, person = await server.seat("Poller"), await server.person()
        until = {"until": to_rfc3339(clock.now() + 120 * SECOND), "reason": REASON}
        await poller.api.post(f"/workspaces/{poller.id}/limit", until)
        asked = (await person.send(poller.id, "hi"))["activity_id"]
    async with running(engine, place, tmp_path, clock=clock, seed=1) as server:
        api = server.api(poller.token)
        assert (await api.get(f"/workspaces/{poller.id}/state"))["limited_until"] == until["until"]
        assert await api.claim(poller.id, wait=0) == []
        await clock.advance(121)

        async def state() -> Any:
            return (await api.get(f"/workspaces/{poller.id}/state"))["limited_until"]

        await eventually(state, lambda found: found is None)
        assert [row["id"] for row in await api.claim(poller.id, wait=0)] == [asked]
