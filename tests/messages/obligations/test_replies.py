"""Answers: what closes what, by handle, by name and by neither; what a handle opens and what it does not."""

import asyncio
from typing import Any

import pytest

from testing.message_world import REPLY_SECONDS, MessageWorld, handle, notify, reply
from testing.running_server import Seat
from testing.waits import refused
from testing.workspaces import remove
from tests.requirements import requirement


async def asked_twice(world: MessageWorld) -> tuple[Seat, list[dict[str, Any]]]:
    """A seat that holds two messages of the person, the older one first."""
    ops = await world.server.seat("Ops")
    for text in ("first", "second"):
        await world.ask(ops, text)
    return ops, await world.take(ops)


async def states(world: MessageWorld, seat: Seat) -> list[str]:
    """How all that was asked of a seat stands, oldest first."""
    return [each["state"] for each in await world.owed(seat)]


# -- by handle ---------------------------------------------------------------------------------------------------------


@requirement("M26", "M27")
async def test_a_handle_is_enough_to_answer_a_person(world: MessageWorld) -> None:
    ops, (older, _) = await asked_twice(world)
    told = await reply(ops, handle(older), "done")
    last = (await world.chat(ops))[-1]
    assert (last["role"], last["content"], last["id"]) == ("agent", "done", told["activity_id"])
    assert told == {
        "status": "sent",
        "activity_id": last["id"],
        "answers": older["id"],
        "peer_id": "",
        "state": "answered",
        "acknowledged": True,
    }
    assert await states(world, ops) == ["answered", "open"]
    assert (await world.owed(ops))[0]["answer_id"] == last["id"]


@requirement("M26", "M27")
async def test_a_handle_is_enough_to_answer_a_peer_and_the_answer_asks_nothing(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    asked = await world.ask(ops, "please", by=peer)
    (row,) = await world.take(ops)
    told = await reply(ops, handle(row), "done")
    (answer,) = await world.take(peer)
    assert (told["peer_id"], told["activity_id"]) == (peer.id, answer["id"])
    assert (answer["source_id"], answer["intent"]) == (ops.id, "inform")
    message = answer["request_body"]["params"]["message"]
    assert (message["parts"][0]["text"], message["metadata"]["in_reply_to"]) == ("done", asked)
    assert await states(world, ops) == ["answered"]
    assert await states(world, peer) == []
    own = await ops.api.get(f"/workspaces/{ops.id}/activity", type="a2a_send")
    assert [(each["target_id"], each["summary"]) for each in own] == [(peer.id, "done")]


@requirement("M27")
async def test_an_answer_by_handle_settles_the_message(world: MessageWorld) -> None:
    ops, (older, newer) = await asked_twice(world)
    await reply(ops, handle(newer), "done")
    await world.pass_time(601)  # the lease is over
    assert [row["id"] for row in await world.take(ops)] == [older["id"]]


@requirement("M27", "P2")
async def test_a_handle_that_is_used_again_gives_the_first_result_and_says_nothing(world: MessageWorld) -> None:
    ops, (older, _) = await asked_twice(world)
    first = await reply(ops, handle(older), "done")
    again = await asyncio.gather(*(reply(ops, handle(older), text) for text in ("done", "other", "third")))
    assert again == [first] * 3
    assert [line["content"] for line in await world.chat(ops)] == ["first", "second", "done"]


@requirement("M27", "P2")
async def test_of_many_answers_by_one_handle_at_once_one_is_sent(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    await world.ask(ops, "please", by=peer)
    (row,) = await world.take(ops)
    told = await asyncio.gather(*(reply(ops, handle(row), f"answer {number}") for number in range(8)))
    assert len({each["activity_id"] for each in told}) == 1
    assert len(await world.take(peer)) == 1


@requirement("M27")
async def test_a_handle_whose_message_was_answered_otherwise_is_stale_and_names_the_right_one(
    world: MessageWorld,
) -> None:
    ops, (older, newer) = await asked_twice(world)
    await notify(ops, "about the first", in_reply_to=older["id"])
    error = await refused(reply(ops, handle(older), "done"))
    assert (error.status, error.code) == (409, "stale_handle")
    assert error.problem["handle"] == handle(newer)
    assert handle(newer) in error.problem["error"]
    await reply(ops, handle(newer), "done")
    error = await refused(reply(ops, handle(older), "done"))
    assert (error.code, "handle" in error.problem) == ("stale_handle", False)


@requirement("M27", "S8")
@pytest.mark.parametrize("verb", ["reply", "decline"])
async def test_a_foreign_handle_answers_byte_for_byte_like_an_unknown_one(world: MessageWorld, verb: str) -> None:
    other_org = await world.server.org("Other")
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    stranger = await world.server.seat("Stranger", org_id=other_org)
    await world.ask(ops, "please")
    (row,) = await world.take(ops)
    right = handle(row)
    wrong_check = right[:-1] + ("0" if right[-1] != "0" else "1")
    bodies = []
    for seat, used in ((peer, right), (stranger, right), (ops, wrong_check), (ops, "m999-00000"), (ops, "nonsense")):
        body = {"handle": used, "text": "mine", "reason": "mine"}
        error = await refused(seat.api.post(f"/workspaces/{seat.id}/{verb}", body))
        bodies.append((error.status, error.problem))
    assert bodies == [bodies[0]] * 5
    assert bodies[0][0] == 404
    assert await states(world, ops) == ["open"]


@requirement("M27")
async def test_the_seeds_routes_take_a_handle_too(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    await world.ask(ops, "of the person")
    await world.ask(ops, "of the peer", by=peer)
    person, colleague = await world.take(ops)
    sent = await notify(ops, "done", reply_handle=handle(person))
    again = await notify(ops, "again", reply_handle=handle(person))
    assert (sent, again) == ({**again, "answers": person["id"]}, {**again, "status": "sent"})
    answer = {"parts": [{"kind": "text", "text": "done"}], "metadata": {"reply_handle": handle(colleague)}}
    path, body = f"/workspaces/{peer.id}/a2a", {"params": {"message": answer}}
    first = await ops.api.post(path, body)
    assert (await ops.api.post(path, body))["activity_id"] == first["activity_id"]
    assert await states(world, ops) == ["answered", "answered"]


@requirement("M27", "P3")
async def test_a_handle_is_not_answered_to_somebody_else(world: MessageWorld) -> None:
    ops, peer, third = [await world.server.seat(name) for name in ("Ops", "Peer", "Third")]
    await world.ask(ops, "please", by=peer)
    (row,) = await world.take(ops)
    assert (await refused(notify(ops, "done", reply_handle=handle(row)))).code == "handle_of_another"
    message = {"parts": [{"kind": "text", "text": "done"}], "metadata": {"reply_handle": handle(row)}}
    error = await refused(ops.api.post(f"/workspaces/{third.id}/a2a", {"params": {"message": message}}))
    assert (error.status, error.code) == (409, "handle_of_another")
    assert await world.take(third) == []
    assert await states(world, ops) == ["open"]


@requirement("M27")
async def test_what_was_only_looked_at_can_be_answered(world: MessageWorld) -> None:
    """Its handle stands with it; to answer it is to have had it."""
    ops = await world.server.seat("Ops")
    await world.ask(ops, "please")
    path = f"/workspaces/{ops.id}/activity"
    (row,) = await ops.api.get(path, waiting="true", include="instructions")
    assert await states(world, ops) == []
    await reply(ops, handle(row), "done")
    assert await states(world, ops) == ["answered"]
    assert await world.take(ops) == []


@requirement("M27")
async def test_a_message_that_wants_no_answer_can_be_answered_once(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    await world.ask(ops, "for your information", by=peer, intent="inform")
    (row,) = await world.take(ops)
    first = await reply(ops, handle(row), "thank you for that")
    assert await reply(ops, handle(row), "again") == first
    assert (await states(world, ops), len(await world.take(peer))) == ([], 1)


# -- without a handle --------------------------------------------------------------------------------------------------


@requirement("M26")
async def test_a_line_to_the_user_closes_the_newest_that_is_open(world: MessageWorld) -> None:
    ops, _ = await asked_twice(world)
    await notify(ops, "about the second")
    assert await states(world, ops) == ["open", "answered"]
    await notify(ops, "about the first")
    assert await states(world, ops) == ["answered", "answered"]


@requirement("M26")
async def test_a_line_that_names_its_message_closes_that_one_and_no_other(world: MessageWorld) -> None:
    ops, (older, _) = await asked_twice(world)
    await notify(ops, "about the first", in_reply_to=older["id"])
    assert await states(world, ops) == ["answered", "open"]
    await notify(ops, "more about the first", in_reply_to=older["id"])
    assert await states(world, ops) == ["answered", "open"]


@requirement("M26")
async def test_an_answer_closes_what_its_receiver_asked_and_nothing_else(world: MessageWorld) -> None:
    ops, peer, third = [await world.server.seat(name) for name in ("Ops", "Peer", "Third")]
    await world.ask(ops, "of the person")
    await world.ask(ops, "of the peer", by=peer)
    await world.take(ops)
    await world.ask(third, "help me", by=ops)
    assert await states(world, ops) == ["open", "open"]
    await world.ask(peer, "done", by=ops)
    assert await states(world, ops) == ["open", "answered"]


@requirement("M26")
async def test_what_was_not_handed_over_is_not_closed_by_a_line_that_happens_to_come(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "nobody has seen this yet")
    await notify(ops, "good morning")
    await world.take(ops)
    assert await states(world, ops) == ["open"]


@requirement("M26")
async def test_two_answers_at_once_close_two_messages(world: MessageWorld) -> None:
    ops, _ = await asked_twice(world)
    await asyncio.gather(notify(ops, "one"), notify(ops, "other"))
    assert await states(world, ops) == ["answered", "answered"]


@requirement("M26", "W1")
async def test_a_client_that_knows_cursors_alone_owes_what_it_was_shown(world: MessageWorld) -> None:
    """Also if it answers before its cursor has passed the message."""
    ops = await world.server.seat("Ops")
    first = await world.ask(ops, "first")
    path = f"/workspaces/{ops.id}/activity"
    (row,) = await ops.api.get(path, type="a2a_receive", since_secs=30)
    assert (row["id"], await states(world, ops)) == (first, ["open"])
    await notify(ops, "done")
    await world.ask(ops, "second")
    (row,) = await ops.api.get(path, type="a2a_receive", since_id=first)
    assert await states(world, ops) == ["answered", "open"]
    assert await ops.api.get(path, type="a2a_receive", since_id=row["id"]) == []
    assert await states(world, ops) == ["answered", "open"]
    await world.pass_time(REPLY_SECONDS)
    (again,) = await ops.api.get(path, type="a2a_receive", since_id=row["id"])  # the reminder
    assert again["id"] == row["id"]
    await notify(ops, "done")
    await world.pass_time(10 * REPLY_SECONDS)
    assert await states(world, ops) == ["answered", "answered"]


@requirement("M26")
async def test_a_message_that_an_ack_passes_unseen_is_owed_from_then_on(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    for text in ("one", "two"):
        await world.ask(ops, text)
    newest = await world.newest(ops)
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"acked_seq": newest["seq"]})
    assert await states(world, ops) == ["open", "open"]


@requirement("M26")
@pytest.mark.parametrize("route", ["reply", "notify", "a2a"])
async def test_progress_closes_nothing_and_gives_more_time(world: MessageWorld, route: str) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    asked = await world.ask(ops, "please", by=peer if route == "a2a" else None)
    (row,) = await world.take(ops)
    for _ in range(4):
        await world.pass_time(REPLY_SECONDS - 1)
        if route == "reply":
            told = await reply(ops, handle(row), "one minute", progress=True)
            assert (told["state"], told["acknowledged"]) == ("open", False)
        elif route == "notify":
            await notify(ops, "one minute", progress=True)
        else:
            await world.ask(peer, "one minute", by=ops, progress=True)
    assert await world.ticks(ops, asked) == ["stored", "handed_over 1"]
    await reply(ops, handle(row), "done")
    assert await states(world, ops) == ["answered"]


@requirement("M26")
async def test_a_word_that_only_says_that_it_was_read_is_no_answer(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    await world.ask(ops, "please", by=peer)
    await world.take(ops)
    await world.ask(peer, "I have read it", by=ops, intent="ack")
    assert await states(world, ops) == ["open"]


@requirement("M26", "M30")
async def test_an_answer_and_small_talk_in_return_open_nothing(world: MessageWorld) -> None:
    """None of the two names an intent, as clients do that know none."""
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    await world.ask(ops, "how many are left?", by=peer)
    await world.take(ops)
    await world.ask(peer, "there are 17 left", by=ops)
    (answer,) = await world.take(peer)
    await world.ask(ops, "thanks!", by=peer)
    (thanks,) = await world.take(ops)
    await world.ask(peer, "You're welcome", by=ops)
    (welcome,) = await world.take(peer)
    assert [row["intent"] for row in (answer, thanks, welcome)] == ["inform", "ack", "ack"]
    assert (await states(world, ops), await states(world, peer)) == (["answered"], [])


@requirement("M26")
async def test_the_chat_names_the_answer_of_each_message(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "one")
    await world.ask(ops, "two")
    first, second = await world.take(ops)
    await reply(ops, handle(second), "answer two")
    await reply(ops, handle(first), "answer one")
    chat = await world.chat(ops)
    answers = {line["id"]: line["content"] for line in chat if line["role"] == "agent"}
    asked = [line for line in chat if line["role"] == "user"]
    assert [answers[line["obligation"]["answer_id"]] for line in asked] == ["answer one", "answer two"]


# -- declining, and asking back ----------------------------------------------------------------------------------------


@requirement("M26", "M27")
async def test_a_message_of_a_person_is_declined_with_a_reason_that_is_shown(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please")
    (row,) = await world.take(ops)
    path, body = f"/workspaces/{ops.id}/decline", {"handle": handle(row), "reason": "not my trade"}
    told = await ops.api.post(path, body)
    assert (told["status"], told["state"], told["activity_id"]) == ("declined", "declined", "")
    assert await ops.api.post(path, {**body, "reason": "another"}) == told
    assert await world.ticks(ops, asked) == ["stored", "handed_over 1", "acked 1", "declined (not my trade)"]
    (line,) = await world.chat(ops)
    assert (line["obligation"]["state"], line["obligation"]["reason"]) == ("declined", "not my trade")
    assert (await refused(reply(ops, handle(row), "after all"))).code == "stale_handle"
    assert (await refused(ops.api.post(path, {**body, "reason": " "}))).status in (400, 422)


@requirement("M26")
async def test_a_peer_that_asked_is_told_that_there_will_be_no_answer(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    await world.ask(ops, "please", by=peer)
    (row,) = await world.take(ops)
    told = await ops.api.post(f"/workspaces/{ops.id}/decline", {"handle": handle(row), "reason": "not my trade"})
    (answer,) = await world.take(peer)
    assert (answer["id"], answer["summary"], answer["intent"]) == (told["activity_id"], "not my trade", "inform")
    assert (await states(world, ops), await states(world, peer)) == (["declined"], [])


@requirement("M29")
async def test_a_question_with_options_is_an_answer_and_the_choice_comes_back(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.ask(ops, "make it red")
    await world.take(ops)
    path, body = f"/workspaces/{ops.id}/options", {"question": "Which red?", "options": ["dark", "bright"]}
    sent = await ops.api.call("POST", path, body=body, headers={"idempotency-key": "q1"})
    again = await ops.api.call("POST", path, body=body, headers={"idempotency-key": "q1"})
    assert again["activity_id"] == sent["activity_id"] and sent["answers"]
    assert await states(world, ops) == ["answered"]
    await world.ask(ops, "bright", option_of=sent["activity_id"], option=1)
    _, question, choice = await world.chat(ops)
    assert (question["content"], question["options"]) == ("Which red?", ["dark", "bright"])
    assert (choice["option_of"], choice["option"]) == (sent["activity_id"], 1)
    (row,) = await world.take(ops)
    assert row["request_body"]["params"]["message"]["metadata"]["option"] == 1


@requirement("M29", "M15")
@pytest.mark.parametrize(
    "options",
    [[], ["a"] * 11, ["a", "a"], ["a", " "], ["x" * 121], ["a\u202eb"], [1], "ab"],
    ids=["none", "too many", "twice", "empty", "too long", "turned round", "no text", "no list"],
)
async def test_options_that_cannot_be_shown_as_buttons_are_refused(world: MessageWorld, options: Any) -> None:
    ops = await world.server.seat("Ops")
    error = await refused(ops.api.post(f"/workspaces/{ops.id}/options", {"question": "Which?", "options": options}))
    assert error.status in (400, 422)
    assert await world.chat(ops) == []


@requirement("M27")
@pytest.mark.parametrize("why", ["removed", "moved away"])
async def test_what_a_peer_asked_that_cannot_be_reached_any_more_is_declined_without_telling_it(
    world: MessageWorld, why: str
) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    asked = await world.ask(ops, "first", by=peer)
    (row,) = await world.take(ops)
    if why == "removed":
        await remove(world.server.admin, peer)
    else:
        lead = await world.server.seat("Lead")
        await world.server.admin.call("PATCH", f"/workspaces/{peer.id}", body={"parent_id": lead.id})
    told = await ops.api.post(f"/workspaces/{ops.id}/decline", {"handle": handle(row), "reason": "not my trade"})
    assert (told["status"], told["activity_id"]) == ("declined", "")
    assert await world.state(ops, asked) == "declined"
    assert await world.take(ops) == []


@requirement("M26")
async def test_an_answer_to_one_of_two_questions_of_a_peer_must_name_it(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    await world.ask(ops, "how many?", by=peer)
    await world.ask(ops, "which colour?", by=peer)
    first, second = await world.take(ops)

    error = await refused(ops.api.send(peer.id, "seven", intent="inform"))

    assert (error.status, error.problem["code"]) == (409, "ambiguous_reply")
    found = [(each["reply_handle"], each["activity_id"], each["summary"]) for each in error.problem["open"]]
    assert found == [(handle(first), first["id"], "how many?"), (handle(second), second["id"], "which colour?")]
    assert await states(world, ops) == ["open", "open"]
    await ops.api.send(peer.id, "what for?", intent="request")  # a question of its own answers none of them
    assert await states(world, ops) == ["open", "open"]
    await world.ask(peer, "red", by=ops, in_reply_to=second["id"], intent="inform")
    await ops.api.send(peer.id, "seven", intent="inform")  # only one is left
    assert await states(world, ops) == ["answered", "answered"]


@requirement("M26", "M15")
@pytest.mark.parametrize("way", ["notify", "options", "a2a"])
async def test_a_message_whose_answer_names_it_is_not_delivered_again_after_its_lease(
    world: MessageWorld, way: str
) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    asked = await world.ask(ops, "ready?", by=peer if way == "a2a" else None)
    await world.take(ops)

    if way == "a2a":
        await world.ask(peer, "yes", by=ops, in_reply_to=asked, intent="inform")
    elif way == "notify":
        await notify(ops, "yes", in_reply_to=asked)
    else:
        body = {"question": "Sure?", "options": ["yes", "no"], "in_reply_to": asked}
        await ops.api.post(f"/workspaces/{ops.id}/options", body)

    assert await states(world, ops) == ["answered"]
    await world.pass_time(3600)
    assert await world.take(ops) == []


@requirement("M26", "M15")
async def test_an_answer_that_names_nothing_keeps_a_message_that_its_agent_may_not_have_seen(
    world: MessageWorld,
) -> None:
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "ready?")
    await world.take(ops)  # and the response is lost

    assert (await notify(ops, "good morning"))["answers"] == asked

    await world.pass_time(3600)
    assert [row["id"] for row in await world.take(ops)] == [asked]
