"""An inbox: waiting for messages, claiming, acknowledging, and what comes again."""

import asyncio
from typing import Any

import pytest

from testing.raw_http import request, wire
from testing.waits import bounded, refused, until_waiting
from tests.polling_agent import PollingAgent, ids
from tests.requirements import requirement

UNKNOWN = "01900000-0000-7000-8000-000000000000"


# -- waiting -----------------------------------------------------------------------------------------------------------


@requirement("M33", "M17")
@pytest.mark.parametrize("way", ["newest", "after", "claim"])
async def test_a_waiting_reader_is_woken_by_the_message_itself(poller: PollingAgent, way: str) -> None:
    query: dict[str, Any] = {"claim": 60} if way == "claim" else {"type": "a2a_receive"}
    if way == "after":
        query["since_id"] = await poller.say("read already")
    waiting = asyncio.create_task(poller.read(**query, wait=25))
    await until_waiting(poller.server.server, 1)

    sent = await poller.say("wake up")  # time stands still: only a wake-up can end the wait

    assert ids(await bounded(waiting)) == [sent]


@requirement("M33", "M17")
async def test_every_one_of_many_waiting_readers_is_woken(poller: PollingAgent) -> None:
    waiting = [asyncio.create_task(poller.read(wait=25)) for _ in range(5)]
    await until_waiting(poller.server.server, 5)

    sent = await poller.say("to all of you")

    assert [ids(rows) for rows in await bounded(asyncio.gather(*waiting))] == [[sent]] * 5


@requirement("M33", "M17")
async def test_a_message_for_another_workspace_ends_nobodys_wait(poller: PollingAgent) -> None:
    other = await poller.server.seat("Other")
    waiting = asyncio.create_task(poller.read(wait=25))
    await until_waiting(poller.server.server, 1)

    await poller.person.send(other.id, "not for Ops")
    await until_waiting(poller.server.server, 1)

    assert not waiting.done()
    await poller.say("for Ops")
    assert [row["summary"] for row in await bounded(waiting)] == ["for Ops"]


@requirement("M17")
@pytest.mark.parametrize("way", ["newest", "after", "claim"])
async def test_a_wait_that_nothing_ended_is_answered_with_an_empty_page(poller: PollingAgent, way: str) -> None:
    query: dict[str, Any] = {"claim": 60} if way == "claim" else {}
    if way == "after":
        query["since_id"] = await poller.say("read already")
    waiting = asyncio.create_task(poller.read(**query, wait=10))
    await until_waiting(poller.server.server, 1)

    await poller.clock.advance(9)
    assert not waiting.done()
    await poller.clock.advance(1)

    assert await bounded(waiting) == []


@requirement("M17")
async def test_a_wait_is_never_longer_than_the_limit(poller: PollingAgent) -> None:
    waiting = asyncio.create_task(poller.read(wait=86_400))
    await until_waiting(poller.server.server, 1)

    await poller.clock.advance(25)

    assert await bounded(waiting) == []


@requirement("M17")
async def test_a_message_that_is_there_already_is_not_waited_for(poller: PollingAgent) -> None:
    sent = await poller.say("early")

    assert ids(await poller.read(wait=25)) == [sent]
    assert ids(await poller.claim(wait=25)) == [sent]


@requirement("M18")
async def test_of_two_waiting_claimers_one_gets_the_message_and_the_other_gets_the_next(poller: PollingAgent) -> None:
    waiting = [asyncio.create_task(poller.claim(wait=25)) for _ in range(2)]
    await until_waiting(poller.server.server, 2)

    first = await poller.say("1")
    done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    second = await poller.say("2")

    (winner,), (loser,) = done, still
    assert ids(winner.result()) == [first]
    assert ids(await bounded(loser)) == [second]


@requirement("M33", "M17")
async def test_removing_the_workspace_ends_the_wait_with_410(poller: PollingAgent) -> None:
    waiting = asyncio.create_task(refused(poller.claim(wait=25)))
    await until_waiting(poller.server.server, 1)

    await poller.server.admin.call("DELETE", f"/workspaces/{poller.ops.id}", query={"confirm": "true"})

    assert (await bounded(waiting)).status == 410


# -- claims ------------------------------------------------------------------------------------------------------------


@requirement("M18")
async def test_what_is_claimed_is_nobody_elses_until_its_lease_ends_and_then_comes_again(poller: PollingAgent) -> None:
    sent = await poller.say("handle me")

    (first,) = await poller.claim(lease=60)
    await poller.clock.advance(59)
    held = await poller.claim()
    await poller.clock.advance(1)
    (second,) = await poller.claim(lease=60)

    assert (first["id"], first["attempt"], first["redelivered"]) == (sent, 1, False)
    assert held == []
    assert (second["id"], second["attempt"], second["redelivered"]) == (sent, 2, True)


@requirement("M18")
async def test_a_parked_claimer_gets_the_redelivery_the_moment_the_lease_ends(poller: PollingAgent) -> None:
    sent = await poller.say("handle me")
    await poller.claim(lease=20)
    waiting = asyncio.create_task(poller.claim(wait=25))
    await until_waiting(poller.server.server, 1)

    await poller.clock.advance(19)
    assert not waiting.done()
    await poller.clock.advance(1)

    (row,) = await bounded(waiting)
    assert (row["id"], row["attempt"], row["redelivered"]) == (sent, 2, True)


@requirement("M18")
async def test_a_claimer_that_parked_before_the_lease_began_gets_the_redelivery_too(poller: PollingAgent) -> None:
    waiting = [asyncio.create_task(poller.claim(lease=10, wait=25)) for _ in range(2)]
    await until_waiting(poller.server.server, 2)
    sent = await poller.say("handle me")
    done, still = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED, timeout=5)
    await until_waiting(poller.server.server, 1)

    await poller.clock.advance(10)

    (winner,), (loser,) = done, still
    assert [(row["id"], row["attempt"]) for row in winner.result()] == [(sent, 1)]
    assert [(row["id"], row["attempt"]) for row in await bounded(loser)] == [(sent, 2)]


@requirement("M18")
async def test_what_was_handed_to_a_claimer_that_hung_up_comes_again(poller: PollingAgent) -> None:
    async with wire(poller.server.port) as gone:
        await gone.send(
            request("GET", f"/workspaces/{poller.ops.id}/activity?claim=30&wait=25", token=poller.ops.token)
        )
        await until_waiting(poller.server.server, 1)
    sent = await poller.say("anybody there?")

    found = await poller.claim()
    if not found:  # it was handed to the dead connection: then the lease brings it back
        await poller.clock.advance(30)
        found = await poller.claim()

    assert ids(found) == [sent]


@requirement("M18")
async def test_claims_hand_out_in_order_and_as_many_as_asked_for(poller: PollingAgent) -> None:
    sent = [await poller.say(str(number)) for number in range(5)]

    pages = [
        await poller.claim(limit=2),
        await poller.claim(limit=2),
        await poller.claim(limit=2),
        await poller.claim(limit=2),
    ]

    assert [ids(page) for page in pages] == [sent[0:2], sent[2:4], sent[4:5], []]


@requirement("M18")
async def test_concurrent_claimers_never_get_the_same_message(poller: PollingAgent) -> None:
    sent = [await poller.say(str(number)) for number in range(20)]

    pages = await asyncio.gather(*(poller.claim(limit=3) for _ in range(10)))

    got = [row["id"] for page in pages for row in page]
    assert sorted(got) == sorted(sent)


@requirement("M18")
async def test_since_id_beside_a_claim_acks_nothing(poller: PollingAgent) -> None:
    sent = [await poller.say(str(number)) for number in range(2)]

    claimed = await poller.read(claim=60, since_id=sent[1])

    assert ids(claimed) == sent
    assert await poller.ack(activity_id=sent[0], attempt=1) == claimed[0]["seq"]


@requirement("M18")
async def test_only_the_workspaces_own_token_claims_and_a_persons_cursor_acks_nothing(poller: PollingAgent) -> None:
    sent = await poller.say("mine")
    path = f"/workspaces/{poller.ops.id}/activity"

    error = await refused(poller.person.get(path, claim=60))
    await poller.person.get(path, since_id=sent)
    await poller.server.admin.get(path, since_id=sent)

    assert error.status == 422
    assert ids(await poller.claim()) == [sent]


# -- acks --------------------------------------------------------------------------------------------------------------


@requirement("M18")
async def test_an_ack_of_an_older_attempt_is_refused_and_the_current_one_counts(poller: PollingAgent) -> None:
    sent = await poller.say("slow work")
    await poller.claim(lease=5)
    await poller.clock.advance(5)
    (again,) = await poller.claim(lease=5)

    late = await refused(poller.ack(activity_id=sent, attempt=1))
    floor = await poller.ack(activity_id=sent, attempt=2)
    await poller.clock.advance(60)

    assert (late.status, late.code) == (409, "stale_attempt")
    assert floor == again["seq"]
    assert await poller.claim() == []


@requirement("M18")
async def test_an_ack_of_a_claimed_message_names_its_attempt(poller: PollingAgent) -> None:
    sent = await poller.say("1")
    await poller.claim()

    error = await refused(poller.ack(activity_id=sent))

    assert (error.status, error.code) == (422, "attempt_missing")


@requirement("M18")
async def test_an_ack_after_the_lease_ended_counts_as_long_as_nobody_else_was_given_the_message(
    poller: PollingAgent,
) -> None:
    sent = await poller.say("1")
    (row,) = await poller.claim(lease=5)
    await poller.clock.advance(6)

    assert await poller.ack(activity_id=sent, attempt=1) == row["seq"]
    assert await poller.claim() == []


@requirement("M18")
async def test_acked_seq_settles_everything_up_to_it_and_nothing_behind_it(poller: PollingAgent) -> None:
    sent = [await poller.say(str(number)) for number in range(4)]
    rows = await poller.claim(lease=5)

    floor = await poller.ack(acked_seq=rows[2]["seq"])
    await poller.clock.advance(5)

    assert floor == rows[2]["seq"]
    assert ids(await poller.claim()) == [sent[3]]


@requirement("M18")
async def test_acked_seq_with_an_older_attempt_is_refused_once_one_of_them_was_handed_out_again(
    poller: PollingAgent,
) -> None:
    await poller.say("1")
    await poller.claim(lease=5)
    await poller.clock.advance(5)
    (again,) = await poller.claim(lease=5)

    late = await refused(poller.ack(acked_seq=again["seq"], attempt=1))

    assert (late.status, late.code) == (409, "stale_attempt")


@requirement("M18", "M25")
async def test_acked_seq_with_an_attempt_that_never_was_is_told_as_the_last_that_was(poller: PollingAgent) -> None:
    sent = [await poller.say(str(number)) for number in range(3)]
    _, second = await poller.claim(limit=2)

    await poller.ack(acked_seq=second["seq"], attempt=999)
    await poller.ack(acked_seq=second["seq"] + 1, attempt=999)

    told = [await poller.person.get(f"/workspaces/{poller.ops.id}/messages/{each}/ticks") for each in sent]
    acks = [[tick.get("attempt") for tick in each["ticks"] if tick["tick"] == "acked"] for each in told]
    assert acks == [[1], [1], [None]]


@requirement("M18", "S14")
@pytest.mark.parametrize("attempt", [-1, 1 << 31, (1 << 63) - 1, 1 << 63, 1 << 70])
async def test_an_attempt_that_cannot_be_is_refused_by_its_name(poller: PollingAgent, attempt: int) -> None:
    await poller.say("1")
    (row,) = await poller.claim()

    for named in ({"acked_seq": row["seq"]}, {"activity_id": row["id"]}):
        error = await refused(poller.ack(**named, attempt=attempt))
        assert (error.status, error.code, "attempt" in error.problem["error"]) == (422, "invalid_field", True)


@requirement("M18")
async def test_acking_twice_changes_nothing_and_the_floor_never_falls(poller: PollingAgent) -> None:
    for number in range(3):
        await poller.say(str(number))
    rows = await poller.claim()
    top = rows[2]["seq"]

    assert await poller.ack(acked_seq=top) == top
    assert await poller.ack(acked_seq=top) == top
    assert await poller.ack(acked_seq=rows[0]["seq"]) == top
    assert await poller.ack(activity_id=rows[0]["id"], attempt=1) == top
    assert await poller.ack(acked_seq=0) == top


@requirement("M18")
async def test_a_floor_beyond_the_last_row_is_cut_so_that_later_messages_still_come(poller: PollingAgent) -> None:
    await poller.say("1")
    (row,) = await poller.claim()

    floor = await poller.ack(acked_seq=1 << 40)
    later = await poller.say("2")

    assert floor == row["seq"]
    assert ids(await poller.claim()) == [later]


@requirement("M18")
async def test_acks_out_of_order_leave_the_gap_open_and_close_it_in_the_end(poller: PollingAgent) -> None:
    await poller.say("1")
    await poller.say("2")
    await poller.say("3")
    first, second, third = await poller.claim(lease=5)

    assert await poller.ack(activity_id=third["id"], attempt=1) < first["seq"]
    assert await poller.ack(activity_id=first["id"], attempt=1) == first["seq"]
    await poller.clock.advance(5)
    assert ids(await poller.claim(lease=5)) == [second["id"]]
    assert await poller.ack(activity_id=second["id"], attempt=2) == third["seq"]


@requirement("M18")
async def test_an_ack_of_what_is_not_in_the_inbox_is_not_found(poller: PollingAgent) -> None:
    other = await poller.server.seat("Other")
    foreign = (await poller.person.send(other.id, "hi"))["activity_id"]
    own = (await poller.ops.api.post(f"/workspaces/{poller.ops.id}/notify", {"message": "hi"}))["activity_id"]

    errors = [await refused(poller.ack(activity_id=each, attempt=1)) for each in (UNKNOWN, foreign, own)]

    assert [error.status for error in errors] == [404] * 3


@requirement("M18")
@pytest.mark.parametrize("body", [{}, {"acked_seq": 1, "activity_id": UNKNOWN}, {"acked_seq": -1}, {"attempt": 1}])
async def test_an_ack_that_names_nothing_or_too_much_is_told_so(poller: PollingAgent, body: dict[str, Any]) -> None:
    error = await refused(poller.ack(**body))

    assert error.status == 422
    assert "acked_seq" in error.problem["error"]


@requirement("M17")
async def test_what_waits_is_shown_whoever_holds_it_until_it_is_handled_and_nothing_is_taken(
    poller: PollingAgent,
) -> None:
    first, second, third = [await poller.say(text) for text in ("first", "second", "third")]
    await poller.claim(limit=2)
    await poller.ack(activity_id=second, attempt=1)

    shown = [await poller.read(waiting="true") for _ in range(2)]

    assert [ids(rows) for rows in shown] == [[first, third]] * 2
    assert [row.get("attempt") for row in shown[0]] == [1, None]
    assert ids(await poller.read(waiting="true", limit=1)) == [first]
    await poller.ack(activity_id=third)
    assert ids(await poller.read(waiting="true")) == [first]
    assert ids(await poller.claim()) == []


# -- giving back -------------------------------------------------------------------------------------------------------


@requirement("M17", "G14")
async def test_what_an_agent_gives_back_goes_to_whoever_claims_next(poller: PollingAgent) -> None:
    sent = [await poller.say(f"message {number}") for number in range(3)]
    first = await poller.claim()
    claims = [{"activity_id": row["id"], "attempt": row["attempt"]} for row in first[1:]]

    answer = await poller.release(claims)
    again = await poller.claim()

    assert answer == {"released": 2}
    assert [(row["id"], row["attempt"]) for row in again] == [(sent[1], 2), (sent[2], 2)]


@requirement("M17", "G14")
async def test_only_the_present_claim_of_what_is_not_handled_can_be_given_back(poller: PollingAgent) -> None:
    handled, claimed_again, held = [await poller.say(f"message {number}") for number in range(3)]
    await poller.claim(lease=1)
    await poller.ack(activity_id=handled, attempt=1)
    await poller.clock.advance(2)
    await poller.claim()

    stale = [{"activity_id": each, "attempt": 1} for each in (handled, claimed_again, held, UNKNOWN)]

    assert await poller.release(stale) == {"released": 0}
    assert await poller.claim() == []
    assert await poller.release([{"activity_id": held, "attempt": 2}]) == {"released": 1}
    assert ids(await poller.claim()) == [held]


@requirement("M17", "G14")
async def test_a_poll_that_waits_is_not_woken_by_what_is_given_back(poller: PollingAgent) -> None:
    sent = await poller.say("hello")
    await poller.claim()
    last = asyncio.create_task(poller.claim(wait=25))
    await until_waiting(poller.server.server, 1)

    await poller.release([{"activity_id": sent, "attempt": 1}])

    await until_waiting(poller.server.server, 1)
    assert not last.done()
    last.cancel()
    assert ids(await poller.claim()) == [sent]
