"""A message as the input of a turn, and which thread it belongs to."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.agent.engines.approval_cache import DecisionCache
from molecule_core.agent.engines.conversations import Conversations, awaited_id_in, awaited_id_of, conversation_name
from molecule_core.agent.engines.mail_loop import ensure_turn, turn_input, turn_key
from molecule_core.client.api import ApiError
from molecule_core.client.threads import ThreadsClient
from molecule_core.wire.schemas.envelope import Instructions
from molecule_core.wire.schemas.inbox import InboxMessage
from testing.clocks import settle
from testing.running_server import Running
from tests.requirements import requirement


def message(**more: Any) -> InboxMessage:
    """A person's words."""
    known = {"kind": "user_message", "workspace_id": "w", "peer_id": "", "method": "", "activity_id": "a1", "ts": ""}
    said = {"body": "do <b>it</b>", "text": "do <b>it</b>", "created_at": "", "user_name": "Ann"}
    return InboxMessage(**{**known, **said, **more})


@requirement("AR4")
def test_a_person_is_the_user_a_peer_never_and_a_reminder_is_a_turn_of_its_own() -> None:
    (own,) = turn_input(message())
    assert "peer" not in own and "do <b>it</b>" in own["text"] and "Ann" in own["text"]
    known: dict[str, Any] = {"reply_args": {}, "stdout_warning": "", "docs_url": "", "available_tools": []}
    known |= {"template": "t", "form": "full", "tokens": 9}
    told = Instructions(reply_via="reply", reply_handle="h1", text="Answer with reply, handle h1.", **known)
    (framed,) = turn_input(message(instructions=told))
    assert framed["text"].count("<instructions>") == 1 and "&lt;b&gt;" in framed["text"]
    peer = message(kind="peer_agent", peer_id="w2", peer_name="Ma\nps", user_name="", instructions=told)
    how, words = turn_input(peer)
    assert "peer" not in how and "it</b>" not in how["text"] and words["peer"] == "Ma ps (w2)"
    assert "do <b>it</b>" in words["text"] and "h1" not in words["text"]
    assert turn_key(peer) == "a1" and turn_key(replace(peer, reminder=True)) != "a1"


@requirement("AR4")
def test_conversations_keep_their_threads_and_what_was_asked_for_comes_back_to_who_asked(tmp_path: Path) -> None:
    task = message(kind="delegation", peer_id="w2", delegation_id="d1")
    result = message(kind="delegation_result", peer_id="w2", delegation_id="d2")
    over = message(kind="system", delegation_id="d1")
    named = [conversation_name(each) for each in (message(), message(peer_id="w2"), task, over, message(kind="system"))]
    assert named == ["person", "peer:w2", "task:d1", "task:d1", "system"]
    assert (awaited_id_of(result), awaited_id_of(task), awaited_id_of(message())) == ("d2", "", "")
    assert awaited_id_of(message(kind="approval_decision", approval_id="p1")) == "p1"
    assert (
        awaited_id_in("delegate_task_async", {"task_id": "d2"}) == "d2"
        and awaited_id_in("list_peers", {"task_id": "d"}) == ""
    )
    known = Conversations(tmp_path, "w")
    first = known.thread_key("person")
    known.expect_result("d2", "t1")
    known.start_next_round("person")
    again = Conversations(tmp_path, "w")
    assert again.thread_for("d2") == "t1" and again.thread_for("d1") is None
    assert again.thread_key("person") != first and again.thread_key("peer:w2") == "peer:w2:1"


@requirement("AR5")
@pytest.mark.parametrize("settled", [True, False])
async def test_a_decision_that_a_call_has_heard_needs_no_turn_even_if_its_message_comes_first(settled: bool) -> None:
    import asyncio

    decisions = DecisionCache()
    assert not await decisions.was_delivered("p1")
    with decisions.track_call():
        early = asyncio.ensure_future(decisions.was_delivered("p1"))
        await settle()
        assert not early.done()
        decisions.record_call("p1", settled=settled)
    assert await early is settled


@requirement("AR4")
async def test_a_message_that_comes_again_in_other_words_has_the_turn_that_it_has(one: Running) -> None:
    seat = await one.seat("Ops")
    threads = ThreadsClient(lambda: seat.api, seat.id)
    thread = await threads.start("person:1", base_instructions="You are Ops.")
    first = message(kind="peer_agent", peer_id="w2", peer_name="Maps")
    taken = await ensure_turn(threads, thread.thread_id, first)
    renamed = replace(first, peer_name="Charts", attempt=2)
    assert await ensure_turn(threads, thread.thread_id, renamed) == taken
    assert [each.type for each in await threads.list_entries(thread.thread_id)].count("turn_accepted") == 1
    other = await threads.start("person:2", base_instructions="You are Ops.")
    assert (await ensure_turn(threads, other.thread_id, renamed)).turn_id != taken.turn_id
    await seat.api.post(f"/threads/{other.thread_id}/close", {})
    with pytest.raises(ApiError, match="closed"):
        await ensure_turn(threads, other.thread_id, replace(first, activity_id="a2"))
