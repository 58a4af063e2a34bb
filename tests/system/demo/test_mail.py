"""Rows of the public API as an agent of the company understands them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.demo.api_rows import build_agent_card, parse_message_row, parse_peer_row, parse_pushed_message
from molecule_core.demo.company import list_company_workspaces, packaged_company
from molecule_core.demo.mcp_agent import message_from_tool
from molecule_core.demo.model import DemoMessage
from molecule_core.demo.text_analysis import significant_stems

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


def of_peer(kind: str, **metadata: Any) -> dict[str, Any]:
    """A row that a peer has caused."""
    said = {"parts": [{"kind": "text", "text": "hi"}], "metadata": metadata}
    return row(kind=kind, source_id="p", request_body={"params": {"message": said}})


def test_a_message_is_its_text_its_sender_and_its_names() -> None:
    found = parse_message_row(row(instructions={"reply_handle": "m1-abcde"}))
    assert found == DemoMessage(id="a-1", attempt=2, text="one\ntwo", handle="m1-abcde")
    assert not found.is_delegated


def test_work_that_a_peer_delegates_wants_an_answer() -> None:
    found = parse_message_row(of_peer("delegation", delegation_id="a-1"))
    assert (found.sender, found.delegation_id, found.is_delegated, found.is_result) == ("p", "a-1", True, False)


def test_the_list_of_checks_is_no_part_of_a_task() -> None:
    parts = [{"kind": "text", "text": "Plan it"}, {"kind": "text", "text": "The server checks your answer"}]
    said = {"parts": parts, "metadata": {"delegation_id": "a-1", "accept": [{"type": "file"}]}}
    found = parse_message_row(row(kind="delegation", source_id="p", request_body={"params": {"message": said}}))
    assert (found.text, found.is_returned) == ("Plan it", False)


def test_an_answer_that_is_returned_is_the_task_again() -> None:
    text = "Needs work: 2. schema\n\nTask from 'Hub':\n> Plan it\n> today\n\nComplete the work."
    said = {"parts": [{"kind": "text", "text": text}], "metadata": {"delegation_id": "a-1", "needs_work": [{}]}}
    found = parse_message_row(row(kind="delegation", source_id="p", request_body={"params": {"message": said}}))
    assert (found.text, found.is_returned, found.is_delegated) == ("Plan it\ntoday", True, True)


@pytest.mark.parametrize(("status", "failed"), [("completed", False), ("failed", True), ("cancelled", True)])
def test_a_result_names_its_delegation_and_whether_it_is_one(status: str, failed: bool) -> None:
    said = of_peer("delegation_result", delegation_id="d-1", status=status)
    found = parse_message_row({**said, "intent": "inform"})
    told = (found.delegation_id, found.is_result, found.is_failed, found.wants_answer)
    assert told == ("d-1", True, failed, False)


def test_only_the_server_names_delegations() -> None:
    """A peer may write into its message what it likes."""
    assert parse_message_row(of_peer("peer_agent", delegation_id="d-1")).delegation_id == ""


def test_what_a_peer_says_in_reply_wants_no_answer() -> None:
    assert parse_message_row(of_peer("peer_agent")).wants_answer
    assert not parse_message_row(of_peer("peer_agent", in_reply_to="a-0")).wants_answer


def test_a_pushed_message_is_read_from_its_body() -> None:
    metadata = {"kind": "delegation", "intent": "request", "delegation_id": "a-1"}
    body = {"params": {"message": {"parts": [{"kind": "text", "text": "hi"}], "metadata": metadata}}}
    found = parse_pushed_message(body, id="a-1", attempt=2)
    assert found == DemoMessage(id="a-1", attempt=2, text="hi", delegation_id="a-1")
    assert found.is_delegated


@pytest.mark.parametrize(
    ("told", "asked"),
    [
        ({}, DemoMessage(id="a-1", attempt=0, text="hi")),
        ({"attempt": 2, "peer_id": "p"}, DemoMessage(id="a-1", attempt=2, text="hi", sender="p")),
        (
            {"peer_id": "p", "delegation_id": "a-1"},
            DemoMessage(id="a-1", attempt=0, text="hi", sender="p", delegation_id="a-1"),
        ),
        ({"intent": "inform"}, DemoMessage(id="a-1", attempt=0, text="hi", wants_answer=False)),
    ],
)
def test_a_message_that_came_through_a_tool_is_the_same_message(told: dict[str, Any], asked: DemoMessage) -> None:
    assert message_from_tool({"activity_id": "a-1", "text": "hi", **told}) == asked


@pytest.mark.parametrize("fields", [{"kind": "broadcast"}, {"kind": None}, {"intent": "inform"}, {"intent": "ack"}])
def test_what_is_no_question_wants_no_answer(fields: dict[str, Any]) -> None:
    assert not parse_message_row(row(**fields)).wants_answer


@given(ANY_JSON)
def test_any_body_is_read_without_harm(body: Any) -> None:
    assert parse_message_row(row(request_body=body)).id == "a-1"
    assert parse_pushed_message(body, id="a-2", attempt=1).id == "a-2"


@given(ANY_JSON)
def test_any_card_of_a_peer_is_read_without_harm(card: Any) -> None:
    assert parse_peer_row(peer_row(agent_card=card), "me", None).name == "Ada"


def test_the_place_of_a_peer_comes_from_the_tree() -> None:
    rows = (peer_row(), peer_row(parent_id="top"), peer_row(parent_id=None), peer_row(id="top", parent_id=None))
    assert [parse_peer_row(each, "me", "top").place for each in rows] == ["below", "beside", "beside", "above"]


def test_the_words_of_a_peer_are_its_name_role_and_what_its_card_says() -> None:
    card = {"description": "Bakes", "skills": [{"id": "x-1", "name": "Bread", "tags": ["rolls"]}], "url": "secret"}
    found = parse_peer_row(peer_row(role="A baker", agent_card=card), "me", None)
    assert {"ada", "baker", "bak", "bread", "roll"} <= found.stems
    assert "secret" not in found.stems
    assert found.has_skills


@pytest.mark.parametrize("card", [None, "x", [], {}, {"skills": []}, {"skills": None}])
def test_a_peer_whose_card_names_no_skill_has_none(card: Any) -> None:
    assert not parse_peer_row(peer_row(agent_card=card), "me", None).has_skills


def test_every_agent_of_the_packaged_company_says_its_skills_and_words() -> None:
    cards = {place.seat.name: build_agent_card(place.seat) for place in list_company_workspaces(packaged_company())}
    assert all(card["skills"] for card in cards.values())
    assert "landing page" in cards["Backend"]["skills"][1]["tags"]
    found = parse_peer_row(peer_row(agent_card=cards["Backend"]), "me", None)
    assert significant_stems("the logins") <= found.stems
