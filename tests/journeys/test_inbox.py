"""An inbox: waiting for messages, claiming, acknowledging, and what comes again."""

import asyncio
from typing import Any

import pytest

from tests.journeys.desk import Desk, ids
from tests.journeys.patience import bounded, refused, until_waiting
from tests.journeys.rawhttp import request, wire
from tests.requirements import requirement

UNKNOWN = "01900000-0000-7000-8000-000000000000"


# -- waiting -----------------------------------------------------------------------------------------------------------


@requirement("M33", "M17")
@pytest.mark.parametrize("way", ["newest", "after", "claim"])
async def test_a_waiting_reader_is_woken_by_the_message_itself(desk: Desk, way: str) -> None:
    query: dict[str, Any] = {"claim": 60} if way == "claim" else {"type": "a2a_receive"}
    if way == "after":
        query["since_id"] = await desk.say("read already")
    waiting = asyncio.create_task(desk.read(**query, wait=25))
    await until_waiting(desk.server.server, 1)

    sent = await desk.say("wake up")  # time stands still: only a wake-up can end the wait

    assert ids(await bounded(waiting)) == [sent]


@requirement("M33", "M17")
async def test_every_one_of_many_waiting_readers_is_woken(desk: Desk) -> None:
    waiting = [asyncio.create_task(desk.read(wait=25)) for _ in range(5)]
    await until_waiting(desk.server.server, 5)

    sent = await desk.say("to all of you")

    assert [ids(rows) for rows in await bounded(asyncio.gather(*waiting))] == [[sent]] * 5


@requirement("M33", "M17")
async def test_a_message_for_another_workspace_ends_nobodys_wait(desk: Desk) -> None:
    other = await desk.server.seat("Other")
    waiting = asyncio.create_task(desk.read(wait=25))
    await until_waiting(desk.server.server, 1)

    await desk.person.send(other.id, "not for Ops")
    await until_waiting(desk.server.server, 1)

    assert not waiting.done()
    await desk.say("for Ops")
    assert [row["summary"] for row in await bounded(waiting)] == ["for Ops"]


@requirement("M17")
@pytest.mark.parametrize("way", ["newest", "after", "claim"])
async def test_a_wait_that_nothing_ended_is_answered_with_an_empty_page(desk: Desk, way: str) -> None:
    query: dict[str, Any] = {"claim": 60} if way == "claim" else {}
    if way == "after":
        query["since_id"] = await desk.say("read already")
    waiting = asyncio.create_task(desk.read(**query, wait=10))
    await until_waiting(desk.server.server, 1)

    await desk.clock.advance(9)
    assert not waiting.done()
    await desk.clock.advance(1)

    assert await bounded(waiting) == []


@requirement("M17")
async def test_a_wait_is_never_longer_than_the_limit(desk: Desk) -> None:
    waiting = asyncio.create_task(desk.read(wait=86_400))
    await until_waiting(desk.server.server, 1)

    await desk.clock.advance(25)

    assert await bounded(waiting) == []


@requirement("M17")
async def test_a_message_that_is_there_already_is_not_waited_for(desk: Desk) -> None:
    sent = await desk.say("early")

    assert ids(await desk.read(wait=25)) == [sent]
    assert ids(await desk.claim(wait=25)) == [sent]


@requirement("M18")
async def test_of_two_waiting_claimers_one_gets_the_message_and_the_other_gets_the_next(desk: Desk) -> None:
    waiting = [asyncio.create_task(desk.claim(wait=25)) for _ in range(2)]
    await until_waiting(desk.server.server, 2)

    first = await desk.say("1")
    done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    second = await desk.say("2")

    (winner,), (loser,) = done, still
    assert ids(winner.result()) == [first]
    assert ids(await bounded(loser)) == [second]


@requirement("M33", "M17")
async def test_removing_the_workspace_ends_the_wait_with_410(desk: Desk) -> None:
    waiting = asyncio.create_task(refused(desk.claim(wait=25)))
    await until_waiting(desk.server.server, 1)

    await desk.server.admin.call("DELETE", f"/workspaces/{desk.ops.id}", query={"confirm": "true"})

    assert (await bounded(waiting)).status == 410


# -- claims ------------------------------------------------------------------------------------------------------------


@requirement("M18")
async def test_what_is_claimed_is_nobody_elses_until_its_lease_ends_and_then_comes_again(desk: Desk) -> None:
    sent = await desk.say("handle me")

    (first,) = await desk.claim(lease=60)
    await desk.clock.advance(59)
    held = await desk.claim()
    await desk.clock.advance(1)
    (second,) = await desk.claim(lease=60)

    assert (first["id"], first["attempt"], first["redelivered"]) == (sent, 1, False)
    assert held == []
    assert (second["id"], second["attempt"], second["redelivered"]) == (sent, 2, True)


@requirement("M18")
async def test_a_parked_claimer_gets_the_redelivery_the_moment_the_lease_ends(desk: Desk) -> None:
    sent = await desk.say("handle me")
    await desk.claim(lease=20)
    waiting = asyncio.create_task(desk.claim(wait=25))
    await until_waiting(desk.server.server, 1)

    await desk.clock.advance(19)
    assert not waiting.done()
    await desk.clock.advance(1)

    (row,) = await bounded(waiting)
    assert (row["id"], row["attempt"], row["redelivered"]) == (sent, 2, True)


@requirement("M18")
async def test_a_claimer_that_parked_before_the_lease_began_gets_the_redelivery_too(desk: Desk) -> None:
    waiting = [asyncio.create_task(desk.claim(lease=10, wait=25)) for _ in range(2)]
    await until_waiting(desk.server.server, 2)
    sent = await desk.say("handle me")
    done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    await until_waiting(desk.server.server, 1)

    await desk.clock.advance(10)

    (winner,), (loser,) = done, still
    assert [(row["id"], row["attempt"]) for row in winner.result()] == [(sent, 1)]
    assert [(row["id"], row["attempt"]) for row in await bounded(loser)] == [(sent, 2)]


@requirement("M18")
async def test_what_was_handed_to_a_claimer_that_hung_up_comes_again(desk: Desk) -> None:
    async with wire(desk.server.port) as gone:
        await gone.send(request("GET", f"/workspaces/{desk.ops.id}/activity?claim=30&wait=25", token=desk.ops.token))
        await until_waiting(desk.server.server, 1)
    sent = await desk.say("anybody there?")

    found = await desk.claim()
    if not found:  # it was handed to the dead connection: then the lease brings it back
        await desk.clock.advance(30)
        found = await desk.claim()

    assert ids(found) == [sent]


@requirement("M18")
async def test_claims_hand_out_in_order_and_as_many_as_asked_for(desk: Desk) -> None:
    sent = [await desk.say(str(number)) for number in range(5)]

    pages = [await desk.claim(limit=2), await desk.claim(limit=2), await desk.claim(limit=2), await desk.claim(limit=2)]

    assert [ids(page) for page in pages] == [sent[0:2], sent[2:4], sent[4:5], []]


@requirement("M18")
async def test_concurrent_claimers_never_get_the_same_message(desk: Desk) -> None:
    sent = [await desk.say(str(number)) for number in range(20)]

    pages = await asyncio.gather(*(desk.claim(limit=3) for _ in range(10)))

    got = [row["id"] for page in pages for row in page]
    assert sorted(got) == sorted(sent)


@requirement("M18")
async def test_since_id_beside_a_claim_acks_nothing(desk: Desk) -> None:
    sent = [await desk.say(str(number)) for number in range(2)]

    claimed = await desk.read(claim=60, since_id=sent[1])

    assert ids(claimed) == sent
    assert await desk.ack(activity_id=sent[0], attempt=1) == claimed[0]["seq"]


@requirement("M18")
async def test_only_the_workspaces_own_token_claims_and_a_persons_cursor_acks_nothing(desk: Desk) -> None:
    sent = await desk.say("mine")
    path = f"/workspaces/{desk.ops.id}/activity"

    error = await refused(desk.person.get(path, claim=60))
    await desk.person.get(path, since_id=sent)
    await desk.server.admin.get(path, since_id=sent)

    assert error.status == 422
    assert ids(await desk.claim()) == [sent]


# -- acks --------------------------------------------------------------------------------------------------------------


@requirement("M18")
async def test_an_ack_of_an_older_attempt_is_refused_and_the_current_one_counts(desk: Desk) -> None:
    sent = await desk.say("slow work")
    await desk.claim(lease=5)
    await desk.clock.advance(5)
    (again,) = await desk.claim(lease=5)

    late = await refused(desk.ack(activity_id=sent, attempt=1))
    floor = await desk.ack(activity_id=sent, attempt=2)
    await desk.clock.advance(60)

    assert (late.status, late.code) == (409, "stale_attempt")
    assert floor == again["seq"]
    assert await desk.claim() == []


@requirement("M18")
async def test_an_ack_of_a_claimed_message_names_its_attempt(desk: Desk) -> None:
    sent = await desk.say("1")
    await desk.claim()

    error = await refused(desk.ack(activity_id=sent))

    assert (error.status, error.code) == (422, "attempt_missing")


@requirement("M18")
async def test_an_ack_after_the_lease_ended_counts_as_long_as_nobody_else_was_given_the_message(desk: Desk) -> None:
    sent = await desk.say("1")
    (row,) = await desk.claim(lease=5)
    await desk.clock.advance(6)

    assert await desk.ack(activity_id=sent, attempt=1) == row["seq"]
    assert await desk.claim() == []


@requirement("M18")
async def test_acked_seq_settles_everything_up_to_it_and_nothing_behind_it(desk: Desk) -> None:
    sent = [await desk.say(str(number)) for number in range(4)]
    rows = await desk.claim(lease=5)

    floor = await desk.ack(acked_seq=rows[2]["seq"])
    await desk.clock.advance(5)

    assert floor == rows[2]["seq"]
    assert ids(await desk.claim()) == [sent[3]]


@requirement("M18")
async def test_acked_seq_with_an_older_attempt_is_refused_once_one_of_them_was_handed_out_again(desk: Desk) -> None:
    await desk.say("1")
    await desk.claim(lease=5)
    await desk.clock.advance(5)
    (again,) = await desk.claim(lease=5)

    late = await refused(desk.ack(acked_seq=again["seq"], attempt=1))

    assert (late.status, late.code) == (409, "stale_attempt")


@requirement("M18", "M25")
async def test_acked_seq_with_an_attempt_that_never_was_is_told_as_the_last_that_was(desk: Desk) -> None:
    sent = [await desk.say(str(number)) for number in range(3)]
    _, second = await desk.claim(limit=2)

    await desk.ack(acked_seq=second["seq"], attempt=999)
    await desk.ack(acked_seq=second["seq"] + 1, attempt=999)

    told = [await desk.person.get(f"/workspaces/{desk.ops.id}/messages/{each}/ticks") for each in sent]
    acks = [[tick.get("attempt") for tick in each["ticks"] if tick["tick"] == "acked"] for each in told]
    assert acks == [[1], [1], [None]]


@requirement("M18", "S14")
@pytest.mark.parametrize("attempt", [-1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 70])
async def test_an_attempt_that_cannot_be_is_refused_by_its_name(desk: Desk, attempt: int) -> None:
    await desk.say("1")
    (row,) = await desk.claim()

    for named in ({"acked_seq": row["seq"]}, {"activity_id": row["id"]}):
        error = await refused(desk.ack(**named, attempt=attempt))
        assert (error.status, error.code, "attempt" in error.problem["error"]) == (422, "invalid_field", True)


@requirement("M18")
async def test_acking_twice_changes_nothing_and_the_floor_never_falls(desk: Desk) -> None:
    for number in range(3):
        await desk.say(str(number))
    rows = await desk.claim()
    top = rows[2]["seq"]

    assert await desk.ack(acked_seq=top) == top
    assert await desk.ack(acked_seq=top) == top
    assert await desk.ack(acked_seq=rows[0]["seq"]) == top
    assert await desk.ack(activity_id=rows[0]["id"], attempt=1) == top
    assert await desk.ack(acked_seq=0) == top


@requirement("M18")
async def test_a_floor_beyond_the_last_row_is_cut_so_that_later_messages_still_come(desk: Desk) -> None:
    await desk.say("1")
    (row,) = await desk.claim()

    floor = await desk.ack(acked_seq=1 << 40)
    later = await desk.say("2")

    assert floor == row["seq"]
    assert ids(await desk.claim()) == [later]


@requirement("M18")
async def test_acks_out_of_order_leave_the_gap_open_and_close_it_in_the_end(desk: Desk) -> None:
    await desk.say("1")
    await desk.say("2")
    await desk.say("3")
    first, second, third = await desk.claim(lease=5)

    assert await desk.ack(activity_id=third["id"], attempt=1) < first["seq"]
    assert await desk.ack(activity_id=first["id"], attempt=1) == first["seq"]
    await desk.clock.advance(5)
    assert ids(await desk.claim(lease=5)) == [second["id"]]
    assert await desk.ack(activity_id=second["id"], attempt=2) == third["seq"]


@requirement("M18")
async def test_an_ack_of_what_is_not_in_the_inbox_is_not_found(desk: Desk) -> None:
    other = await desk.server.seat("Other")
    foreign = (await desk.person.send(other.id, "hi"))["activity_id"]
    own = (await desk.ops.api.post(f"/workspaces/{desk.ops.id}/notify", {"message": "hi"}))["activity_id"]

    errors = [await refused(desk.ack(activity_id=each, attempt=1)) for each in (UNKNOWN, foreign, own)]

    assert [error.status for error in errors] == [404] * 3


@requirement("M18")
@pytest.mark.parametrize("body", [{}, {"acked_seq": 1, "activity_id": UNKNOWN}, {"acked_seq": -1}, {"attempt": 1}])
async def test_an_ack_that_names_nothing_or_too_much_is_told_so(desk: Desk, body: dict[str, Any]) -> None:
    error = await refused(desk.ack(**body))

    assert error.status == 422
    assert "acked_seq" in error.problem["error"]


@requirement("M17")
async def test_what_waits_is_shown_whoever_holds_it_until_it_is_handled_and_nothing_is_taken(desk: Desk) -> None:
    first, second, third = [await desk.say(text) for text in ("first", "second", "third")]
    await desk.claim(limit=2)
    await desk.ack(activity_id=second, attempt=1)

    shown = [await desk.read(waiting="true") for _ in range(2)]

    assert [ids(rows) for rows in shown] == [[first, third]] * 2
    assert [row.get("attempt") for row in shown[0]] == [1, None]
    assert ids(await desk.read(waiting="true", limit=1)) == [first]
    await desk.ack(activity_id=third)
    assert ids(await desk.read(waiting="true")) == [first]
    assert ids(await desk.claim()) == []


# -- giving back -------------------------------------------------------------------------------------------------------


@requirement("M17", "G14")
async def test_what_an_agent_gives_back_goes_to_whoever_claims_next(desk: Desk) -> None:
    sent = [await desk.say(f"message {number}") for number in range(3)]
    first = await desk.claim()
    claims = [{"activity_id": row["id"], "attempt": row["attempt"]} for row in first[1:]]

    answer = await desk.release(claims)
    again = await desk.claim()

    assert answer == {"released": 2}
    assert [(row["id"], row["attempt"]) for row in again] == [(sent[1], 2), (sent[2], 2)]


@requirement("M17", "G14")
async def test_only_the_present_claim_of_what_is_not_handled_can_be_given_back(desk: Desk) -> None:
    handled, claimed_again, held = [await desk.say(f"message {number}") for number in range(3)]
    await desk.claim(lease=1)
    await desk.ack(activity_id=handled, attempt=1)
    await desk.clock.advance(2)
    await desk.claim()

    stale = [{"activity_id": each, "attempt": 1} for each in (handled, claimed_again, held, UNKNOWN)]

    assert await desk.release(stale) == {"released": 0}
    assert await desk.claim() == []
    assert await desk.release([{"activity_id": held, "attempt": 2}]) == {"released": 1}
    assert ids(await desk.claim()) == [held]


@requirement("M17", "G14")
async def test_a_poll_that_waits_is_not_woken_by_what_is_given_back(desk: Desk) -> None:
    sent = await desk.say("hello")
    await desk.claim()
    last = asyncio.create_task(desk.claim(wait=25))
    await until_waiting(desk.server.server, 1)

    await desk.release([{"activity_id": sent, "attempt": 1}])

    await until_waiting(desk.server.server, 1)
    assert not last.done()
    last.cancel()
    assert ids(await desk.claim()) == [sent]
