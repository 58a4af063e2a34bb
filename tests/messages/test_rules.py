"""Decisions about messages, each by itself: repetition, room, attempts, the floor of an inbox, what is stored."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.errors import AttemptRequired, InvalidField, MessageIdReused, StaleAttempt
from molecule_core.messages.model import ActivityFilters, InboxClaim, InboxState, MessageDraft, MessageReceipt, Sender
from molecule_core.messages.rules import (
    advance_floor,
    check_attempt,
    check_exact_attempt,
    content_hash,
    hash_of_parts,
    max_inbound_no,
    merge_ranges,
    replayed_receipt,
    stored_body,
)
from testing.step_counts import examples
from tests.requirements import requirement

PERSON = Sender(key="person:p", workspace_id=None, user_id="p", user_name="Ada")
PEER = Sender(key="workspace:w", workspace_id="w", user_id=None, user_name=None)
TEXT = {"kind": "text", "text": "hello"}


def draft(**fields: Any) -> MessageDraft:
    """A regular message; what a test does not name is filled in."""
    message = {"kind": "message", "role": "user", "parts": [TEXT], "metadata": {}, **fields.pop("message", {})}
    usual: dict[str, Any] = {
        "sender": PEER,
        "params": {"metadata": {}, "message": message},
        "rpc_id": 1,
        "text": "hello",
        "intent": "request",
        "dedupe_key": "m-1",
        "context_id": None,
    }
    return MessageDraft(message=message, **{**usual, **fields})


# -- repetition --------------------------------------------------------------------------------------------------------


@requirement("M13", "P2")
def test_the_wrapping_of_a_message_is_no_part_of_its_content() -> None:
    same = content_hash("w", draft())
    assert same == content_hash("w", draft(rpc_id="another", sender=PERSON, dedupe_key="m-2"))
    assert same == content_hash("w", draft(message={"role": "agent", "messageId": "m-9"}))
    assert same == content_hash("w", draft(params={"metadata": {"x": 1}, "configuration": {"blocking": True}}))
    assert same == content_hash("w", draft(message={"parts": [{"text": "hello", "kind": "text"}]}))


@requirement("M13")
@pytest.mark.parametrize(
    "other",
    [
        draft(message={"parts": [{"kind": "text", "text": "hello!"}]}),
        draft(message={"parts": [TEXT, TEXT]}),
        draft(message={"parts": [{"kind": "data", "data": {"kind": "text", "text": "hello"}}]}),
        draft(message={"metadata": {"intent": "inform"}}),
        draft(context_id="c"),
    ],
)
def test_another_content_under_the_same_id_is_noticed(other: MessageDraft) -> None:
    assert content_hash("w", other) != content_hash("w", draft())


@requirement("M13")
def test_the_same_words_to_somebody_else_are_another_message() -> None:
    assert content_hash("w", draft()) != content_hash("x", draft())
    assert hash_of_parts("w", [TEXT]) != hash_of_parts("x", [TEXT])
    assert hash_of_parts("w", [TEXT]) == hash_of_parts("w", [{"text": "hello", "kind": "text"}])
    assert hash_of_parts("w", [TEXT]) != hash_of_parts("w", [TEXT, TEXT])


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)),
    max_leaves=6,
)


@requirement("M13")
@examples(200)
@given(JSON, JSON)
def test_two_contents_have_one_hash_exactly_if_they_are_the_same_json(one: Any, other: Any) -> None:
    first, second = (content_hash("w", draft(message={"metadata": {"x": each}})) for each in (one, other))
    same = msgspec.json.encode(one, order="deterministic") == msgspec.json.encode(other, order="deterministic")
    assert (first == second) == same


@requirement("M13", "P2")
def test_a_repeated_message_gets_its_first_answer_and_a_changed_one_is_refused() -> None:
    twin = ("a-1", "c-1", 17, "hash")
    assert replayed_receipt(twin, digest="hash", message_id="m-1") == MessageReceipt("a-1", "c-1", 17)
    with pytest.raises(MessageIdReused, match="the messageId 'm-1' was already used"):
        replayed_receipt(twin, digest="another", message_id="m-1")


# -- room --------------------------------------------------------------------------------------------------------------


@requirement("M15")
@examples(200)
@given(st.integers(0, 50), st.integers(0, 20), st.integers(1, 30))
def test_an_inbox_has_room_exactly_while_fewer_than_the_limit_are_unhandled(
    acked_no: int, acked_above: int, limit: int
) -> None:
    most = max_inbound_no(InboxState(acked_seq=0, acked_no=acked_no, acked_above=acked_above), limit)
    handled = acked_no + acked_above
    assert most - handled == limit
    assert max_inbound_no(InboxState(), limit) == limit


# -- attempts ----------------------------------------------------------------------------------------------------------


def _handed_out(attempt: int) -> InboxClaim:
    return InboxClaim(seq=1, attempt=attempt, lease_until=10, acked_at=None)


@requirement("M18")
@pytest.mark.parametrize(
    ("current", "named", "refusal"),
    [
        (None, None, None),
        (None, 1, None),
        (0, None, None),
        (0, 1, None),
        (1, 1, None),
        (3, 3, None),
        (1, None, AttemptRequired),
        (3, None, AttemptRequired),
        (2, 1, StaleAttempt),
        (3, 1, StaleAttempt),
        (1, 0, StaleAttempt),
        (1, -1, StaleAttempt),
    ],
)
def test_an_ack_is_for_the_hand_over_that_is_current(
    current: int | None, named: int | None, refusal: type[Exception] | None
) -> None:
    handout = None if current is None else _handed_out(current)
    if refusal is None:
        check_attempt(handout, named)
        assert handout is None or named is None or named >= handout.attempt
    else:
        with pytest.raises(refusal):
            check_attempt(handout, named)


def test_a_refused_ack_names_both_attempts() -> None:
    with pytest.raises(StaleAttempt, match="for attempt 2, but the message was delivered again as attempt 5"):
        check_attempt(_handed_out(5), 2)


@requirement("M18")
def test_an_ack_of_one_message_names_a_hand_over_that_really_was() -> None:
    check_exact_attempt(_handed_out(2), 2)
    check_exact_attempt(None, 1)
    for handout, attempt in ((_handed_out(2), 3), (_handed_out(2), 999), (None, 2)):
        with pytest.raises(InvalidField, match="this message has no attempt"):
            check_exact_attempt(handout, attempt)


# -- the floor ---------------------------------------------------------------------------------------------------------


@requirement("M18")
@examples(300)
@given(st.lists(st.booleans(), max_size=12), st.integers(0, 5), st.integers(0, 9))
def test_the_floor_moves_over_all_that_is_handled_and_stops_at_the_first_gap(
    handled: list[bool], acked_no: int, floor: int
) -> None:
    seqs = [floor + 1 + 2 * place for place in range(len(handled))]  # other rows of the log lie between
    before = InboxState(acked_seq=floor, acked_no=acked_no, acked_above=sum(handled))
    after, swallowed = advance_floor(before, list(zip(seqs, handled, strict=True)))
    run = handled.index(False) if False in handled else len(handled)
    assert swallowed == run
    assert after == InboxState(seqs[run - 1] if run else floor, acked_no + run, sum(handled) - run)
    assert after.acked_no + after.acked_above == before.acked_no + before.acked_above


@requirement("M17", "M18")
@pytest.mark.parametrize(
    ("filters", "whole"),
    [
        (ActivityFilters(), True),
        (ActivityFilters(activity_type="a2a_receive"), True),
        (ActivityFilters(activity_type="a2a_send"), False),
        (ActivityFilters(source="canvas"), False),
        (ActivityFilters(peer_id="w"), False),
        (ActivityFilters(since=1), False),
        (ActivityFilters(before=1), False),
        (ActivityFilters(activity_type="a2a_receive", peer_id="w"), False),
    ],
)
def test_only_a_cursor_over_the_whole_inbox_settles_all_of_it(filters: ActivityFilters, whole: bool) -> None:
    assert filters.is_whole_inbox is whole


# -- what is stored ----------------------------------------------------------------------------------------------------


def _stored(given_draft: MessageDraft) -> dict[str, Any]:
    return dict(msgspec.json.decode(stored_body(given_draft, "peer_agent", "m-1")))


@requirement("M11", "M12")
def test_what_is_stored_is_the_regular_request_with_kind_and_intent() -> None:
    body = _stored(draft(rpc_id="r", intent="inform", message={"metadata": {"mine": 1, "kind": "system"}}))
    message: dict[str, Any] = {"kind": "message", "role": "user", "parts": [TEXT], "messageId": "m-1"}
    message["metadata"] = {"mine": 1, "kind": "peer_agent", "intent": "inform"}
    assert body == {
        "jsonrpc": "2.0",
        "id": "r",
        "method": "message/send",
        "params": {"message": message, "metadata": {}},
    }


IDENTITY = ["source", "user_identity_status", "user_id", "email", "username", "name"]


@examples(300)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=12))
def test_stretches_are_joined_to_the_same_numbers_in_as_few_as_there_can_be(made: list[tuple[int, int]]) -> None:
    stretches = [(floor, floor + count) for floor, count in made]
    found = merge_ranges(stretches)
    numbers = [seq for floor, last in found for seq in range(floor + 1, last + 1)]
    assert numbers == sorted({seq for floor, last in stretches for seq in range(floor + 1, last + 1)})
    assert all(before[1] < after[0] for before, after in itertools.pairwise(found))


@requirement("M11", "P3")
def test_who_a_message_is_from_is_never_what_its_body_says() -> None:
    claimed = {"metadata": {**dict.fromkeys(IDENTITY, "somebody else"), "mine": 1}}
    assert _stored(draft(params=claimed))["params"]["metadata"] == {"mine": 1}
    assert _stored(draft(params=claimed, sender=PERSON))["params"]["metadata"] == {
        "mine": 1,
        "source": "canvas",
        "user_id": "p",
        "username": "Ada",
    }


@requirement("M12")
def test_storing_a_message_changes_nothing_of_its_draft() -> None:
    given_draft = draft(params={"metadata": {"name": "x"}}, message={"metadata": {"a": 1}})
    before = repr(given_draft)
    stored_body(given_draft, "peer_agent", "m-1")
    assert repr(given_draft) == before
