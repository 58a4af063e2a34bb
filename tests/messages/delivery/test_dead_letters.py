"""Dead letters of agents that poll: whoever claims and whoever keeps a cursor gets a requeued one; and who may."""

from typing import Any

import pytest

from testing.running_server import Seat
from testing.waits import refused
from tests.messages.delivery.push_server import PushServer
from tests.requirements import requirement


async def dead(post: PushServer, seat: Seat, text: str = "dead") -> str:
    """A message that nobody took in time."""
    activity_id = str((await post.say(text, to=seat, expires_in_seconds=10))["activity_id"])
    await post.clock.advance(11)
    await post.stands(activity_id, "dropped", seat=seat)
    return activity_id


async def requeue(post: PushServer, seat: Seat, activity_id: str) -> None:
    await post.person.post(f"/workspaces/{seat.id}/dead-letters/{activity_id}/requeue")


async def behind(seat: Seat, cursor: str, **more: Any) -> list[str]:
    """What an old client gets: it knows only its cursor."""
    rows = await seat.api.get(f"/workspaces/{seat.id}/activity", type="a2a_receive", since_id=cursor, **more)
    return [row["id"] for row in rows]


async def said(post: PushServer, seat: Seat, text: str) -> str:
    return str((await post.say(text, to=seat))["activity_id"])


async def floor(post: PushServer, seat: Seat) -> tuple[Any, ...]:
    rows = await post.server.server.store.rows("inbox_state", {"workspace_id": seat.id})
    return tuple(rows[0])


@requirement("M18", "M21")
@pytest.mark.parametrize("how", ["one", "up to"])
async def test_whoever_claims_gets_a_requeued_letter_although_the_floor_has_passed_it(
    post: PushServer, how: str
) -> None:
    seat = await post.server.seat("Poller")
    letter = await dead(post, seat)
    later = await said(post, seat, "later")
    (row,) = await seat.api.claim(seat.id, wait=0)
    await seat.api.ack(seat.id, row)
    assert row["id"] == later
    assert (await floor(post, seat))[:3] == (2, 2, 0)

    await requeue(post, seat, letter)
    newest = await said(post, seat, "newest")
    waiting = await seat.api.get(f"/workspaces/{seat.id}/activity", waiting="true")
    assert [(row["id"], row.get("attempt")) for row in waiting] == [(letter, None), (newest, None)]
    first, second = await seat.api.claim(seat.id, lease=10, wait=0)
    assert [(first["id"], first["attempt"]), (second["id"], second["attempt"])] == [(letter, 1), (newest, 1)]
    assert await seat.api.claim(seat.id, wait=0) == []
    await post.clock.advance(11)
    first, second = await seat.api.claim(seat.id, lease=10, wait=0)
    assert (first["id"], first["attempt"], first["redelivered"]) == (letter, 2, True)
    stale = {"activity_id": letter, "attempt": 1}
    assert (await refused(seat.api.post(f"/workspaces/{seat.id}/activity/ack", stale))).code == "stale_attempt"
    if how == "one":
        assert (await seat.api.ack(seat.id, first))["last_acked_seq"] == 2
        assert (await seat.api.ack(seat.id, second))["last_acked_seq"] == 3
    else:
        done = await seat.api.post(f"/workspaces/{seat.id}/activity/ack", {"acked_seq": second["seq"], "attempt": 2})
        assert done["last_acked_seq"] == 3
    await post.clock.advance(11)
    assert await seat.api.claim(seat.id, wait=0) == []
    assert await floor(post, seat) == (3, 3, 0, 0, 0)
    assert (await seat.api.ack(seat.id, first))["last_acked_seq"] == 3
    assert (await post.queue(letter, seat=seat))["status"] == "completed"


@requirement("M18", "M21")
async def test_an_ack_up_to_a_number_leaves_a_letter_that_was_not_handed_out_since(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    letter = await dead(post, seat)
    await said(post, seat, "later")
    rows = await seat.api.claim(seat.id, wait=0)
    await requeue(post, seat, letter)
    await seat.api.post(f"/workspaces/{seat.id}/activity/ack", {"acked_seq": rows[-1]["seq"]})

    assert [row["id"] for row in await seat.api.claim(seat.id, wait=0)] == [letter]


@requirement("M18", "M21")
async def test_a_letter_that_is_requeued_before_the_floor_has_passed_it_holds_up_no_floor(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    first = await said(post, seat, "first")
    letter = await dead(post, seat)
    await said(post, seat, "last")
    await requeue(post, seat, letter)
    rows = await seat.api.claim(seat.id, wait=0)
    assert [row["id"] for row in rows][:2] == [first, letter]

    await seat.api.ack(seat.id, rows[2])
    assert (await seat.api.ack(seat.id, rows[0]))["last_acked_seq"] == 3
    assert await floor(post, seat) == (3, 3, 0, 1, 0)
    await seat.api.ack(seat.id, rows[1])
    assert await floor(post, seat) == (3, 3, 0, 0, 0)


@requirement("M18", "M21")
async def test_whoever_keeps_a_cursor_gets_a_requeued_letter_once_and_goes_on_where_it_was(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    letter = await dead(post, seat)
    mail = [await said(post, seat, str(number)) for number in range(3)]
    assert await behind(seat, letter) == mail  # the dead one stands in the log, and does not come
    assert await behind(seat, mail[-1]) == []

    await requeue(post, seat, letter)
    assert await behind(seat, mail[-1]) == [letter]
    assert await behind(seat, mail[-1]) == [letter]  # its cursor has not moved: it never got it
    assert await behind(seat, letter) == []  # its cursor is the letter now: handled, and nothing comes twice
    newest = await said(post, seat, "newest")
    assert await behind(seat, letter) == [newest]
    assert await behind(seat, newest) == []
    found = await post.queue(letter, seat=seat)
    assert (found["status"], found["attempts"]) == ("completed", 2)


@requirement("M18", "M21")
async def test_a_cursor_that_moved_past_a_page_with_a_letter_has_handled_it(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    letters = [await dead(post, seat), await dead(post, seat)]
    start = await said(post, seat, "start")
    assert await behind(seat, start) == []
    for letter in letters:
        await requeue(post, seat, letter)
    newest = await said(post, seat, "newest")

    assert await behind(seat, start) == [*letters, newest]
    assert await behind(seat, newest) == []
    assert await floor(post, seat) == (4, 4, 0, 0, 0)


@requirement("M18", "M21")
async def test_a_cursor_on_the_second_of_two_letters_says_that_both_are_handled(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    letters = [await dead(post, seat), await dead(post, seat)]
    start = await said(post, seat, "start")
    await behind(seat, start)
    for letter in letters:
        await requeue(post, seat, letter)

    assert await behind(seat, start) == letters
    assert await behind(seat, letters[1]) == []
    assert (await floor(post, seat))[3] == 0


@requirement("M21")
async def test_whoever_does_not_know_its_own_mail_only_reads_the_log(post: PushServer) -> None:
    """A person's read with a cursor settles nothing, and shows dead letters as what they are: rows."""
    seat = await post.server.seat("Poller")
    start = await said(post, seat, "start")
    letter = await dead(post, seat)
    path = f"/workspaces/{seat.id}/activity"
    rows = await post.person.get(path, type="a2a_receive", since_id=start)
    assert [row["id"] for row in rows] == [letter]


@requirement("M21")
async def test_letters_come_in_pages_newest_first_of_a_seat_and_of_an_organisation(post: PushServer) -> None:
    one, other = await post.server.seat("One"), await post.server.seat("Other")
    ids = [await dead(post, seat, f"n {number}") for number, seat in enumerate((one, other, one))]
    org = (await post.person.get(f"/workspaces/{one.id}"))["org_id"]

    page = await post.person.get(f"/orgs/{org}/dead-letters", limit=2)
    rest = await post.person.get(f"/orgs/{org}/dead-letters", before=page["dead_letters"][-1]["activity_id"])
    of_one = await post.person.get(f"/workspaces/{one.id}/dead-letters")

    assert [each["activity_id"] for each in page["dead_letters"]] == [ids[2], ids[1]]
    assert (page["reached_end"], rest["reached_end"]) == (False, True)
    assert [each["activity_id"] for each in rest["dead_letters"]] == [ids[0]]
    assert [each["summary"] for each in of_one["dead_letters"]] == ["n 2", "n 0"]
    assert {each["workspace_name"] for each in of_one["dead_letters"]} == {"One"}
    assert (await refused(post.person.get(f"/orgs/{org}/dead-letters", before="nonsense"))).code == "cursor_gone"


@requirement("M21", "S8")
async def test_only_an_operator_of_the_organisation_brings_a_letter_back(post: PushServer) -> None:
    seat = await post.server.seat("Poller")
    letter = await dead(post, seat)
    alive = await said(post, seat, "alive")
    viewer = await post.server.person("viewer")
    outsider = await post.server.person("owner", await post.server.org("Elsewhere"))
    path = f"/workspaces/{seat.id}/dead-letters"
    assert len((await viewer.get(path))["dead_letters"]) == 1
    for api, status in ((viewer, 403), (seat.api, 403), (outsider, 404)):
        assert (await refused(api.post(f"{path}/{letter}/requeue"))).status == status
        assert (await refused(api.call("DELETE", f"{path}/{letter}"))).status == status
    for unknown in (alive, "nonsense"):
        assert (await refused(post.person.post(f"{path}/{unknown}/requeue"))).status == 404
        assert (await refused(post.person.call("DELETE", f"{path}/{unknown}"))).status == 404
    await post.person.call("DELETE", f"{path}/{letter}")
    assert await behind(seat, letter) == [alive]
