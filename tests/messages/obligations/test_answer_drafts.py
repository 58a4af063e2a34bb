"""What an agent says and does not send: kept, shown, sent by a person or by itself, discarded."""

import asyncio
from typing import Any

import pytest

from testing.live_clients import journal_of
from testing.message_world import REPLY_SECONDS, MessageWorld, handle, reply
from testing.running_server import Seat
from testing.waits import refused
from tests.requirements import requirement


async def say_outside(seat: Seat, activity_id: str, text: str, **more: bool) -> Any:
    """What sees an agent's final text brings it."""
    return await seat.api.post(f"/workspaces/{seat.id}/messages/{activity_id}/draft", {"text": text, **more})


async def draft(world: MessageWorld, seat: Seat, activity_id: str, verb: str, body: Any = None) -> Any:
    """What a person does with it."""
    return await world.person.post(f"/workspaces/{seat.id}/messages/{activity_id}/draft/{verb}", body)


async def answered_outside(world: MessageWorld, by: Seat | None = None) -> tuple[Seat, str]:
    """A seat whose agent said something to its own screen, and the message that it was about."""
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please", by=by)
    await world.take(ops)
    assert (await say_outside(ops, asked, "done")) == {"state": "answered_outside", "activity_id": ""}
    return ops, asked


@requirement("M26", "P4")
async def test_what_was_said_outside_is_kept_and_shown_and_the_message_stays_open(world: MessageWorld) -> None:
    ops, asked = await answered_outside(world)
    (owed,) = await world.owed(ops, "open")
    assert (owed["activity_id"], owed["state"], owed["draft"]) == (asked, "answered_outside", "done")
    (line,) = await world.chat(ops)
    assert (line["obligation"]["state"], line["obligation"]["draft"]) == ("answered_outside", "done")
    assert await world.ticks(ops, asked) == ["stored", "handed_over 1", "answered_outside"]
    org = world.server.server.registry.orgs()[0].id
    page = await world.person.get(f"/orgs/{org}/obligations")
    assert [(each["activity_id"], each["workspace_name"]) for each in page["obligations"]] == [(asked, "Ops")]


@requirement("M26")
async def test_one_click_sends_it_as_the_workspace_once(world: MessageWorld) -> None:
    ops, asked = await answered_outside(world)
    told = await asyncio.gather(*(draft(world, ops, asked, "send") for _ in range(3)))
    assert [each["state"] for each in told] == ["answered"] * 3
    assert [(line["role"], line["content"]) for line in await world.chat(ops)] == [
        ("user", "please"),
        ("agent", "done"),
    ]
    assert await world.ticks(ops, asked) == ["stored", "handed_over 1", "acked 1", "answered_outside", "answered"]
    (owed,) = await world.owed(ops)
    assert (owed["state"], owed["answer_id"], owed["draft"]) == ("answered", told[0]["activity_id"], None)
    assert owed["outside_at"] is not None  # it was missed all the same


@requirement("M26")
async def test_a_person_may_send_it_in_other_words(world: MessageWorld) -> None:
    ops, asked = await answered_outside(world)
    await draft(world, ops, asked, "send", {"text": "It is done."})
    assert (await world.chat(ops))[-1]["content"] == "It is done."


@requirement("M26")
async def test_a_draft_for_a_peer_goes_to_the_peer(world: MessageWorld) -> None:
    peer = await world.server.seat("Peer")
    ops, asked = await answered_outside(world, by=peer)
    await draft(world, ops, asked, "send")
    (row,) = await world.take(peer)
    assert (row["source_id"], row["summary"], row["intent"]) == (ops.id, "done", "inform")


@requirement("M26")
@pytest.mark.parametrize("is_kept_before", [False, True])
async def test_a_text_that_is_posted_to_be_sent_is_the_answer(world: MessageWorld, is_kept_before: bool) -> None:
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please")
    await world.take(ops)
    if is_kept_before:
        await say_outside(ops, asked, "done")
    told = await asyncio.gather(*(say_outside(ops, asked, "done", send=True) for _ in range(3)))
    assert [each["state"] for each in told] == ["answered"] * 3
    assert [line["content"] for line in await world.chat(ops)] == ["please", "done"]


@requirement("M26")
async def test_a_workspace_that_keeps_drafts_sends_none_by_itself(world: MessageWorld) -> None:
    ops = await world.server.seat("Ops")
    await world.server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"send_drafts": False})
    asked = await world.ask(ops, "please")
    await world.take(ops)
    assert (await say_outside(ops, asked, "done", send=True))["state"] == "answered_outside"
    assert [line["content"] for line in await world.chat(ops)] == ["please"]
    await draft(world, ops, asked, "send")
    assert [line["content"] for line in await world.chat(ops)] == ["please", "done"]


@requirement("M26")
async def test_a_draft_that_is_discarded_leaves_the_message_as_it_was(world: MessageWorld) -> None:
    ops, asked = await answered_outside(world)
    for _ in range(2):
        assert (await draft(world, ops, asked, "discard"))["state"] == "open"
    assert (await refused(draft(world, ops, asked, "send"))).code == "no_draft"
    (row,) = await world.owed(ops)
    assert (row["state"], row["draft"]) == ("open", None)
    await say_outside(ops, asked, "done after all")
    assert await world.state(ops, asked) == "answered_outside"


@requirement("M26")
async def test_a_newer_text_takes_the_place_of_the_older_and_the_same_one_changes_nothing(world: MessageWorld) -> None:
    ops, asked = await answered_outside(world)
    before = len(await journal_of(world.server))
    await say_outside(ops, asked, "done")
    assert len(await journal_of(world.server)) == before
    await say_outside(ops, asked, "done better")
    (owed,) = await world.owed(ops)
    assert owed["draft"] == "done better"


@requirement("M26")
async def test_a_text_for_what_is_answered_or_wants_no_answer_is_not_kept(world: MessageWorld) -> None:
    ops, peer = await world.server.seat("Ops"), await world.server.seat("Peer")
    asked = await world.ask(ops, "please")
    informed = await world.ask(ops, "only that you know", by=peer, intent="inform")
    first, _ = await world.take(ops)
    await reply(ops, handle(first), "done")
    assert (await say_outside(ops, asked, "done"))["state"] == "answered"
    assert (await say_outside(ops, informed, "I see"))["state"] == ""
    assert [each["draft"] for each in await world.owed(ops)] == [None]


@requirement("M26", "S8")
async def test_a_text_for_what_is_not_ones_own_mail_is_refused(world: MessageWorld) -> None:
    ops, asked = await answered_outside(world)
    peer = await world.server.seat("Peer")
    assert (await refused(say_outside(peer, asked, "mine"))).code == "not_found"
    assert (await refused(say_outside(peer, "nonsense", "mine"))).code == "not_found"
    path = f"/workspaces/{ops.id}/messages/{asked}/draft"
    assert (await refused(peer.api.post(path, {"text": "mine"}))).status in (403, 404)
    assert (await refused(ops.api.post(f"{path}/send"))).code == "credential_not_accepted"
    viewer = await world.server.person("viewer")
    assert (await refused(viewer.post(f"{path}/send"))).code == "role_too_low"
    assert (await refused(ops.api.post(path, {"text": " "}))).code == "invalid_message"


@requirement("M26", "M32")
async def test_each_step_of_a_draft_is_told_live(world: MessageWorld) -> None:
    ops, asked = await answered_outside(world)
    await draft(world, ops, asked, "discard")
    await say_outside(ops, asked, "done")
    await draft(world, ops, asked, "send")
    told = [event["payload"] for event in await journal_of(world.server) if event["event"] == "MESSAGE_DRAFTED"]
    seq = (await world.newest(ops))["seq"]
    expected = ["kept", "discarded", "kept", "sent"]
    assert told == [{"activity_id": asked, "seq": seq, "state": state} for state in expected]


@requirement("M26", "M28", "P4")
@pytest.mark.parametrize("at_once", [1, 100])
async def test_an_agent_that_prints_100_answers_leaves_100_messages_visible_with_100_drafts(
    world: MessageWorld, at_once: int
) -> None:
    """Nobody waits in silence, whether it prints as it goes along or all at the end."""
    ops = await world.server.seat("Ops")
    asked = [await world.ask(ops, f"question {number}") for number in range(100)]
    taken: list[dict[str, Any]] = []
    while len(taken) < len(asked):
        rows = await world.take(ops, limit=at_once)
        taken += rows
        for row in rows:
            await say_outside(ops, row["id"], f"answer to {row['id']}")
            await ops.api.ack(ops.id, row)
    owed = await world.owed(ops, "unanswered")
    assert [(each["activity_id"], each["draft"]) for each in owed] == [(id_, f"answer to {id_}") for id_ in asked]
    assert [each["state"] for each in owed] == ["answered_outside"] * 100
    for _ in range(4):
        await world.pass_time(REPLY_SECONDS)
        await world.take(ops)  # the reminder, which it does not heed either
    owed = await world.owed(ops, "overdue")
    assert [(each["activity_id"], each["draft"]) for each in owed] == [(id_, f"answer to {id_}") for id_ in asked]
    (telling,) = await world.timers() or [("", 0.0)]
    assert telling == ("", 0.0)
