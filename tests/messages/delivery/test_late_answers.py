"""What a push agent answers to a workspace: where that waits for it, else in its inbox; and what it is told of messages
that are given up."""

import asyncio
from typing import Any

import msgspec
import pytest

from molecule_core.common.errors import ServerBusy
from molecule_core.common.limits import Limits
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.delivery.status_reader import DeliveryStatusReader
from molecule_core.wire.protocols.a2a import SEND_METHOD
from testing.push_agents import Reply, plain, said
from testing.running_server import Seat
from testing.upload_forms import uploaded
from testing.waits import bounded, eventually, refused, until_waiting
from tests.messages.delivery.push_server import URL, PushServer
from tests.requirements import requirement


class Desk:
    """A workspace that asks the push agent."""

    def __init__(self, post: PushServer, seat: Seat) -> None:
        self.post, self.seat = post, seat

    async def ask(self, text: str = "when?", *, patience: int = 0, to: Seat | None = None, **message: Any) -> Any:
        """A message to the agent; its receipt or answer."""
        target = self.post.ops if to is None else to
        said = {"role": "user", "parts": [{"kind": "text", "text": text}], **message}
        body = {"jsonrpc": "2.0", "id": "mine", "method": SEND_METHOD, "params": {"message": said}}
        return await self.post_to(target, body, patience)

    async def post_to(self, target: Seat, body: Any, patience: int) -> Any:
        """The same with a body of the test's own."""
        headers = {"x-timeout": str(patience)}
        return await self.seat.api.call("POST", f"/workspaces/{target.id}/a2a", body=body, headers=headers)

    async def mail(self) -> list[Any]:
        """All that ever came, oldest first."""
        rows = await self.seat.api.get(f"/workspaces/{self.seat.id}/activity", type="a2a_receive")
        return list(reversed(rows))

    async def answer(self) -> Any:
        """The only message that comes until nothing is under way any more."""
        await eventually(self.mail, bool)
        await self.post.quiet()
        (row,) = await self.mail()
        return row

    async def owed(self, state: str) -> Any:
        """What the agent owes, in a state."""
        path = f"/workspaces/{self.post.ops.id}/obligations"
        return (await self.post.person.get(path, state=state))["obligations"]


@pytest.fixture
async def desk(post: PushServer) -> Desk:
    """A workspace that polls."""
    return Desk(post, await post.server.seat("Desk"))


def words(row: Any) -> list[Any]:
    """The parts of a message in an inbox."""
    return list(row["request_body"]["params"]["message"]["parts"])


def about(row: Any) -> Any:
    """What is said of a message in an inbox."""
    return row["request_body"]["params"]["message"]["metadata"]


def result(**members: Any) -> Reply:
    """An agent's answer of another form."""
    return 200, {}, msgspec.json.encode({"jsonrpc": "2.0", "id": 1, "result": members})


def dying(intent: str) -> Any:
    """A message that matters for ten seconds."""
    message = {"parts": [{"kind": "text", "text": "when?"}], "metadata": {"intent": intent}}
    return {"params": {"message": message, "expires_in_seconds": 10}}


# -- who waits no more -------------------------------------------------------------------------------------------------


@requirement("M14", "M21")
async def test_an_answer_that_nobody_waits_for_comes_into_the_inbox_of_who_asked(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, said("at noon"))

    receipt = await desk.ask(contextId="plans", patience=0)

    row = await desk.answer()
    assert (row["kind"], row["intent"], row["source_id"]) == ("peer_agent", "inform", post.ops.id)
    assert words(row) == [{"kind": "text", "text": "at noon"}]
    assert about(row)["in_reply_to"] == receipt["activity_id"]
    assert row["request_body"]["params"]["message"]["role"] == "agent"
    assert (row["root_id"], row["hop"], row["cause_id"]) == (receipt["activity_id"], 1, receipt["activity_id"])
    rows = await post.server.server.store.rows("inbox_message", {"workspace_id": desk.seat.id, "seq": row["seq"]})
    assert "plans" in tuple(rows[0])  # the conversation goes on
    (owed,) = await desk.owed("answered")
    assert (owed["state"], owed["answer_id"]) == ("answered", row["id"])
    assert "inbox" in receipt["message"]


@requirement("M14", "M21")
async def test_the_sender_of_an_answer_is_promised_no_answer_to_it(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, said("thanks"))
    await Desk(post, post.ops).ask("where?", to=desk.seat)
    (question,) = await desk.mail()

    receipt = await desk.ask("here", metadata={"in_reply_to": question["id"]})

    assert "inbox" not in receipt["message"]
    await post.quiet()
    assert len(await desk.mail()) == 1


@requirement("M14", "M21")
async def test_who_waits_has_the_answer_there_and_not_in_the_inbox_too(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, said("at noon"))

    answer = await desk.ask(patience=20)

    assert answer["result"]["parts"] == [{"kind": "text", "text": "at noon"}]
    await post.quiet()
    assert await desk.mail() == []


@requirement("M14", "M21")
async def test_who_took_a_receipt_has_the_answer_in_the_inbox_once(post: PushServer, desk: Desk) -> None:
    gate = post.net.hangs(URL)
    waiting = asyncio.create_task(desk.ask(patience=3))
    await post.until_pushed(1)
    await post.clock.advance(3.1)
    receipt = await bounded(waiting)
    assert (receipt["delivery_mode"], await desk.mail()) == ("push-async", [])

    gate.set()

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]
    found = await post.stands(receipt["queue_id"], "completed")
    assert found["response_body"]["result"]["parts"][0]["text"] == "at last"


@requirement("M14", "M22")
async def test_who_was_told_that_the_agent_is_busy_has_its_answer_in_the_inbox(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, plain(503, busy=True), said("now I can"))

    receipt = await bounded(desk.ask(patience=300))

    assert receipt["delivery_mode"] == "push"
    await post.clock.advance(301)
    assert words(await desk.answer()) == [{"kind": "text", "text": "now I can"}]


@requirement("M14", "M21")
async def test_who_hangs_up_has_the_answer_in_the_inbox(post: PushServer, desk: Desk) -> None:
    gate = post.net.hangs(URL)
    waiting = asyncio.create_task(desk.ask(patience=300))
    await post.until_pushed(1)

    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await eventually(lambda: waits(post), lambda count: count == 0)
    gate.set()

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]


async def waits(post: PushServer) -> int:
    """How many answers are waited for."""
    pushed = post.net.pushed[0].activity
    return len(await post.server.server.store.rows("answer_wait", {"id": pushed}))


@requirement("M7", "M14")
async def test_an_answer_that_who_asked_may_not_have_any_more_waits_in_the_inbox(post: PushServer, desk: Desk) -> None:
    gate = post.net.hangs(URL)
    waiting = asyncio.create_task(refused(desk.ask(patience=60)))
    await post.until_pushed(1)
    tokens = f"/workspaces/{desk.seat.id}/tokens"
    (token,) = await post.server.admin.get(tokens)
    await post.server.admin.call("DELETE", f"{tokens}/{token['id']}")
    gate.set()
    assert (await bounded(waiting)).code == "invalid_credential"

    path = f"/workspaces/{desk.seat.id}/activity"
    (row,) = await eventually(lambda: post.person.get(path, type="a2a_receive"), bool)

    assert words(row) == [{"kind": "text", "text": "at last"}]


@requirement("M14")
async def test_who_asked_again_with_less_patience_has_the_answer_in_the_inbox(post: PushServer, desk: Desk) -> None:
    """The first request may have broken off with its server, and nobody waits as long as it said."""
    gate = post.net.hangs(URL)
    first = asyncio.create_task(desk.ask(patience=300, messageId="m-1"))
    await post.until_pushed(1)
    second = asyncio.create_task(desk.ask(patience=3, messageId="m-1"))
    await until_waiting(post.server.server, 2)
    await post.clock.advance(3.1)
    assert (await bounded(second))["delivery_mode"] == "push-async"

    gate.set()

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]
    await bounded(first)


@requirement("M14")
async def test_who_asked_again_without_patience_has_the_answer_in_the_inbox(post: PushServer, desk: Desk) -> None:
    gate = post.net.hangs(URL)
    first = asyncio.create_task(desk.ask(patience=300, messageId="m-1"))
    await post.until_pushed(1)
    assert (await desk.ask(patience=0, messageId="m-1"))["queued"] is True

    gate.set()

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]
    await bounded(first)


@requirement("M14")
async def test_who_asks_again_and_hangs_up_gets_no_second_letter(
    post: PushServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    post.net.answers(URL, said("at noon"))
    await desk.ask(messageId="m-1")
    await desk.answer()

    await ask_and_hang_up(desk, monkeypatch)

    assert words(await desk.answer()) == [{"kind": "text", "text": "at noon"}]
    assert (await desk.ask(patience=20, messageId="m-1"))["result"]["parts"][0]["text"] == "at noon"


async def ask_and_hang_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same message again, whose sender is gone before it is told anything."""
    with monkeypatch.context() as patch:
        patch.setattr(DeliveryStatusReader, "wait_for_outcome", busy)
        assert (await refused(desk.ask(patience=20, messageId="m-1"))).status == 503
    await desk.post.quiet()


@requirement("M14")
async def test_who_has_heard_it_and_hangs_up_when_asking_again_gets_no_letter(
    post: PushServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    post.net.answers(URL, said("at noon"))
    await desk.ask(patience=20, messageId="m-1")

    for _ in range(3):
        await ask_and_hang_up(desk, monkeypatch)

    assert await desk.mail() == []


@requirement("M14")
async def test_an_answer_that_came_as_its_sender_hung_up_has_a_row_too(
    post: PushServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_self: DeliveryStatusReader, _workspace_id: str, activity_id: str, _seconds: float) -> None:
        await post.stands(activity_id, "completed")
        raise ServerBusy

    post.net.answers(URL, said("at noon"))
    with monkeypatch.context() as patch:
        patch.setattr(DeliveryStatusReader, "wait_for_outcome", breaks)
        assert (await refused(desk.ask(patience=20))).status == 503

    row = await desk.answer()
    (owed,) = await desk.owed("answered")
    assert (words(row), owed["answer_id"]) == ([{"kind": "text", "text": "at noon"}], row["id"])


@requirement("M14", "M21")
@pytest.mark.parametrize("limits", [Limits(refused_attempts=1)])
async def test_that_a_message_was_given_up_is_told_once_however_often_its_sender_hangs_up(
    post: PushServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    post.net.answers(URL, plain(404))
    await desk.ask(messageId="m-1")

    for _ in range(3):
        await ask_and_hang_up(desk, monkeypatch)

    assert about(await desk.answer())["reason"] == "refused"


@requirement("M14")
async def test_several_requests_that_hang_up_at_once_get_one_letter(post: PushServer, desk: Desk) -> None:
    gate = post.net.hangs(URL)
    waiting = [asyncio.create_task(desk.ask(patience=300, messageId="m-1")) for _ in range(3)]
    await post.until_pushed(1)
    await until_waiting(post.server.server, 3)
    for each in waiting:
        each.cancel()
    gate.set()
    await asyncio.gather(*waiting, return_exceptions=True)

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]


@requirement("M14", "M21")
@pytest.mark.parametrize("limits", [Limits(refused_attempts=1)])
async def test_an_answer_to_a_requeued_message_is_not_kept_for_who_waited_once(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, plain(404), said("at last"))
    assert (await refused(desk.ask(patience=300))).code == "not_taken"
    (letter,) = await post.letters()

    await post.person.post(f"/workspaces/{post.ops.id}/dead-letters/{letter['activity_id']}/requeue")

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]


@requirement("M14")
async def test_a_receipt_is_given_also_while_the_store_is_busy_and_the_answer_comes_later(
    post: PushServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = post.net.hangs(URL)
    with monkeypatch.context() as patch:
        patch.setattr(ReplyWaiters, "stop_waiting", busy)
        waiting = asyncio.create_task(desk.ask(patience=3))
        await post.until_pushed(1)
        await post.clock.advance(3.1)
        assert (await bounded(waiting))["delivery_mode"] == "push-async"
    await eventually(lambda: waits(post), lambda count: count == 0)

    gate.set()

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]


@requirement("M14")
async def test_a_wait_that_could_not_be_taken_back_ends_by_its_time(
    post: PushServer, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = post.net.hangs(URL)
    with monkeypatch.context() as patch:
        patch.setattr(ReplyWaiters, "stop_waiting", busy)
        patch.setattr(ReplyWaiters, "handle_disconnect", in_vain)
        waiting = asyncio.create_task(desk.ask(patience=3))
        await post.until_pushed(1)
        await post.clock.advance(3.1)
        assert (await bounded(waiting))["delivery_mode"] == "push-async"
    assert await waits(post) == 1
    await post.clock.advance(10.1)

    gate.set()

    assert words(await desk.answer()) == [{"kind": "text", "text": "at last"}]


async def in_vain(*_: Any) -> bool:
    """What the store does not take as long as the sender is thought to wait."""
    return False


async def busy(*_: Any) -> None:
    """A command that the store does not take now."""
    raise ServerBusy


# -- what is an answer -------------------------------------------------------------------------------------------------


@requirement("M14", "M26")
async def test_an_agents_error_comes_as_its_word_that_there_is_no_answer(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, plain(200, jsonrpc="2.0", id=1, error={"code": -32000, "message": "I cannot"}))

    receipt = await desk.ask()

    row = await desk.answer()
    assert words(row) == [{"kind": "text", "text": "I cannot"}]
    assert (about(row)["declined"], about(row)["in_reply_to"]) == (True, receipt["activity_id"])
    (owed,) = await desk.owed("declined")
    assert (owed["state"], owed["reason"], owed["answer_id"]) == ("declined", "I cannot", row["id"])


@requirement("M14", "M26")
async def test_data_and_files_are_an_answer_without_words(post: PushServer, desk: Desk) -> None:
    file = {"name": "plan.pdf", "uri": "https://files.example/plan.pdf"}
    parts = [{"kind": "data", "data": {"hour": 12}}, {"kind": "file", "file": file}]
    post.net.answers(URL, result(kind="message", role="agent", messageId="a", parts=parts))

    await desk.ask()

    assert words(await desk.answer()) == parts
    (owed,) = await desk.owed("answered")
    assert owed["state"] == "answered"


@requirement("M14", "M26")
async def test_a_person_finds_data_and_files_in_the_chat_too(post: PushServer) -> None:
    file = {"name": "plan.pdf", "uri": "https://files.example/plan.pdf"}
    parts = [{"kind": "data", "data": {"hour": 12}}, {"kind": "file", "file": file}]
    post.net.answers(URL, result(kind="message", role="agent", messageId="a", parts=parts))

    await post.say("the plan?", patience=20)

    lines = (await post.person.get(f"/workspaces/{post.ops.id}/chat-history"))["messages"]
    assert [line["content"] for line in lines] == ["the plan?", '```json\n{\n  "hour": 12\n}\n```']
    assert [each["name"] for each in lines[1]["attachments"]] == ["plan.pdf"]


@requirement("M14", "M26")
async def test_a_file_of_ours_that_the_agent_cannot_see_comes_as_the_reason_why_not(
    post: PushServer, desk: Desk
) -> None:
    other = await post.server.seat("Other")
    (found,) = await uploaded(post.server, other.id, other.token, ("plan.txt", b"secret"))
    uri = found["uri"]
    file = {"kind": "file", "file": {"name": "x", "uri": uri}}
    words_of_it = {"kind": "text", "text": "see this"}
    post.net.answers(URL, result(kind="message", role="agent", messageId="a", parts=[words_of_it, file]))

    await desk.ask()

    said_first, instead = words(await desk.answer())
    assert said_first == words_of_it
    assert f"the file {uri} was not found, or you have no access to it" in instead["text"]


@requirement("M14", "M26")
async def test_an_agent_that_only_has_the_message_has_answered_nothing(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, (204, {}, b""))

    receipt = await desk.ask()

    await post.stands(receipt["activity_id"], "completed")
    assert await desk.mail() == []
    (owed,) = await desk.owed("open")
    assert owed["activity_id"] == receipt["activity_id"]


@requirement("M14", "M30")
async def test_words_behind_what_wants_no_answer_go_nowhere_so_that_two_agents_do_not_thank_for_ever(
    post: PushServer, desk: Desk
) -> None:
    other_url = "https://other.example/"
    other = Desk(post, await post.server.seat("Other", delivery_mode="push", url=other_url))
    post.net.answers(URL, said("at noon"))
    post.net.answers(other_url, said("thank you"))

    told = await desk.ask("just so you know", metadata={"intent": "inform"})
    await other.ask("when?")
    row = await other.answer()
    await post.stands(row["id"], "completed", seat=other.seat)
    await post.stands(told["activity_id"], "completed")
    await post.quiet()

    assert "inbox" not in told["message"]
    assert [each.text for each in post.net.of(URL)] == ["just so you know", "when?"]
    assert [each.text for each in post.net.of(other_url)] == ["at noon"]
    assert await desk.mail() == []


@requirement("M21")
async def test_an_answer_to_a_workspace_that_is_removed_is_kept_where_it_was_asked(
    post: PushServer, desk: Desk
) -> None:
    gate = post.net.hangs(URL)
    receipt = await desk.ask()
    await post.until_pushed(1)
    await post.server.admin.call("DELETE", f"/workspaces/{desk.seat.id}", query={"confirm": "true"})

    gate.set()

    assert (await post.stands(receipt["activity_id"], "completed"))["response_body"]


# -- what is given up --------------------------------------------------------------------------------------------------


@requirement("M21")
async def test_who_asked_is_told_that_a_message_was_given_up(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, plain(404))

    receipt = await desk.ask()
    await post.quiet()
    await post.tries(2)

    row = await desk.answer()
    assert (row["kind"], row["intent"], row["source_id"]) == ("system", "inform", post.ops.id)
    assert about(row)["activity_id"] == receipt["activity_id"]
    assert about(row)["reason"] == "refused"
    (part,) = words(row)
    assert part["text"] == (
        f"Your message {receipt['activity_id']} to 'Ops' ({post.ops.id}) could not be delivered: "
        "the agent rejected it. You will not get an answer unless a person requeues the message."
    )


@requirement("M21")
@pytest.mark.parametrize("limits", [Limits(refused_attempts=1)])
async def test_who_waits_is_told_there_and_not_in_the_inbox_too(post: PushServer, desk: Desk) -> None:
    post.net.answers(URL, plain(404))

    assert (await refused(desk.ask(patience=20))).status == 502

    await post.quiet()
    assert await desk.mail() == []


@requirement("M21")
async def test_of_a_message_to_an_agent_that_polls_its_end_is_told_too(post: PushServer, desk: Desk) -> None:
    poller = await post.server.seat("Poller")
    asked = await desk.post_to(poller, dying("request"), 0)
    await desk.post_to(poller, dying("inform"), 0)

    await post.clock.advance(11)

    row = await desk.answer()
    assert (about(row)["activity_id"], about(row)["reason"]) == (asked["activity_id"], "expired")
    assert "it expired before the agent handled it" in words(row)[0]["text"]


@requirement("M21", "M26")
async def test_an_answered_message_is_acknowledged_and_does_not_expire(post: PushServer, desk: Desk) -> None:
    poller = await post.server.seat("Poller")
    asked = await desk.post_to(poller, dying("request"), 0)
    await poller.api.claim(poller.id, lease=5, wait=0)
    said = {"parts": [{"kind": "text", "text": "at noon"}], "metadata": {"in_reply_to": asked["activity_id"]}}
    await poller.api.post(f"/workspaces/{desk.seat.id}/a2a", {"params": {"message": said}})

    await post.clock.advance(11)
    await post.stands(asked["activity_id"], "completed", seat=poller)

    assert words(await desk.answer()) == [{"kind": "text", "text": "at noon"}]
