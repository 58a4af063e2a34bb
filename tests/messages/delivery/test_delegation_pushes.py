"""What an agent's answer to a push means for a delegation, and that it means to other messages what it always did."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.limits import Limits
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery.push_policy import (
    classify_failure,
    classify_response,
    is_queued,
    max_attempts,
    parse_delegation_reply,
    retry_delay,
    task_state,
)
from molecule_core.messages.delivery_state import PERMANENT_CODES, DeliveryFailure, PushResult, ReplyKind
from molecule_core.wire.schemas.activity import MessageKind
from tests.requirements import requirement

LIMITS = Limits(delegation_attempts=2, delegation_retry_seconds=8, delivery_attempts=12, refused_attempts=3)
BITS = 1 << 19
WORDS = [{"kind": "text", "text": "done"}]
_NAMES = (
    "result",
    "error",
    "parts",
    "artifacts",
    "status",
    "state",
    "message",
    "text",
    "kind",
    "type",
    "queued",
    "task",
)
_HELD: dict[str, Any] = {"text": str, "data": (dict, list), "file": dict}
_WORDS = ("queued", "working", "completed", "failed", "rejected", "TASK_STATE_WORKING", "text", "file", "data", "task")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from((*_NAMES, "file", "data")), inner),
    max_leaves=20,
)


def text_of(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def judged(status: int, **members: Any) -> PushResult:
    return classify_response(status, {}, msgspec.json.encode(members), max_depth=32)


def task(state: str, **more: Any) -> dict[str, Any]:
    return {"kind": "task", "id": "t", "status": {"state": state}, **more}


# -- what failed, and how ----------------------------------------------------------------------------------------------


@requirement("D8")
@pytest.mark.parametrize(
    ("status", "code"),
    [
        *[(status, "unreachable") for status in (408, 425, 500, 502, 504, 599)],
        *[(status, "refused") for status in (301, 302, 307, 400, 401, 403, 404, 410, 413, 422)],
    ],
)
def test_what_may_pass_is_told_from_what_will_not(status: int, code: str) -> None:
    found = judged(status, error="no")
    assert (found.code, found.busy, found.answer) == (code, False, None)
    assert max_attempts(MessageKind.DELEGATION, found, LIMITS) == (2 if code == "unreachable" else 1)


@requirement("D8")
def test_an_agent_that_restarts_is_not_busy_to_a_delegation_and_is_to_every_other_message() -> None:
    restarts = judged(503, error="soon", restarting=True)
    assert (restarts.busy, restarts.error, restarts.code) == (True, "busy (HTTP 503)", "unreachable")
    assert push_policy.failure_text(restarts) == "restarting (HTTP 503)"
    assert not push_policy.is_busy_result(MessageKind.DELEGATION, restarts) and push_policy.is_busy_result(
        MessageKind.USER, restarts
    )
    for busy in (
        judged(503, error="soon", waking=True, retry_after=15),
        judged(503, busy=True, restarting=True),
        judged(503, restarting="yes"),
        judged(429, restarting=True),
        judged(503),
        judged(200, busy=True),
    ):
        assert push_policy.is_busy_result(MessageKind.DELEGATION, busy) and busy.code == ""


@requirement("D8")
@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        (False, None, "unreachable"),
        (True, None, "unsure"),
        (True, 302, "refused"),
        (True, 413, "refused"),
        (True, 408, "unreachable"),
        (True, 500, "unreachable"),
        (True, 200, "bad_answer"),
        (True, 0, "bad_answer"),
        (True, 101, "bad_answer"),
    ],
)
def test_a_push_without_a_usable_answer_says_whether_it_may_be_done(sent: bool, status: int | None, code: str) -> None:
    found = classify_failure("why", sent=sent, status=status)
    assert found == PushResult(error="why", code=code, sent=sent)
    assert not found.refused  # other messages are tried on, as ever


@requirement("D8")
def test_an_answer_that_is_no_json_ends_a_delegation_at_once() -> None:
    found = classify_response(200, {}, b"<html>", max_depth=32)
    assert (found.code, max_attempts(MessageKind.DELEGATION, found, LIMITS)) == ("bad_answer", 1)
    assert max_attempts(MessageKind.USER, found, LIMITS) == 12


VERDICTS = st.builds(
    PushResult,
    error=st.just("no"),
    busy=st.booleans(),
    refused=st.booleans(),
    retry_after=st.none() | st.integers(1, 300),
    code=st.sampled_from(("", "unreachable", DeliveryFailure.UNSURE, *PERMANENT_CODES)),
)


@requirement("D8", "D17", "M21")
@given(
    verdict=VERDICTS,
    tries=st.integers(1, 20),
    counts=st.booleans(),
    kind=st.sampled_from((None, MessageKind.USER, "peer_agent")),
)
def test_no_message_of_another_kind_knows_of_any_of_this(
    verdict: PushResult, tries: int, counts: bool, kind: str | None
) -> None:
    assert max_attempts(kind, verdict, LIMITS) == (3 if verdict.refused else 12)
    assert push_policy.counts_as_failure(kind, verdict, failure_counts=counts) == (counts and not verdict.busy)
    pause = retry_delay(kind, tries, verdict, BITS, LIMITS, failure_counts=counts)
    assert pause == (verdict.retry_after or 30 if verdict.busy else push_policy.backoff_delay(tries, BITS))


@requirement("D8")
@given(verdict=VERDICTS, tries=st.integers(1, 20), counts=st.booleans())
def test_a_delegation_is_tried_twice_at_most_with_its_own_pause_and_busy_counts_as_nothing(
    verdict: PushResult, tries: int, counts: bool
) -> None:
    is_counted = push_policy.counts_as_failure(MessageKind.DELEGATION, verdict, failure_counts=counts)
    pause = retry_delay(MessageKind.DELEGATION, tries, verdict, BITS, LIMITS, failure_counts=counts)
    if verdict.busy and not verdict.code:
        assert not is_counted and pause == (verdict.retry_after or 30)
    elif verdict.code in PERMANENT_CODES:
        assert is_counted and max_attempts(MessageKind.DELEGATION, verdict, LIMITS) == 1
    else:
        assert is_counted == counts and max_attempts(MessageKind.DELEGATION, verdict, LIMITS) == 2
        assert pause == (8 if counts else push_policy.backoff_delay(tries, BITS))


# -- what was answered -------------------------------------------------------------------------------------------------


@requirement("D5")
@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *((state, ReplyKind.ACCEPTED) for state in ("submitted", "working", "TASK_STATE_WORKING", "new")),
        *((state, ReplyKind.ASKED) for state in ("input-required", "auth-required", "TASK_STATE_INPUT_REQUIRED")),
    ],
)
def test_a_task_that_has_not_ended_is_never_done_whatever_words_come_with_it(state: str, kind: ReplyKind) -> None:
    for result in (task(state), task(state, parts=WORDS), task(state, artifacts=[{"parts": WORDS}])):
        for answer in ({"jsonrpc": "2.0", "id": 1, "result": result}, result, {"result": {"task": result}}):
            assert is_queued(text_of(answer))
            found = parse_delegation_reply(text_of(answer), LIMITS)
            assert found.kind is kind and (kind is ReplyKind.ACCEPTED or found.text)


@requirement("D5")
@pytest.mark.parametrize(
    "answer",
    [
        {"status": "queued"},
        {"status": "queued", "delivery_mode": "poll", "method": "message/send"},
        {"queued": True, "queue_id": "q", "queue_depth": 1, "message": "your words are queued"},
        {"result": {"status": "queued", "parts": WORDS}},
        {"result": {"queued": True, "parts": WORDS}},
        {"queued": True, "result": {"parts": WORDS}},
        {"queued": True, "error": "busy, but queued"},
    ],
)
def test_a_queued_answer_is_told_by_its_shape(answer: dict[str, Any]) -> None:
    assert is_queued(text_of(answer))
    assert parse_delegation_reply(text_of(answer), LIMITS).kind is ReplyKind.ACCEPTED


@given(inner=JSON, queued=st.sampled_from([{"status": "queued"}, {"queued": True}]))
@requirement("D5")
def test_nothing_that_says_queued_is_ever_taken_for_an_end(inner: Any, queued: dict[str, Any]) -> None:
    for answer in ({"result": inner, **queued}, {**(inner if isinstance(inner, dict) else {}), **queued}):
        assert parse_delegation_reply(text_of(answer), LIMITS).kind is ReplyKind.ACCEPTED


@given(answer=JSON)
def test_whatever_an_agent_answers_is_heard_and_ends_a_delegation_only_with_something_to_show(answer: Any) -> None:
    text = text_of(answer)
    found = parse_delegation_reply(text, LIMITS)
    if found.kind is ReplyKind.ANSWERED:
        assert not is_queued(text) and any(part.get(part["kind"]) for part in found.parts)
    if found.kind in (ReplyKind.DECLINED, ReplyKind.ERROR):
        assert found.text
    for part in found.parts:
        assert isinstance(part[part["kind"]], _HELD[part["kind"]])
        assert "type" not in part
    assert task_state(text) is None or isinstance(task_state(text), str)


@requirement("D7")
def test_words_are_those_of_a_message_of_what_a_task_made_and_of_what_it_says() -> None:
    for result in (
        {"kind": "message", "parts": WORDS},
        {"message": {"role": "ROLE_AGENT", "parts": [{"text": "done"}]}},
        task("completed", artifacts=[{"parts": [{"type": "text", "text": "done"}]}]),
        task("completed", artifacts=[{"parts": WORDS}], history=[{"role": "agent", "parts": [{"text": "old"}]}]),
        {
            **task("completed", artifacts=[{"parts": WORDS}]),
            "status": {"state": "completed", "message": {"parts": WORDS}},
        },
        task(
            "completed",
            history=[
                {"role": "agent", "parts": [{"text": "old"}]},
                {"role": "ROLE_AGENT", "parts": [{"text": "done"}]},
                {"role": "user", "parts": [{"text": "sort"}]},
            ],
        ),
        {"task": {"status": {"state": "TASK_STATE_COMPLETED", "message": {"parts": [{"text": "done"}]}}}},
    ):
        for answer in ({"jsonrpc": "2.0", "result": result}, result):
            assert parse_delegation_reply(text_of(answer), LIMITS) == (ReplyKind.ANSWERED, "done", tuple(WORDS))


@requirement("D7")
def test_what_says_nothing_is_taken_and_not_done() -> None:
    nothing: list[Any] = [
        {},
        [],
        None,
        "ok",
        {"ok": True},
        {"result": None},
        {"result": {"parts": []}},
        {"result": "ok"},
    ]
    for answer in nothing:
        assert parse_delegation_reply(text_of(answer), LIMITS).kind is ReplyKind.ACCEPTED


@requirement("D7")
def test_what_has_no_understood_content_has_failed_with_the_reason() -> None:
    blank = [{"kind": "text", "text": " \n"}]
    for parts in (blank, [{"kind": "text", "text": ""}], [{"kind": "text"}], [{"kind": ["text"], "text": "x"}], [7]):
        for result in ({"parts": parts}, task("completed", artifacts=[{"parts": parts}])):
            found = parse_delegation_reply(text_of({"result": result}), LIMITS)
            assert (found.kind, "no content" in found.text) == (ReplyKind.ERROR, True)
    for result in (task("completed"), task("completed", history=[{"role": "user", "parts": WORDS}])):
        assert parse_delegation_reply(text_of({"result": result}), LIMITS).kind is ReplyKind.ERROR


@requirement("D7")
def test_parts_of_a2a_1_0_are_the_same_parts() -> None:
    parts = [
        {"data": {"rows": [1, 2]}, "mediaType": "application/json"},
        {"raw": "aGk=", "filename": "a.txt", "mediaType": "text/plain", "metadata": {"n": 1}},
        {"url": "https://x.example/f", "filename": ""},
    ]
    found = parse_delegation_reply(text_of({"result": {"message": {"role": "ROLE_AGENT", "parts": parts}}}), LIMITS)
    assert (found.kind, found.text) == (ReplyKind.ANSWERED, '{"rows":[1,2]}')
    assert found.parts[1:] == (
        {"kind": "file", "file": {"bytes": "aGk=", "name": "a.txt", "mimeType": "text/plain"}, "metadata": {"n": 1}},
        {"kind": "file", "file": {"uri": "https://x.example/f"}},
    )


@requirement("D8")
def test_an_error_and_a_task_that_failed_end_it_and_a_rejected_one_declines() -> None:
    said = {"message": {"parts": [{"kind": "text", "text": "not mine"}]}}
    for answer, text in (
        ({"error": {"code": -1, "message": "I cannot"}}, "I cannot"),
        ({"error": "I cannot"}, "I cannot"),
        ({"error": {}}, "the agent responded with an error"),
        ({"result": task("failed")}, "its task has failed"),
        ({"result": task("cancelled")}, "its task has been canceled"),
        ({"result": {"status": {"state": "TASK_STATE_FAILED", **said}}}, "not mine"),
    ):
        assert parse_delegation_reply(text_of(answer), LIMITS)[:2] == (ReplyKind.ERROR, text)
    for answer, text in (
        ({"result": {"status": {"state": "rejected", **said}}}, "not mine"),
        ({"result": task("rejected")}, "its task was rejected"),
    ):
        assert parse_delegation_reply(text_of(answer), LIMITS)[:2] == (ReplyKind.DECLINED, text)
    for nothing in (None, False, ""):
        assert (
            parse_delegation_reply(text_of({"error": nothing, "result": {"parts": WORDS}}), LIMITS).kind
            is ReplyKind.ANSWERED
        )


@requirement("D7")
@given(
    texts=st.lists(st.text(min_size=1, max_size=30), max_size=9),
    files=st.integers(0, 4),
    data=st.text(max_size=80),
)
def test_no_answer_is_larger_than_a_message_may_be(texts: list[str], files: int, data: str) -> None:
    limits = Limits(text_bytes=40, parts=8, attachments=2, body_bytes=400)
    parts: list[dict[str, Any]] = [{"kind": "text", "text": text} for text in texts]
    parts += [{"kind": "file", "file": {"uri": "https://x.example/f"}}] * files + [
        {"kind": "data", "data": {"d": data}}
    ]
    found = parse_delegation_reply(text_of({"result": {"parts": parts}}), limits)
    kept = [part for part in found.parts if part["kind"] == "text"]
    assert sum(len(part["text"].encode()) for part in kept) <= 40
    assert len(found.parts) <= 8 and sum(part["kind"] == "file" for part in found.parts) <= 2
    shown = [part for part in found.parts if part["kind"] == "data"]
    assert found.text == "\n".join([*(part["text"] for part in kept), *('{"d":' + text_of(data) + "}" for _ in shown)])
    assert all(whole.startswith(part["text"]) for whole, part in zip(texts, kept, strict=False))
    if len(found.parts) > len(kept):
        assert len(msgspec.json.encode(found.parts)) <= 400
