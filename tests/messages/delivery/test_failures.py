"""Agents that fail, refuse, hang, are busy or silent: what is tried again, what waits, what dies."""

import asyncio
from typing import Any

import pytest

from molecule_core.common.errors import ServerBusy, StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.messages.delivery import push_policy
from testing.push_agents import Pushed, Reply, plain, said
from testing.waits import eventually, refused
from testing.workspaces import beat, status_of
from tests.messages.delivery.push_server import URL, PushServer
from tests.requirements import requirement

LIMITS = Limits(delivery_attempts=4, circuit_failures=100)


@pytest.fixture
def limits() -> Limits:
    """Few attempts, so that a death is soon."""
    return LIMITS


# -- failing -----------------------------------------------------------------------------------------------------------


@requirement("M21", "P1")
async def test_mail_for_a_dead_agent_becomes_a_dead_letter_is_requeued_and_arrives(post: PushServer) -> None:
    activity_id = await post.ask("hi")
    await post.quiet()
    await post.tries(3)

    (letter,) = await post.letters()
    assert letter["activity_id"] == activity_id
    assert (letter["reason"], letter["attempts"], letter["kind"]) == ("unreachable", 4, "canvas_user")
    assert letter["detail"] == "nobody there"
    assert (await post.queue(activity_id))["status"] == "failed"
    await post.clock.advance(4000)
    await post.quiet()
    assert [each.attempt for each in post.net.pushed] == [1, 2, 3, 4]

    post.net.answers(URL, said("at last"))
    path = f"/workspaces/{post.ops.id}/dead-letters/{activity_id}"
    assert (await post.person.post(f"{path}/requeue"))["status"] == "requeued"
    found = await post.stands(activity_id, "completed")

    assert found["attempts"] == 5
    assert post.net.pushed[-1].activity == activity_id
    assert post.net.pushed[-1].attempt == 5
    assert await post.letters() == []
    names = [tick["tick"] for tick in (await post.ticks(activity_id))["ticks"]]
    assert names == ["stored", *["handed_over"] * 4, "dead", "handed_over", "acked", "answered"]


@requirement("M21")
async def test_a_letter_that_is_requeued_twice_arrives_once_and_may_die_again(post: PushServer) -> None:
    activity_id = await post.ask("hi")
    await post.quiet()
    await post.tries(3)
    path = f"/workspaces/{post.ops.id}/dead-letters/{activity_id}"

    for _ in range(2):
        assert (await post.person.post(f"{path}/requeue"))["activity_id"] == activity_id
    await post.until_pushed(5)
    await post.quiet()
    await post.tries(3)

    (letter,) = await post.letters()
    assert letter["attempts"] == 8
    assert [each.attempt for each in post.net.pushed] == list(range(1, 9))
    for _ in range(2):
        assert (await post.person.call("DELETE", path))["status"] == "discarded"
    assert await post.letters() == []
    assert (await refused(post.person.post(f"{path}/requeue"))).code == "not_dead"
    assert (await post.queue(activity_id))["status"] == "dropped"


@requirement("M21")
async def test_a_failing_message_holds_up_those_behind_it_and_is_waited_for_longer_each_time(post: PushServer) -> None:
    first, second = await post.ask("one"), await post.ask("two")
    await post.quiet()
    assert [each.text for each in post.net.pushed] == ["one"]
    stuck = (await post.ticks(first))["stuck"]["reason"]
    assert stuck.startswith("retry at ")
    assert stuck.endswith(": nobody there")
    assert "an earlier message failed" in (await post.ticks(second))["stuck"]["reason"]

    await post.tries(3)  # the first dies
    post.net.answers(URL, said("done"))
    await post.clock.advance(301)
    await post.stands(second, "completed")
    assert {each.text for each in post.net.pushed[:4]} == {"one"}


@requirement("M21")
@pytest.mark.parametrize("status", [400, 404, 410, 302])
async def test_a_refusal_is_tried_three_times_only(post: PushServer, status: int) -> None:
    post.net.answers(URL, plain(status, error="go away"))
    activity_id = await post.ask("hi")
    await post.quiet()
    await post.tries(2)

    (letter,) = await post.letters()
    assert (letter["activity_id"], letter["reason"], letter["attempts"]) == (activity_id, "refused", 3)
    assert letter["detail"] == f"HTTP {status}: go away"
    error = await refused(post.person.post(f"/workspaces/{post.ops.id}/dead-letters/nonsense/requeue"))
    assert error.status == 404


@requirement("M21")
@pytest.mark.parametrize("body", [b"<html>", b'{"a":1,"a":2}', b"[" * 40 + b"]" * 40])
async def test_an_answer_that_is_no_usable_json_is_a_failure(post: PushServer, body: bytes) -> None:
    async def reply(_pushed: Pushed) -> Reply:
        return 200, {}, body

    post.net.agents[URL] = reply
    receipt = await post.say("hi", patience=20)
    assert receipt["queued"] is True
    assert "not usable JSON" in (await post.queue(receipt["queue_id"]))["last_error"]


@requirement("M21", "M14")
async def test_who_sends_the_same_message_again_after_its_death_is_told(post: PushServer) -> None:
    message = {"role": "user", "messageId": "m-1", "parts": [{"kind": "text", "text": "hi"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": message}}
    await post.person.post(f"/workspaces/{post.ops.id}/a2a", body)
    await post.quiet()
    await post.tries(3)

    error = await refused(post.person.post(f"/workspaces/{post.ops.id}/a2a", body))

    assert (error.status, error.code) == (502, "not_taken")
    assert "nobody there" in error.problem["error"]


# -- busy --------------------------------------------------------------------------------------------------------------


@requirement("M22", "P2")
async def test_a_busy_agent_is_asked_again_drains_in_order_and_no_second_row_comes(post: PushServer) -> None:
    post.net.answers(URL, plain(503), plain(429, {"retry-after": "7"}), plain(200, busy=True), said("done"))
    ids = [await post.ask(str(number)) for number in range(3)]
    await post.quiet()
    assert (await post.ticks(ids[0]))["stuck"] == {"reason": "busy"}
    assert (await post.ticks(ids[2]))["stuck"] == {"reason": "busy"}

    await post.tries(1, 30.5)  # a busy agent that names no time gets half a minute
    await post.clock.advance(6.5)
    await post.quiet()
    assert len(post.net.pushed) == 2
    await post.tries(1, 1)
    await post.tries(1, 30.5)
    await post.stands(ids[-1], "completed")

    assert [each.text for each in post.net.pushed] == ["0", "0", "0", "0", "1", "2"]
    assert [each.activity for each in post.net.pushed] == [ids[0]] * 4 + ids[1:]
    rows = await post.person.get(f"/workspaces/{post.ops.id}/activity", type="a2a_receive")
    assert [row["id"] for row in reversed(rows)] == ids


@requirement("M22")
async def test_being_busy_never_kills_a_message(post: PushServer) -> None:
    post.net.answers(URL, plain(503))
    activity_id = await post.ask("hi")
    await post.quiet()
    await post.tries(10, 30.5)

    assert await post.letters() == []
    assert (await post.queue(activity_id))["status"] == "queued"


@requirement("M22")
async def test_a_heartbeat_with_a_free_slot_starts_the_drain_at_once(post: PushServer) -> None:
    await beat(post.ops, active_tasks=1)
    post.net.answers(URL, said("done"))
    ids = [await post.ask(str(number)) for number in range(3)]
    await post.quiet()
    assert post.net.pushed == []
    assert (await post.ticks(ids[0]))["stuck"] == {"reason": "busy"}

    await post.clock.advance(1)
    await beat(post.ops, active_tasks=0)
    await post.stands(ids[-1], "completed")

    assert [each.text for each in post.net.pushed] == ["0", "1", "2"]


@requirement("M22")
async def test_a_heartbeat_ends_the_wait_of_an_agent_that_said_it_was_busy(post: PushServer) -> None:
    post.net.answers(URL, plain(503, {"retry-after": "300"}), said("done"))
    activity_id = await post.ask("hi")
    await post.quiet()
    await post.clock.advance(1)
    await beat(post.ops, active_tasks=1)
    await post.quiet()
    assert len(post.net.pushed) == 1
    await post.clock.advance(1)
    await beat(post.ops, active_tasks=0)

    await post.stands(activity_id, "completed")


# -- silent, paused, hibernated ----------------------------------------------------------------------------------------


@requirement("M22", "M2")
async def test_mail_of_an_agent_that_fell_silent_waits_and_goes_out_when_it_is_heard_again(post: PushServer) -> None:
    await beat(post.ops)
    await post.clock.advance(106)
    await eventually(status_of(post.person, post.ops), lambda status: status == "offline")
    activity_id = await post.ask("hi")
    await post.quiet()
    await post.tries(8)  # twice as many as would kill it
    assert await post.letters() == []
    assert (await post.ticks(activity_id))["stuck"]["reason"].startswith("retry at ")

    post.net.answers(URL, said("done"))
    await beat(post.ops)
    await post.stands(activity_id, "completed")


@requirement("M22")
async def test_an_agent_that_is_never_heard_gets_its_mail_all_the_same(post: PushServer) -> None:
    post.net.answers(URL, said("done"))
    assert await status_of(post.person, post.ops)() == "awaiting_agent"
    await post.stands(await post.ask("hi"), "completed")


@requirement("M23")
async def test_after_many_failures_an_agent_is_left_in_peace_and_then_probed_with_one_message(post: PushServer) -> None:
    delivery = post.server.server.delivery.push_dispatcher
    await post.person.call("PATCH", f"/workspaces/{post.ops.id}", body={"max_concurrent_tasks": 50})
    ids = [await post.ask(str(number)) for number in range(8)]
    delivery._limits = Limits(circuit_failures=3, circuit_seconds=1000)
    for _ in range(6):
        await post.clock.advance(30)
        await post.quiet()
    before = len(post.net.pushed)
    assert delivery.circuit_open_until(post.ops.id) is not None
    assert (await post.ticks(ids[-1]))["stuck"]["reason"].startswith("circuit open until ")
    await post.clock.advance(500)
    await post.quiet()
    assert len(post.net.pushed) == before

    gate = post.net.hangs(URL)
    await post.clock.advance(600)
    await post.until_pushed(before + 1)
    await post.clock.advance(100)
    assert len(post.net.pushed) == before + 1  # one probe, although there is room for fifty
    gate.set()
    await post.stands(ids[-1], "completed")


# -- one's trouble stays one's own -------------------------------------------------------------------------------------

# Turns of the loop in which a push too many would show.
_LOOKS = 100


@requirement("M23")
async def test_one_that_hangs_and_one_that_is_flooded_leave_the_others_going(post: PushServer) -> None:
    delivery = post.server.server.delivery.push_dispatcher
    delivery._limits = Limits(push_concurrency=4)
    hanging, good = "https://hanging.example/", "https://good.example/"
    post.net.hangs(hanging)
    flooded = await post.server.seat("Flooded", url=hanging, max_concurrent_tasks=100)
    other = await post.server.seat("Other", url=good)
    post.net.answers(good, said("done"))
    for number in range(30):
        await post.ask(f"flood {number}", to=flooded)
    await post.until_pushed(1, url=hanging)

    last = [await post.ask(f"good {number}", to=other) for number in range(5)][-1]
    await post.stands(last, "completed", seat=other)

    assert [each.text for each in post.net.of(good)] == [f"good {number}" for number in range(5)]
    assert len(post.net.of(hanging)) == 1  # a quarter of four slots
    assert post.net.most_under_way <= 4
    assert len([task for task in asyncio.all_tasks() if "_deliver" in repr(task)]) == 1


@requirement("M23")
async def test_however_many_agents_hang_no_more_pushes_are_under_way_than_the_limit_says(post: PushServer) -> None:
    post.server.server.delivery.push_dispatcher._limits = Limits(push_concurrency=4)
    for number in range(6):
        url = f"https://hanging-{number}.example/"
        post.net.hangs(url)
        seat = await post.server.seat("Hangs", org_id=await post.server.org(f"Org {number}"), url=url)
        message = {"role": "user", "parts": [{"kind": "text", "text": "hi"}]}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
        await post.server.admin.call("POST", f"/workspaces/{seat.id}/a2a", body=body, headers={"x-timeout": "0"})

    async def most() -> int:
        await post.clock.advance(0)
        return post.net.most_under_way

    await eventually(most, lambda found: found >= 4)
    for _ in range(_LOOKS):
        await most()
    assert post.net.most_under_way == 4


# -- expiry ------------------------------------------------------------------------------------------------------------


@requirement("M22")
async def test_a_message_dies_when_its_life_is_over_although_nobody_asks(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    receipt = await post.say("soon", to=seat, expires_in_seconds=60)
    later = await post.say("later", to=seat)
    await post.clock.advance(61)

    found = await post.stands(receipt["activity_id"], "dropped", seat=seat)

    assert found["expires_at"]
    ticks = await post.ticks(receipt["activity_id"], seat=seat)
    assert (ticks["ticks"][-1]["tick"], ticks["ticks"][-1]["reason"]) == ("dead", "expired")
    assert ticks["stuck"] is None
    assert [row["id"] for row in await seat.api.claim(seat.id, wait=0)] == [later["activity_id"]]
    assert (await post.person.get(f"/workspaces/{seat.id}/dead-letters"))["dead_letters"][0]["reason"] == "expired"


@requirement("M22")
async def test_what_is_handled_in_time_does_not_expire_and_what_is_held_gets_its_lease(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    handled = await post.say("handled", to=seat, expires_in_seconds=60)
    held = await post.say("held", to=seat, expires_in_seconds=60)
    first, second = await seat.api.claim(seat.id, lease=100, wait=0)
    await seat.api.ack(seat.id, first)
    await post.clock.advance(61)
    assert (await post.queue(held["activity_id"], seat=seat))["status"] == "dispatched"
    await post.clock.advance(40)
    await post.stands(held["activity_id"], "dropped", seat=seat)
    assert (await post.queue(handled["activity_id"], seat=seat))["status"] == "completed"
    assert (await seat.api.ack(seat.id, second))["last_acked_seq"] == second["seq"]


@requirement("M22")
@pytest.mark.parametrize("life", [0, -1, 1.5, "60", True, 30 * 86_400 + 1])
async def test_a_life_that_is_no_number_of_seconds_is_refused(post: PushServer, life: object) -> None:
    seat = await post.server.seat("Poller")
    error = await refused(post.say("hi", to=seat, expires_in_seconds=life))
    assert error.status == 400
    assert "expires_in_seconds" in str(error.problem)


@requirement("M22")
async def test_a_push_that_fails_after_the_messages_life_is_its_last(post: PushServer) -> None:
    gate = asyncio.Event()

    async def reply(_pushed: Pushed) -> Reply:
        await gate.wait()
        return plain(500)

    post.net.agents[URL] = reply
    activity_id = await post.ask("hi", expires_in_seconds=60)
    await post.until_pushed(1)
    await post.clock.advance(61)
    gate.set()
    await post.stands(activity_id, "dropped")
    (letter,) = await post.letters()
    assert (letter["reason"], letter["detail"]) == ("expired", "HTTP 500")


# -- late answers, and what goes wrong without the guards --------------------------------------------------------------


@requirement("M21", "M18", "P2")
async def test_an_answer_that_comes_after_the_lease_has_ended_settles_nothing(post: PushServer) -> None:
    gates = [asyncio.Event(), asyncio.Event()]

    async def reply(pushed: Pushed) -> Reply:
        await gates[pushed.attempt - 1].wait()
        return said(f"attempt {pushed.attempt}")

    post.net.agents[URL] = reply
    await post.person.call("PATCH", f"/workspaces/{post.ops.id}", body={"max_concurrent_tasks": 2})
    activity_id = await post.ask("hi")
    await post.until_pushed(1)
    await post.clock.advance(311)
    await post.until_pushed(2)

    gates[0].set()
    await post.clock.advance(0)
    assert (await post.queue(activity_id))["status"] == "dispatched"
    gates[1].set()
    found = await post.stands(activity_id, "completed")

    assert found["response_body"]["result"]["parts"][0]["text"] == "attempt 2"
    page = await post.person.get(f"/workspaces/{post.ops.id}/chat-history")
    assert [line["content"] for line in page["messages"]] == ["hi", "attempt 2"]


@requirement("M21")
@pytest.mark.parametrize("guarded", [True, False])
async def test_without_the_wait_between_two_tries_a_message_dies_at_once(
    post: PushServer, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    """The control of the tests above: the product with one rule replaced."""
    if not guarded:
        monkeypatch.setattr(push_policy, "backoff_delay", lambda _tries, _bits: 0.0)
    activity_id = await post.ask("hi")
    await post.quiet()
    for _ in range(20):
        await post.clock.advance(0)
    wanted = "queued" if guarded else "failed"
    await post.stands(activity_id, wanted)
    assert len(post.net.pushed) == (1 if guarded else LIMITS.delivery_attempts)


@requirement("M21", "M31")
async def test_the_journal_tells_of_a_death_of_a_letter_that_waits_again_and_of_its_end(post: PushServer) -> None:
    activity_id = await post.ask("hi")
    await post.quiet()
    await post.tries(3)
    path = f"/workspaces/{post.ops.id}/dead-letters/{activity_id}"
    await post.person.post(f"{path}/requeue")
    await post.until_pushed(5)
    await post.quiet()
    await post.tries(3)
    await post.person.call("DELETE", path)

    org = (await post.person.get(f"/workspaces/{post.ops.id}"))["org_id"]
    facts = await post.server.server.store.rows("events_after", {"org_id": org, "seq": 0, "count": 1000})
    told = [fact[1] for fact in facts if fact[1].startswith("MESSAGE_")]
    tries = ["MESSAGE_TICK"] * 4
    assert told == [*tries, "MESSAGE_DEAD", "MESSAGE_REQUEUED", *tries, "MESSAGE_DEAD", "MESSAGE_DISCARDED"]
    assert '"reason":"unreachable","detail":"nobody there","attempts":4' in next(
        fact[8] for fact in facts if fact[1] == "MESSAGE_DEAD"
    )


@requirement("M21", "M18")
async def test_a_message_that_was_answered_while_it_was_pushed_is_not_pushed_again_when_that_has_no_end(
    post: PushServer,
) -> None:
    gate = post.net.hangs(URL)
    await post.person.call("PATCH", f"/workspaces/{post.ops.id}", body={"max_concurrent_tasks": 2})
    activity_id = await post.ask("hi")
    await post.until_pushed(1)
    await post.ops.api.post(f"/workspaces/{post.ops.id}/notify", {"message": "done"})
    await post.clock.advance(311)
    await post.stands(activity_id, "completed")
    assert len(post.net.of(URL)) == 1
    gate.set()
    await post.quiet()
    page = await post.person.get(f"/workspaces/{post.ops.id}/chat-history")
    assert [line["content"] for line in page["messages"]] == ["hi", "done"]


@requirement("M21", "P1")
async def test_what_an_agent_has_said_is_kept_while_the_store_takes_nothing(
    post: PushServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushing = post.server.server.delivery.push_dispatcher._push_claims
    settled, failing = pushing.record_result, [StoreUnavailable(), ServerBusy(), StoreUnavailable()]

    async def settle(*args: Any, **more: Any) -> None:
        if failing:
            raise failing.pop()
        await settled(*args, **more)

    monkeypatch.setattr(pushing, "record_result", settle)
    post.net.answers(URL, said("done"))
    activity_id = await post.ask("hi")

    async def left() -> int:
        await post.clock.advance(1)
        return len(failing)

    await eventually(left, lambda count: count == 0)
    await post.clock.advance(1)
    await post.stands(activity_id, "completed")
    assert len(post.net.of(URL)) == 1


@requirement("M21", "P1")
async def test_mail_from_before_an_agent_was_one_to_push_to_is_pushed_also_if_the_first_claim_fails(
    post: PushServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushing = post.server.server.delivery.push_dispatcher._push_claims
    taken, failing = pushing.claim_batch, [StoreUnavailable()]
    poller = await post.server.seat("Poller")

    async def take(org_id: str, workspace_id: str, room: Any) -> Any:
        if failing and workspace_id == poller.id:
            raise failing.pop()
        return await taken(org_id, workspace_id, room)

    activity_id = await post.ask("early", to=poller)
    monkeypatch.setattr(pushing, "claim_batch", take)
    url = "https://later.example/a2a"
    post.net.answers(url, said("done"))
    await post.person.call("PATCH", f"/workspaces/{poller.id}", body={"delivery_mode": "push", "url": url})

    async def pushed() -> int:
        await post.clock.advance(6)
        return len(post.net.of(url))

    await eventually(pushed, bool)
    assert failing == []
    await post.stands(activity_id, "completed", seat=poller)


@requirement("M21", "P1")
async def test_whoever_pushes_goes_on_after_a_store_that_failed(
    post: PushServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pushing = post.server.server.delivery.push_dispatcher._push_claims
    taken, failing = pushing.claim_batch, [StoreUnavailable(), ServerBusy(), RuntimeError("planted")]

    async def take(*args: Any) -> Any:
        if failing:
            raise failing.pop()
        return await taken(*args)

    monkeypatch.setattr(pushing, "claim_batch", take)
    post.net.answers(URL, said("done"))
    activity_id = await post.ask("hi")

    async def left() -> int:
        await post.clock.advance(6)
        return len(failing)

    await eventually(left, lambda count: count == 0)
    await post.clock.advance(6)
    found = await post.stands(activity_id, "completed")
    assert (failing, found["attempts"]) == ([], 1)
