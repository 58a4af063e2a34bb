"""Rows of the public API as an agent of the company understands them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.demo.company import packaged_company, places
from molecule_core.demo.hosted import heard
from molecule_core.demo.mail import card_of, message_of, peer_of
from molecule_core.demo.model import Message
from molecule_core.demo.reading import telling_stems

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["params", "message", "parts", "text"]), inner)
    ),
    max_leaves=10,
)


def row(**fields: Any) -> dict[str, Any]:
    """A row of an inbox."""
    parts = [{"kind": "text", "text": "one"}, {"kind": "file", "file": {}}, {"kind": "text", "text": "two"}]
    message = {"messageId": "m-1", "parts": parts, "metadata": {}}
    usual = {"id": "a-1", "attempt": 2, "kind": "canvas_user", "intent": "request", "source_id": None}
    return {**usual, "request_body": {"params": {"message": message}}, **fields}


def peer_row(**fields: Any) -> dict[str, Any]:
    """A row of one's peers."""
    return {"id": "p", "name": "Ada", "role": None, "parent_id": "me", "agent_card": None, **fields}


def test_a_message_is_its_text_its_sender_and_its_names() -> None:
    found = message_of(row())
    assert found == Message(id="a-1", attempt=2, name="m-1", text="one\ntwo")
    assert found.is_request


def test_an_answer_of_a_peer_names_what_it_answers() -> None:
    metadata = {"parts": [], "metadata": {"in_reply_to": "ask-1"}}
    found = message_of(row(kind="peer_agent", source_id="p", request_body={"params": {"message": metadata}}))
    assert (found.name, found.in_reply_to, found.is_answer, found.is_request) == ("a-1", "ask-1", True, False)


def test_an_answer_may_name_the_question_as_the_server_does() -> None:
    said = {"parts": [], "metadata": {"in_reply_to": "0190-question"}}
    answer = row(kind="peer_agent", source_id="p", request_body={"params": {"message": said}})
    assert message_of(answer, {"0190-question": "ask-1"}).in_reply_to == "ask-1"
    assert message_of(answer, {"0190-another": "ask-1"}).in_reply_to == "0190-question"


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ({}, Message(id="a-1", attempt=0, name="a-1", text="hi")),
        ({"attempt": 2, "peer_id": "p"}, Message(id="a-1", attempt=2, name="a-1", text="hi", sender="p")),
        ({"intent": "inform"}, Message(id="a-1", attempt=0, name="a-1", text="hi", wants_answer=False)),
    ],
)
def test_a_message_that_came_through_a_tool_is_the_same_message(told: dict[str, Any], asked: Message) -> None:
    assert heard({"activity_id": "a-1", "text": "hi", **told}) == asked


@pytest.mark.parametrize("fields", [{"kind": "broadcast"}, {"kind": None}, {"intent": "inform"}, {"intent": "ack"}])
def test_what_is_no_question_wants_no_answer(fields: dict[str, Any]) -> None:
    assert not message_of(row(**fields)).wants_answer


@given(ANY_JSON)
def test_any_body_is_read_without_harm(body: Any) -> None:
    assert message_of(row(request_body=body)).id == "a-1"


@given(ANY_JSON)
def test_any_card_of_a_peer_is_read_without_harm(card: Any) -> None:
    assert peer_of(peer_row(agent_card=card), "me", None).name == "Ada"


def test_the_place_of_a_peer_comes_from_the_tree() -> None:
    rows = (peer_row(), peer_row(parent_id="top"), peer_row(parent_id=None), peer_row(id="top", parent_id=None))
    assert [peer_of(each, "me", "top").place for each in rows] == ["below", "beside", "beside", "above"]


def test_the_words_of_a_peer_are_its_name_role_and_what_its_card_says() -> None:
    card = {"description": "Bakes", "skills": [{"id": "x-1", "name": "Bread", "tags": ["rolls"]}], "url": "secret"}
    found = peer_of(peer_row(role="A baker", agent_card=card), "me", None)
    assert {"ada", "baker", "bak", "bread", "roll"} <= found.words
    assert "secret" not in found.words
    assert found.skilled


@pytest.mark.parametrize("card", [None, "x", [], {}, {"skills": []}, {"skills": None}])
def test_a_peer_whose_card_names_no_skill_has_none(card: Any) -> None:
    assert not peer_of(peer_row(agent_card=card), "me", None).skilled


def test_every_agent_of_the_packaged_company_says_its_skills_and_words() -> None:
    cards = {place.seat.name: card_of(place.seat) for place in places(packaged_company())}
    assert all(card["skills"] for card in cards.values())
    assert "landing page" in cards["Backend"]["skills"][1]["tags"]
    found = peer_of(peer_row(agent_card=cards["Backend"]), "me", None)
    assert telling_stems("the logins") <= found.words
