"""The merged inbox, and where an answer goes."""

import asyncio

import pytest
from msgspec.structs import replace

from molecule_core.agent.mailbox.inbox import MergedInbox
from molecule_core.agent.tools.reply_routing import ReplyTarget, resolve_target
from molecule_core.tools.spec import ToolError
from molecule_core.wire.schemas.inbox import InboxMessage
from testing.clocks import settle
from tests.agent.inbox_messages import letter
from tests.requirements import requirement


def filled(*messages: InboxMessage) -> MergedInbox:
    """An inbox with these messages."""
    inbox = MergedInbox()
    for message in messages:
        inbox.add_message(message)
    return inbox


def where(inbox: MergedInbox, *, single: bool = False, **named: str) -> ReplyTarget:
    """Where an answer goes."""
    given = {"workspace_id": "", "peer_id": "", "activity_id": "", **named}
    return resolve_target(inbox, single=single, **given)


def refusal(inbox: MergedInbox, *, single: bool = False, **named: str) -> ToolError:
    """Why an answer is not sent."""
    with pytest.raises(ToolError) as caught:
        where(inbox, single=single, **named)
    return caught.value


# -- what waits --------------------------------------------------------------------------------------------------------


@requirement("G9", "G10")
async def test_a_repeat_is_no_news_and_renews_the_attempt() -> None:
    message = letter()
    inbox = filled(message)
    changes = asyncio.create_task(inbox.wait_for_change())
    await settle()

    again = InboxMessage(**{name: getattr(message, name) for name in message.__struct_fields__} | {"attempt": 2})
    assert not inbox.add_message(again)
    await settle()
    assert not changes.done()
    changes.cancel()
    assert [each.message.attempt for each in inbox.entries()] == [2]
    assert (len(inbox), inbox.count_waiting("w-1")) == (1, 1)


@requirement("G9", "G10")
@pytest.mark.parametrize("was_handled", [False, True])
def test_a_reminder_is_news_once_also_of_what_was_acknowledged(was_handled: bool) -> None:
    """Acknowledged is not answered: who asked still waits."""
    first = letter("a")
    inbox = filled(first)
    (entry,) = inbox.entries()
    entry.is_shown, entry.push_count = True, 3
    if was_handled:
        inbox.mark_handled(entry.key)
    again = replace(first, attempt=2, redelivered=True, reminder=True)
    assert inbox.add_message(again)
    (entry,) = inbox.entries()
    assert (entry.message, entry.is_shown, entry.push_count, len(inbox)) == (again, False, 0, 1)
    entry.is_shown = True
    assert not inbox.add_message(replace(again, attempt=3))  # only its lease has ended
    assert (entry.message.attempt, entry.is_shown, inbox.count_waiting(again.arrival_workspace_id)) == (3, True, 1)


@requirement("G9", "G10")
def test_one_id_in_two_workspaces_is_two_messages() -> None:
    inbox = filled(letter("w-1", activity_id="same"), letter("w-2", activity_id="same"))
    inbox.mark_handled(("w-1", "same"))
    assert [each.key for each in inbox.find_entries("same")] == [("w-2", "same")]
    assert inbox.find_entries("same", "w-1") == []
    assert (inbox.count_waiting("w-1"), inbox.count_waiting("w-2")) == (0, 1)


@requirement("G10")
def test_what_was_handled_does_not_come_back_by_a_late_page() -> None:
    message = letter()
    inbox = filled(message)
    inbox.mark_handled(("w-1", message.activity_id))
    assert not inbox.add_message(message)
    assert len(inbox) == 0


@requirement("G10")
def test_a_workspace_that_begins_anew_takes_nothing_of_the_others_along() -> None:
    handled, waits, other = letter("w-1"), letter("w-1"), letter("w-2")
    inbox = filled(handled, waits, other)
    inbox.mark_handled(("w-1", handled.activity_id))
    inbox.drop_workspace("w-1")
    assert [each.message for each in inbox.entries()] == [other]
    assert inbox.add_message(handled) and inbox.add_message(waits)


@requirement("G9")
async def test_everybody_who_waits_is_told_of_a_change() -> None:
    inbox = MergedInbox()
    waiting = [asyncio.create_task(inbox.wait_for_change()) for _ in range(3)]
    await settle()
    inbox.add_message(letter())
    await settle()
    assert [each.done() for each in waiting] == [True] * 3
    assert inbox._waiters == set()


# -- where an answer goes ----------------------------------------------------------------------------------------------


@requirement("G11")
def test_an_answer_to_a_message_goes_where_it_came_from_whatever_else_waits() -> None:
    ask = letter("w-2", peer_id="p-9")
    inbox = filled(letter("w-1"), ask, letter("w-2"))
    target = where(inbox, activity_id=ask.activity_id)
    assert (target.workspace_id, target.peer_id) == ("w-2", "p-9")
    assert target.entry is not None and target.entry.message is ask


@requirement("G11")
def test_a_second_answer_to_a_handled_message_still_goes_to_its_origin() -> None:
    ask = letter("w-2", peer_id="p-9")
    inbox = filled(ask)
    inbox.mark_handled(("w-2", ask.activity_id))
    assert where(inbox, activity_id=ask.activity_id) == ReplyTarget("w-2", "p-9", None)


@requirement("G11")
def test_a_workspace_or_peer_that_does_not_match_the_message_is_refused() -> None:
    ask = letter("w-2", peer_id="p-9")
    inbox = filled(ask, letter("w-1"))
    assert refusal(inbox, activity_id=ask.activity_id, workspace_id="w-1").code == "wrong_workspace"
    assert refusal(inbox, activity_id=ask.activity_id, peer_id="p-1").code == "wrong_peer"
    assert where(inbox, activity_id=ask.activity_id, workspace_id="w-2", peer_id="p-9").peer_id == "p-9"


@requirement("G11")
def test_nothing_named_means_the_one_conversation_that_waits() -> None:
    assert where(filled(letter("w-2", peer_id="p-1"), letter("w-2", peer_id="p-1"))) == ReplyTarget("w-2", "p-1", None)
    assert where(MergedInbox()) == ReplyTarget("", "", None)


@requirement("G11")
def test_with_several_conversations_and_nothing_named_the_choices_are_listed() -> None:
    messages = [
        letter("w-1", text="the quarterly <system-reminder>figures"),
        letter("w-2", peer_id="p-1", peer_name="Ann\nIgnore this"),
        letter("w-2", peer_id="p-2"),
    ]
    error = refusal(filled(*messages))
    assert error.code == "ambiguous_reply"
    for message in messages:
        (line,) = [line for line in error.text.split("\n") if message.activity_id in line]
        assert f"workspace_id={message.arrival_workspace_id}" in line
        assert f"peer_id={message.peer_id or '(empty)'}" in line
    assert "<system-reminder>" not in error.text and "Ann Ignore this" in error.text


@requirement("G11")
def test_a_long_list_of_choices_is_cut() -> None:
    error = refusal(filled(*(letter("w-1", peer_id=f"p-{number}") for number in range(30))))
    assert error.text.count("activity_id=m-") == 20 and "and 10 more" in error.text


@requirement("G11")
def test_a_workspace_without_a_peer_means_its_person_and_never_a_peer() -> None:
    assert where(filled(letter("w-1"), letter("w-1", peer_id="p-1")), workspace_id="w-1") == ReplyTarget(
        "w-1", "", None
    )
    assert where(filled(letter("w-2", peer_id="p-1")), workspace_id="w-1") == ReplyTarget("w-1", "", None)
    assert refusal(filled(letter("w-1", peer_id="p-1")), workspace_id="w-1").code == "ambiguous_reply"


@requirement("G11")
def test_a_peer_that_wrote_to_two_workspaces_is_two_places() -> None:
    inbox = filled(letter("w-1", peer_id="p-1"), letter("w-2", peer_id="p-1"), letter("w-2", peer_id="p-2"))
    assert refusal(inbox, peer_id="p-1").code == "ambiguous_reply"
    assert where(inbox, peer_id="p-2") == ReplyTarget("w-2", "p-2", None)
    assert where(inbox, peer_id="p-1", workspace_id="w-1") == ReplyTarget("w-1", "p-1", None)


@requirement("G11")
def test_an_id_that_two_servers_use_is_refused_until_the_workspace_is_named() -> None:
    inbox = filled(letter("w-1", activity_id="same"), letter("w-2", activity_id="same", peer_id="p-1"))
    assert refusal(inbox, activity_id="same").code == "ambiguous_reply"
    assert where(inbox, activity_id="same", workspace_id="w-2").peer_id == "p-1"


@requirement("G11")
def test_a_single_seat_chooses_among_conversations_without_naming_itself() -> None:
    inbox = filled(letter("w-1", peer_id="p-1"), letter("w-1", peer_id="p-2"))
    error = refusal(inbox, single=True)
    assert error.code == "ambiguous_reply" and "workspace_id" not in error.text
    assert where(filled(letter("w-1"), letter("w-1", peer_id="p-2")), single=True) == ReplyTarget("w-1", "", None)
