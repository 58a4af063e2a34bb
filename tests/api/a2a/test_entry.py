"""How a message comes in: what is filled for older clients, what is refused, and what a version demands."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.errors import InvalidMessage, UnknownMethod
from molecule_core.common.limits import Limits
from molecule_core.wire.protocols import a2a
from molecule_core.wire.protocols.a2a import SendRequest
from testing.step_counts import examples
from tests.requirements import requirement

LIMITS = Limits()
FILE = {"kind": "file", "file": {"uri": "https://files.example/a.txt"}}
TEXT = {"kind": "text", "text": "hello"}


def body_of(**message: Any) -> dict[str, Any]:
    """A regular request, but for the members of its message that are given."""
    regular = {"kind": "message", "role": "user", "messageId": "m-1", "parts": [dict(TEXT)]}
    return {"jsonrpc": "2.0", "id": 7, "method": "message/send", "params": {"message": {**regular, **message}}}


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    """The request without one member of its message."""
    message = {key: value for key, value in body["params"]["message"].items() if key != name}
    return {**body, "params": {**body["params"], "message": message}}


def read(body: Any, *, strict: bool = False, **limits: int) -> SendRequest:
    return a2a.parse_send(body, strict=strict, limits=Limits(**limits))


@requirement("M12")
def test_a_regular_request_passes_as_it_is() -> None:
    for strict in (False, True):
        send = read(body_of(contextId="c-1", metadata={"x": 1}), strict=strict)
        assert (send.rpc_id, send.message_id, send.context_id) == (7, "m-1", "c-1")
        assert (send.text, send.intent) == ("hello", "request")
        assert send.message == {**body_of(contextId="c-1", metadata={"x": 1})["params"]["message"]}
        assert send.params == {"message": send.message, "metadata": {}}


# -- what is tolerated without a version -------------------------------------------------------------------------------


@requirement("M12")
def test_the_barest_request_is_made_regular() -> None:
    send = read({"params": {"message": {"content": "hello"}}})
    assert send.message == {"kind": "message", "role": "user", "parts": [TEXT], "metadata": {}}
    assert (send.rpc_id, send.message_id, send.context_id) == (None, None, None)
    assert (send.text, send.intent) == ("hello", "request")


@requirement("M12")
@pytest.mark.parametrize(
    ("part", "kept"),
    [
        ({"type": "text", "text": "a"}, {"kind": "text", "text": "a"}),
        ({"text": "a"}, {"kind": "text", "text": "a"}),
        ({"kind": None, "text": "a"}, {"kind": "text", "text": "a"}),
        ({"type": "text", "kind": "text", "text": "a"}, {"kind": "text", "text": "a"}),
        ({"kind": "text", "type": "file", "text": "a"}, {"kind": "text", "text": "a"}),
        ({"type": "file", "file": {"uri": "u"}}, {"kind": "file", "file": {"uri": "u"}}),
        ({"type": "data", "data": {"a": 1}}, {"kind": "data", "data": {"a": 1}}),
        ({"type": "data", "data": [1]}, {"kind": "data", "data": [1]}),
        ({"text": "a", "metadata": {"x": 1}}, {"kind": "text", "text": "a", "metadata": {"x": 1}}),
    ],
)
def test_a_part_with_type_or_kind_gets_a_kind(part: dict[str, Any], kept: dict[str, Any]) -> None:
    assert read(body_of(parts=[part])).message["parts"] == [kept]


@requirement("M12")
@pytest.mark.parametrize("missing", ["role", "messageId", "kind"])
def test_a_missing_member_of_a_message_is_filled(missing: str) -> None:
    send = read(without(body_of(), missing))
    assert (send.message["kind"], send.message["role"]) == ("message", "user")
    assert send.message_id == (None if missing == "messageId" else "m-1")


@requirement("M12")
@pytest.mark.parametrize("missing", ["jsonrpc", "method", "id"])
def test_a_missing_member_of_the_envelope_is_filled(missing: str) -> None:
    send = read({key: value for key, value in body_of().items() if key != missing})
    assert send.text == "hello"
    assert send.rpc_id == (None if missing == "id" else 7)


@requirement("M12")
def test_a_content_text_becomes_a_part_and_leaves() -> None:
    assert read(without(body_of(content="hi"), "parts")).message["parts"] == [{"kind": "text", "text": "hi"}]
    both = read(body_of(content="hi"))
    assert both.message["parts"] == [TEXT]
    assert "content" not in both.message


@requirement("M12")
@pytest.mark.parametrize("empty", [None, ""])
def test_an_empty_id_counts_as_none_without_a_version(empty: str | None) -> None:
    send = read(body_of(messageId=empty, contextId=empty))
    assert (send.message_id, send.context_id) == (None, None)
    assert {"messageId", "contextId"}.isdisjoint(send.message)


@requirement("M12")
@pytest.mark.parametrize("role", ["user", "agent"])
@pytest.mark.parametrize("strict", [False, True])
def test_both_roles_are_kept_as_they_are(role: str, strict: bool) -> None:
    assert read(body_of(role=role), strict=strict).message["role"] == role


@requirement("M12")
def test_unknown_members_travel_on_in_message_and_params() -> None:
    body = body_of(referenceTaskIds=["t"])
    body["params"]["configuration"] = {"blocking": True}
    send = read(body)
    assert send.message["referenceTaskIds"] == ["t"]
    assert send.params["configuration"] == {"blocking": True}


@requirement("M12")
@pytest.mark.parametrize("odd", [{"content": "x"}, {"messageId": ""}, {"parts": [{"type": "text", "text": ""}]}])
def test_making_regular_leaves_the_body_of_the_caller_alone(odd: dict[str, Any]) -> None:
    body = body_of(**odd)
    before = repr(body)
    first = read(body)
    assert repr(body) == before
    assert read(body) == first


@requirement("M12")
def test_a_regular_message_read_again_is_the_same() -> None:
    odd = {"params": {"message": {"content": "a", "metadata": {"intent": "inform"}, "contextId": "c"}}}
    once = read(odd)
    twice = read({"method": "message/send", "params": once.params})
    assert (twice.message, twice.params, twice.text, twice.intent) == (once.message, once.params, "a", "inform")


@requirement("M11")
@pytest.mark.parametrize("intent", ["request", "inform", "ack"])
def test_the_intent_of_a_message_is_taken_from_its_metadata(intent: str) -> None:
    assert read(body_of(metadata={"intent": intent})).intent == intent


# -- what is refused ---------------------------------------------------------------------------------------------------


@requirement("M12", "M15")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "the body is not a JSON-RPC request"),
        ([body_of()], "the body is not a JSON-RPC request"),
        ("message/send", "the body is not a JSON-RPC request"),
        ({**body_of(), "params": None}, "params is missing or not an object"),
        ({**body_of(), "params": [1]}, "params is missing or not an object"),
        ({**body_of(), "params": {}}, "params.message is missing or not an object"),
        ({**body_of(), "params": {"message": "hello"}}, "params.message is missing or not an object"),
        (
            {**body_of(), "params": {**body_of()["params"], "metadata": "x"}},
            "params.metadata is missing or not",
        ),
        (body_of(metadata="x"), "params.message.metadata is missing or not an object"),
        (body_of(metadata={"intent": "command"}), "intent has an unknown value. Use one of: request, inform, ack"),
        (body_of(metadata={"intent": ["ack"]}), "intent has an unknown value"),
        (body_of(role="system"), 'role is missing or has another value. Use "user" or "agent"'),
        (body_of(role=["user"]), 'role is missing or has another value. Use "user" or "agent"'),
        (body_of(parts=None), "parts is missing or empty"),
        (body_of(parts=[]), "parts is missing or empty. Send a list with at least one"),
        (body_of(parts={"kind": "text"}), "parts is missing or empty"),
        (body_of(parts=["hello"]), "a part of the message is not an object"),
        (body_of(parts=[TEXT, None]), "a part of the message is not an object"),
        (body_of(parts=[{}]), "the kind of a part has an unknown value. Use one of: text, file, data"),
        (
            body_of(parts=[{"kind": "image", "image": {}}]),
            "the kind of a part has an unknown value. Use one of: text, file, data",
        ),
        (body_of(parts=[{"kind": ["text"], "text": "a"}]), "the kind of a part has an unknown value"),
        (body_of(parts=[{"kind": "text"}]), "a text part has no valid content. Send its content under 'text'"),
        (body_of(parts=[{"kind": "text", "text": 7}]), "a text part has no valid content"),
        (body_of(parts=[{"kind": "file", "file": "u"}]), "a file part has no valid content"),
        (body_of(parts=[{"kind": "file", "text": "a"}]), "a file part has no valid content"),
        (body_of(parts=[{"kind": "data", "data": "a"}]), "a data part has no valid content"),
        (body_of(messageId=7), "messageId is not valid"),
        (body_of(messageId="a b"), "messageId is not valid"),
        (body_of(messageId="m\n"), "messageId is not valid"),
        (body_of(messageId={"a": 1}), "messageId is not valid"),
        (body_of(contextId="ü"), "contextId is not valid"),
        (body_of(contextId=False), "contextId is not valid"),
    ],
)
def test_an_irregular_request_is_refused_with_its_reason(body: Any, reason: str, strict: bool) -> None:
    with pytest.raises(InvalidMessage, match=reason):
        read(body, strict=strict)


@requirement("M12", "M15")
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("method", ["message/stream", "tasks/get", "", None, 7, ["message/send"], "Message/Send"])
def test_another_method_is_refused_by_its_name(method: Any, strict: bool) -> None:
    with pytest.raises(UnknownMethod) as refusal:
        read({**body_of(), "method": method}, strict=strict)
    assert repr(method) in refusal.value.text


# -- a client that names its version is held to it ---------------------------------------------------------------------


@requirement("M12")
@pytest.mark.parametrize(
    "body",
    [
        {key: value for key, value in body_of().items() if key != "jsonrpc"},
        {**body_of(), "jsonrpc": "1.0"},
        {**body_of(), "jsonrpc": 2.0},
        without(body_of(), "role"),
        without(body_of(), "messageId"),
        body_of(messageId=""),
        body_of(messageId=None),
        without(body_of(content="hello"), "parts"),
        body_of(parts=[{"type": "text", "text": "a"}]),
        body_of(parts=[{"text": "a"}]),
    ],
)
def test_what_older_clients_may_a_versioned_client_may_not(body: dict[str, Any]) -> None:
    assert read(body).message["parts"]
    with pytest.raises(InvalidMessage):
        read(body, strict=True)


@requirement("M12")
def test_a_versioned_client_must_name_its_method() -> None:
    body = {key: value for key, value in body_of().items() if key != "method"}
    assert read(body).text == "hello"
    with pytest.raises(UnknownMethod):
        read(body, strict=True)


# -- limits ------------------------------------------------------------------------------------------------------------


@requirement("M15", "S14")
@pytest.mark.parametrize("limit", [1, 3, LIMITS.parts])
def test_a_message_holds_at_most_so_many_parts(limit: int) -> None:
    assert len(read(body_of(parts=[TEXT] * limit), parts=limit).message["parts"]) == limit
    with pytest.raises(InvalidMessage, match=f"a message cannot have {limit + 1} parts. Use at most {limit}"):
        read(body_of(parts=[TEXT] * (limit + 1)), parts=limit)


@requirement("M15", "S14")
def test_a_message_holds_at_most_so_many_files() -> None:
    most = LIMITS.attachments
    assert most == 10
    assert len(read(body_of(parts=[*[FILE] * most, *[TEXT] * 5])).message["parts"]) == most + 5
    typed = {"type": "file", "file": {}}
    for parts in ([FILE] * (most + 1), [TEXT, *[typed] * (most + 1)], [*[FILE, TEXT] * most, FILE]):
        with pytest.raises(InvalidMessage, match="cannot have more than 10 files"):
            read(body_of(parts=parts))


@requirement("M15", "S14")
@examples(200)
@given(st.text(st.sampled_from("aüहो😀\n"), min_size=1, max_size=40), st.integers(1, 100))
def test_a_text_is_measured_in_bytes_and_not_in_characters(text: str, limit: int) -> None:
    if len(text.encode()) <= limit:
        assert read(body_of(parts=[{"kind": "text", "text": text}]), text_bytes=limit).text == text
    else:
        with pytest.raises(InvalidMessage, match=f"the text is larger than the limit of {limit} bytes"):
            read(body_of(parts=[{"kind": "text", "text": text}]), text_bytes=limit)


@requirement("M15", "S14")
@pytest.mark.parametrize(("letter", "size"), [("a", 1), ("ü", 2), ("€", 3), ("😀", 4)])
def test_the_longest_text_is_taken_and_one_byte_more_is_not(letter: str, size: int) -> None:
    full = letter * (LIMITS.text_bytes // size)
    full += "a" * (LIMITS.text_bytes - len(full.encode()))
    assert read(body_of(parts=[{"kind": "text", "text": full}])).text == full
    for parts in (
        [{"kind": "text", "text": full + "a"}],
        [{"kind": "text", "text": full}, {"kind": "text", "text": ""}],
    ):
        with pytest.raises(InvalidMessage, match="Shorten it, or send a file"):
            read(body_of(parts=parts))
    with pytest.raises(InvalidMessage, match="Shorten it, or send a file"):
        read({"params": {"message": {"content": full + "a"}}})


@requirement("M12")
def test_the_text_of_a_message_is_its_texts_and_its_data_as_json() -> None:
    data = {"kind": "data", "data": {"size": 7}}
    assert read(body_of(parts=[TEXT, FILE, {"text": "you"}, data])).text == 'hello\nyou\n{"size":7}'
    assert read(body_of(parts=[FILE])).text == ""


@requirement("M15", "S14")
@pytest.mark.parametrize("name", ["messageId", "contextId"])
@pytest.mark.parametrize("strict", [False, True])
def test_an_id_is_taken_up_to_its_length(name: str, strict: bool) -> None:
    assert read(body_of(**{name: "A9._:-" + "x" * 122}), strict=strict).message[name] == "A9._:-" + "x" * 122
    with pytest.raises(InvalidMessage, match=f"{name} is not valid. Use at most 128 characters of A-Z"):
        read(body_of(**{name: "x" * 129}), strict=strict)


# -- answers -----------------------------------------------------------------------------------------------------------


@requirement("M15")
@pytest.mark.parametrize(
    ("body", "rpc_id"),
    [
        ({"id": 7}, 7),
        ({"id": "a"}, "a"),
        ({"id": 0}, 0),
        ({"id": ""}, ""),
        ({"id": None}, None),
        ({"id": True}, None),
        ({"id": 1.5}, None),
        ({"id": [1]}, None),
        ({"id": {}}, None),
        ({}, None),
        ([], None),
        ("id", None),
        (None, None),
    ],
)
def test_only_a_usable_rpc_id_is_answered_under(body: Any, rpc_id: Any) -> None:
    found = a2a.rpc_id_of(body)
    assert (found, type(found)) == (rpc_id, type(rpc_id))


@requirement("M15")
@pytest.mark.parametrize(
    ("body", "is_one"),
    [
        ({"jsonrpc": "2.0"}, True),
        ({"method": "x"}, True),
        ({"params": {}}, False),
        ({}, False),
        (["jsonrpc"], False),
        ("jsonrpc", False),
        (None, False),
    ],
)
def test_an_envelope_is_known_by_its_version_or_method(body: Any, is_one: bool) -> None:
    assert a2a.is_jsonrpc(body) is is_one


@requirement("M14", "W1")
def test_the_queued_answer_is_json_rpc_and_has_the_older_keys() -> None:
    answer = a2a.queued_response(7, activity_id="a-1", context_id="c-1", at="2026-01-01T00:00:00.000000Z")
    older = {"status": "queued", "delivery_mode": "poll", "method": "message/send", "activity_id": "a-1"}
    assert answer.items() >= {"jsonrpc": "2.0", "id": 7, **older}.items()
    assert answer["result"] == {
        "kind": "task",
        "id": "a-1",
        "contextId": "c-1",
        "status": {"state": "submitted", "timestamp": "2026-01-01T00:00:00.000000Z"},
    }


@requirement("M15")
def test_a_refusal_speaks_json_rpc_with_our_reason_in_it() -> None:
    answer = a2a.rpc_error_response("x", -32602, "that was wrong", "invalid_message")
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", "x")
    assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, "that was wrong")
    assert answer["error"]["data"][0]["reason"] == "INVALID_MESSAGE"
    assert "result" not in answer
