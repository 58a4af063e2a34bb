"""A message that the agent's process has claimed counts as delivered once its model has read it."""

from typing import Any

from testing.running_server import Seat
from testing.waits import refused
from tests.messages.delivery.push_server import PushServer
from tests.requirements import requirement


async def claim(seat: Seat, *, reports_read: bool = True) -> list[dict[str, Any]]:
    """What the process of an agent claims."""
    return await seat.api.claim(seat.id, wait=0, reports_read=reports_read)


async def report_read(seat: Seat, activity_id: str, attempt: int) -> int:
    """The process reports that its model has read a message; how many the server took for unread."""
    claims = [{"activity_id": activity_id, "attempt": attempt}]
    found: int = (await seat.api.post(f"/workspaces/{seat.id}/activity/read", {"claims": claims}))["read"]
    return found


async def seen_by_sender(post: PushServer, seat: Seat, activity_id: str) -> tuple[str, list[str]]:
    """The state that the chat shows, and the steps so far."""
    page = await post.person.get(f"/workspaces/{seat.id}/chat-history")
    (line,) = [each for each in page["messages"] if each["id"] == activity_id]
    return line["delivery"], [each["tick"] for each in (await post.ticks(activity_id, seat=seat))["ticks"]]


@requirement("M22", "C27")
async def test_a_claimed_message_is_in_the_inbox_until_the_model_has_read_it(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    sent = (await post.say("hi", to=poller))["activity_id"]
    (row,) = await claim(poller)
    assert await seen_by_sender(post, poller, sent) == ("in_inbox", ["stored", "in_inbox"])
    assert await report_read(poller, sent, row["attempt"]) == 1
    assert await seen_by_sender(post, poller, sent) == ("handed_over", ["stored", "in_inbox", "handed_over"])
    assert await report_read(poller, sent, row["attempt"]) == 0, "it is known to be read"
    await poller.api.ack(poller.id, row)
    state, ticks = await seen_by_sender(post, poller, sent)
    assert (state, ticks[-1]) == ("acked", "acked")


@requirement("M22", "C27")
async def test_a_claim_without_reports_is_a_delivery(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    sent = (await post.say("hi", to=poller))["activity_id"]
    await claim(poller, reports_read=False)
    assert await seen_by_sender(post, poller, sent) == ("handed_over", ["stored", "handed_over"])


@requirement("M22", "C27")
async def test_a_report_for_an_earlier_attempt_or_an_acknowledged_message_changes_nothing(post: PushServer) -> None:
    poller, other = await post.server.seat("Poller"), await post.server.seat("Other")
    sent = (await post.say("hi", to=poller))["activity_id"]
    await claim(poller)
    await post.clock.advance(61)
    (row,) = await claim(poller)
    assert (row["attempt"], await report_read(poller, sent, 1)) == (2, 0)
    assert await report_read(other, sent, 2) == 0, "it is no message of this workspace"
    assert (await seen_by_sender(post, poller, sent))[0] == "in_inbox"
    await poller.api.ack(poller.id, row)
    assert await report_read(poller, sent, 2) == 0
    assert (await seen_by_sender(post, poller, sent))[0] == "acked"


@requirement("M22", "C27")
async def test_what_was_read_once_stays_delivered_when_it_is_claimed_again(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    sent = (await post.say("hi", to=poller))["activity_id"]
    (row,) = await claim(poller)
    await report_read(poller, sent, row["attempt"])
    await post.clock.advance(61)
    assert [each["attempt"] for each in await claim(poller)] == [2]
    assert (await seen_by_sender(post, poller, sent))[0] == "handed_over"


async def test_too_many_reports_at_once_are_refused_with_what_to_do(post: PushServer) -> None:
    poller = await post.server.seat("Poller")
    claims = [{"activity_id": str(number), "attempt": 1} for number in range(1001)]
    problem = await refused(poller.api.post(f"/workspaces/{poller.id}/activity/read", {"claims": claims}))
    assert (problem.status, "Send the rest in another request." in str(problem.problem["error"])) == (422, True)
