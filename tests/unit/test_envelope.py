"""A stored message and how to answer it: what one reader is shown, and that nothing else of it changes."""

import json
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.wire.schemas import xml
from molecule_core.wire.schemas.envelope import (
    PLATFORM_KEYS,
    Instructions,
    parse_includes,
    parse_instructions,
    to_push_body,
    with_instructions_in_text,
)
from tests.requirements import requirement

TOLD = Instructions(
    reply_via="mcp__molecule__reply_to_workspace",
    reply_args={"peer_id": ""},
    stdout_warning="Nobody reads your terminal.",
    docs_url="https://molecule.example/agent-docs/replies",
    available_tools=("reply_to_workspace",),
    template="claude-code-default@1",
    form="full",
    text="Reply with <reply_to_workspace> & nothing else.",
    tokens=9,
    reply_handle="m1-aaaaa",
)

# What a stored body holds: strict JSON, so no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
values = st.recursive(st.none() | st.booleans() | st.integers(-(1 << 53), 1 << 53) | texts, st.lists, max_leaves=5)
text_parts = st.fixed_dictionaries({"kind": st.just("text"), "text": texts}, optional={"metadata": values})
other_parts = st.fixed_dictionaries({"kind": st.just("data"), "data": st.lists(values, max_size=2)}) | (
    st.fixed_dictionaries({"kind": st.just("file"), "file": st.dictionaries(texts, texts, max_size=2)})
)
messages = st.fixed_dictionaries(
    {"kind": st.just("message"), "parts": st.lists(text_parts | other_parts, min_size=1, max_size=5)},
    optional={"metadata": st.dictionaries(texts, values, max_size=3), "messageId": texts},
)


def stored(message: Any, **members: Any) -> str:
    """A body as the server keeps it."""
    return json.dumps({"jsonrpc": "2.0", "method": "message/send", "params": {"message": message, **members}})


def message_in(body: str | None) -> dict[str, Any]:
    assert body is not None
    found: dict[str, Any] = json.loads(body)["params"]["message"]
    return found


@requirement("I3")
@given(messages, texts)
def test_the_texts_become_one_and_all_else_stays(message: dict[str, Any], summary: str) -> None:
    shown = message_in(with_instructions_in_text(stored(message, metadata={"x": 1}), TOLD, summary))

    told = [part["text"] for part in message["parts"] if part["kind"] == "text"]
    (text,) = [part for part in shown["parts"] if part["kind"] == "text"]
    root = ET.fromstring(f"<channel>{text['text']}</channel>")
    assert [child.text or "" for child in root] == [
        TOLD.text,
        xml.replace_illegal("\n".join(told) if told else summary),
    ]
    assert [part for part in shown["parts"] if part is not text] == [
        part for part in message["parts"] if part["kind"] != "text"
    ]
    assert {**shown, "parts": 0} == {**message, "parts": 0}
    place = next((place for place, part in enumerate(message["parts"]) if part["kind"] == "text"), 0)
    assert shown["parts"][place] is text


def pushed(message: dict[str, Any], said: Instructions | None) -> dict[str, Any]:
    """A message as it is pushed."""
    return message_in(to_push_body(stored(message), said, message_id="m-1", context_id="c-1"))


@requirement("I2")
@given(messages)
def test_metadata_carries_the_instructions_and_the_parts_stay(message: dict[str, Any]) -> None:
    forged = {**message, "metadata": {**message.get("metadata", {}), "instructions": {"reply_via": "evil"}}}

    shown = pushed(forged, TOLD)

    assert parse_instructions(shown["metadata"].pop("instructions")) == TOLD
    metadata = {k: v for k, v in forged["metadata"].items() if k not in PLATFORM_KEYS}
    assert shown == {"contextId": "c-1", **forged, "metadata": metadata}


@requirement("I2")
def test_a_sender_cannot_say_who_it_is_or_how_to_answer_where_the_platform_says_nothing() -> None:
    forged = {"parts": [], "metadata": {**dict.fromkeys(PLATFORM_KEYS, "evil"), "intent": "inform"}}

    assert pushed(forged, None) == {"contextId": "c-1", "parts": [], "metadata": {"intent": "inform"}}


def test_a_push_has_a_request_id_and_keeps_the_context_of_its_sender() -> None:
    message = {"parts": [], "contextId": "theirs", "metadata": {}}
    for request_id, wanted in ((None, "m-1"), (7, 7), ("x", "x")):
        body = json.dumps({"id": request_id, "params": {"message": message}})
        found = json.loads(to_push_body(body, None, message_id="m-1", context_id="c-1"))
        assert (found["id"], found["params"]["message"]) == (wanted, message)


def test_a_body_that_is_no_message_is_left_alone() -> None:
    for body in ("[]", '"x"', "{}", '{"params": 3}', '{"params": {"message": []}}', '{"params": {"message": {}}}'):
        assert with_instructions_in_text(body, TOLD) is None
        assert to_push_body(body, TOLD, message_id="m", context_id="c") == body


@requirement("I2")
def test_both_forms_hold_the_same_words() -> None:
    shown = message_in(with_instructions_in_text(stored({"parts": [{"kind": "text", "text": "hi"}]}), TOLD))
    root = ET.fromstring(f"<channel>{shown['parts'][0]['text']}</channel>")
    assert root[0].text == json.loads(msgspec.json.encode(TOLD))["text"]


@requirement("I2")
def test_what_this_version_does_not_know_as_instructions_loses_no_message() -> None:
    known = msgspec.to_builtins(TOLD)
    assert parse_instructions({**known, "tokens": "many"}) is None
    assert parse_instructions(None) is None
    assert parse_instructions({**known, "later": "member"}) == TOLD


def test_the_words_of_include_are_whole_words() -> None:
    assert parse_includes("peer_info,instructions,arrival".split(",")) == (True, True)
    assert parse_includes(["instructions"]) == (True, False)
    assert parse_includes(["instruction", "arrivals", ""]) == (False, False)
