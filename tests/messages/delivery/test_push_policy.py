"""What an agent's answer means, when to try again, what may go out, whose turn it is."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.limits import Limits
from molecule_core.messages.delivery import push_policy
from molecule_core.messages.delivery.push_policy import (
    MAX_BACKOFF_SECONDS,
    FairScheduler,
    backoff_delay,
    classify_response,
    select_pushable,
)
from molecule_core.messages.delivery_state import AgentReply, PushCandidate, PushCapacity, PushResult, ReplyKind
from tests.requirements import requirement

DEPTH = 32
FULL = (1 << push_policy.jitter_bits()) - 1
NOW = 1000


def judged(status: int, body: bytes = b"{}", **headers: str) -> PushResult:
    return classify_response(
        status, {name.replace("_", "-"): value for name, value in headers.items()}, body, max_depth=DEPTH
    )


# -- answers -----------------------------------------------------------------------------------------------------------


@requirement("M21", "M22")
@pytest.mark.parametrize("status", [429, 503])
def test_an_agent_without_time_is_busy_which_is_no_failure(status: int) -> None:
    assert judged(status) == PushResult(busy=True, error=f"busy (HTTP {status})")
    assert judged(status, retry_after="7").retry_after == 7
    assert judged(status, retry_after="99999999").retry_after == MAX_BACKOFF_SECONDS
    for nonsense in ("soon", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", "9" * 5000, ""):
        assert judged(status, retry_after=nonsense).retry_after is None


@requirement("M22")
@pytest.mark.parametrize("status", [200, 202, 500, 404])
def test_a_body_may_say_busy_whatever_the_status(status: int) -> None:
    assert judged(status, b'{"busy":true,"retry_after":9}') == PushResult(busy=True, error="busy", retry_after=9)
    assert not judged(status, b'{"busy":"true"}').busy


@requirement("M21")
@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (rb"caf\ud83d", "caf\ufffd"),
        (rb"\udc00 end", "\ufffd end"),
        (rb"\ud83d\ude00 whole", "\U0001f600 whole"),
        (rb"a\u0000b", "a\ufffdb"),
        (rb"a\\ud83d", "a\\ud83d"),
        (b"\xed\xa0\xbd half", "\ufffd half"),
    ],
)
def test_an_answer_is_not_lost_for_one_character(sent: bytes, kept: str) -> None:
    result = judged(200, b'\xef\xbb\xbf{"result":"' + sent + b'"}')
    assert result.error is None
    assert msgspec.json.decode(result.answer or "") == {"result": kept}


@requirement("M21")
def test_any_json_with_a_2xx_is_an_answer_also_an_error_of_json_rpc() -> None:
    for body in (b'{"result":1}', b'{"error":{"code":1,"message":"no"}}', b"[1]", b"null"):
        assert judged(200, body) == PushResult(answer=body.decode())
    assert judged(204, b"") == PushResult(answer="{}")
    assert judged(202, b" \n") == PushResult(answer="{}")


@requirement("M21")
@pytest.mark.parametrize(
    ("status", "refused"),
    [(300, True), (302, True), (400, True), (404, True), (410, True), (408, False), (425, False), (500, False)],
)
def test_what_will_not_pass_is_a_refusal_and_what_may_pass_is_not(status: int, refused: bool) -> None:
    found = judged(status, b'{"error":"no"}')
    assert (found.refused, found.error, found.answer) == (refused, f"HTTP {status}: no", None)


@given(status=st.integers(100, 599), body=st.binary(max_size=60), header=st.text(max_size=10))
def test_no_answer_at_all_breaks_the_judge(status: int, body: bytes, header: str) -> None:
    found = classify_response(status, {"retry-after": header}, body, max_depth=DEPTH)
    assert (found.answer is None) != (found.error is None)


@given(
    answer=st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["result", "error", "parts", "artifacts", "status", "message", "text", "kind"]), inner
            )
        ),
    )
)
def test_whatever_an_agent_answers_can_be_told_to_its_sender(answer: object) -> None:
    text = msgspec.json.encode(answer).decode()
    told = msgspec.json.decode(push_policy.to_rpc_response(7, text))
    assert told["id"] == 7
    assert "result" in told or "error" in told
    found = push_policy.parse_message_reply(text, Limits())
    assert (found.kind is ReplyKind.ACCEPTED) == (found == AgentReply(ReplyKind.ACCEPTED))
    assert all(part[part["kind"]] for part in found.parts)
    assert isinstance(push_policy.answer_error_text(text), str | None)


@requirement("M14")
def test_the_words_of_an_answer_are_those_of_its_message_its_artifacts_or_its_status() -> None:
    part = {"kind": "text", "text": "hi"}
    for result in ({"parts": [part]}, {"artifacts": [{"parts": [part]}]}, {"status": {"message": {"parts": [part]}}}):
        assert _replied({"result": result}) == AgentReply(ReplyKind.ANSWERED, "hi", (part,))
        for wrapped in ({"message": result}, {"task": {"kind": "task", **result}}):
            assert _replied({"result": wrapped}) == AgentReply(ReplyKind.ANSWERED, "hi", (part,))
    assert _replied({"result": {"kind": "task", "status": {"state": "submitted"}}}) == AgentReply(ReplyKind.ACCEPTED)


def _replied(answer: object, limits: Limits | None = None) -> AgentReply:
    return push_policy.parse_message_reply(msgspec.json.encode(answer).decode(), limits or Limits())


@requirement("M14")
@pytest.mark.parametrize(
    ("answer", "said", "text"),
    [
        ({"result": "ok"}, ReplyKind.ACCEPTED, ""),
        ("ok", ReplyKind.ACCEPTED, ""),
        ({"error": "boom"}, ReplyKind.ERROR, "boom"),
        ({"result": {"parts": [{"type": "output_text", "text": "hi"}]}}, ReplyKind.ANSWERED, "hi"),
        ({"result": {"parts": [{"text": "hi"}], "task": {"id": "t"}}, "error": {}}, ReplyKind.ANSWERED, "hi"),
        ({"error": {"code": 1, "message": "boom"}}, ReplyKind.ERROR, "boom"),
        ({"error": {"code": 1}}, ReplyKind.ERROR, "the agent responded with an error"),
        ({"result": {"status": {"state": "TASK_STATE_FAILED"}}}, ReplyKind.ERROR, "its task has failed"),
        ({"result": {"task": {"status": {"state": "rejected"}}}}, ReplyKind.DECLINED, "its task was rejected"),
        ({"result": {"status": {"state": "completed"}}}, ReplyKind.ACCEPTED, ""),
        ({"result": ""}, ReplyKind.ACCEPTED, ""),
        ({"ok": True}, ReplyKind.ACCEPTED, ""),
        ([], ReplyKind.ACCEPTED, ""),
    ],
)
def test_what_is_said_in_other_forms_is_an_answer_too(answer: object, said: ReplyKind, text: str) -> None:
    found = _replied(answer)
    assert (found.kind, found.text) == (said, text)


@requirement("M14")
def test_words_of_a_task_that_goes_on_or_has_failed_are_kept() -> None:
    part = {"kind": "text", "text": "which one?"}
    for state, said in (
        ("input-required", ReplyKind.ASKED),
        ("working", ReplyKind.ANSWERED),
        ("failed", ReplyKind.ERROR),
    ):
        status = {"state": state, "message": {"parts": [part]}}
        assert _replied({"result": {"kind": "task", "status": status}}) == AgentReply(said, "which one?", (part,))


@requirement("M14", "M15")
def test_of_an_answer_that_is_larger_than_a_message_that_is_said() -> None:
    limits = Limits(body_bytes=200)
    found = _replied({"result": {"parts": [{"kind": "data", "data": ["x" * 300]}]}}, limits)
    assert (found.kind, found.parts[0]["kind"]) == (ReplyKind.ANSWERED, "text")
    assert "exceeds the size limit of a message" in found.text


# -- back-off ----------------------------------------------------------------------------------------------------------


@requirement("M21")
@given(tries=st.integers(1, 100), bits=st.integers(0, FULL))
def test_a_wait_lies_between_a_second_and_five_minutes(tries: int, bits: int) -> None:
    assert 1 <= backoff_delay(tries, bits) <= min(2**tries, MAX_BACKOFF_SECONDS)


@requirement("M21")
def test_waits_grow_and_the_jitter_spreads_them_over_all_of_it() -> None:
    assert [backoff_delay(tries, FULL) for tries in range(1, 11)] == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert [backoff_delay(tries, 0) for tries in range(1, 11)] == [1] * 10


# -- what may go out ---------------------------------------------------------------------------------------------------


def fresh(seq: int) -> PushCandidate:
    return PushCandidate(seq, seq, 0, 0, 0, 0, 0)


def flying(seq: int, until: int = NOW + 5) -> PushCandidate:
    return PushCandidate(seq, seq, 1, until, 0, 0, 0)


def waits(seq: int, until: int = NOW + 9, *, busy: bool = False, noted: int = NOW - 1) -> PushCandidate:
    return PushCandidate(seq, seq, 1, noted, until, int(busy), noted)


def gone_out(heads: list[PushCandidate], room: PushCapacity) -> tuple[list[int], int | None]:
    taken, look_at = select_pushable(heads, room, NOW)
    return [each.seq for each in taken], look_at


@requirement("M22")
def test_what_is_under_way_takes_a_place_and_so_does_what_the_agent_says_itself() -> None:
    heads = [flying(1), fresh(2), fresh(3), fresh(4)]
    assert gone_out(heads, PushCapacity(max_concurrent=3, max_new=9)) == ([2, 3], NOW + 5)
    assert gone_out(heads, PushCapacity(max_concurrent=3, max_new=9, active=2)) == ([2], NOW + 5)
    assert gone_out(heads, PushCapacity(max_concurrent=3, max_new=9, active=7)) == ([], NOW + 5)
    assert gone_out(heads, PushCapacity(max_concurrent=3, max_new=1)) == ([2], NOW)
    assert gone_out([fresh(1)], PushCapacity(max_concurrent=0, max_new=0)) == ([], None)


@requirement("M21", "M22")
def test_what_waits_for_its_next_try_holds_up_all_behind_it() -> None:
    heads = [flying(1), waits(2), fresh(3)]
    assert gone_out(heads, PushCapacity(max_concurrent=9, max_new=9)) == ([], NOW + 9)
    assert gone_out([fresh(1), *heads[1:]], PushCapacity(max_concurrent=9, max_new=9)) == ([1], NOW + 9)
    assert gone_out([waits(2, NOW), fresh(3)], PushCapacity(max_concurrent=1, max_new=9)) == ([2], None)
    assert gone_out([flying(1, NOW), fresh(2)], PushCapacity(max_concurrent=1, max_new=9)) == ([1], None)


@requirement("M22")
def test_an_agent_that_has_time_again_or_is_well_again_need_not_wait() -> None:
    assert gone_out([waits(1, busy=True)], PushCapacity(max_concurrent=1, max_new=1, free_since=NOW)) == ([1], None)
    assert gone_out([waits(1, busy=False)], PushCapacity(max_concurrent=1, max_new=1, free_since=NOW)) == ([], NOW + 9)
    assert gone_out([waits(1, noted=NOW, busy=True)], PushCapacity(max_concurrent=1, max_new=1, free_since=NOW)) == (
        [],
        NOW + 9,
    )
    assert gone_out([waits(1)], PushCapacity(max_concurrent=1, max_new=1, healthy_since=NOW)) == ([1], None)


# -- turns -------------------------------------------------------------------------------------------------------------


def drained(line: FairScheduler, full: frozenset[str] = frozenset()) -> list[str]:
    found = []
    while turn := line.next_target(full):
        found.append(turn[1])
    return found


@requirement("M23")
def test_a_flooding_organisation_gets_every_other_turn_and_no_more() -> None:
    line = FairScheduler()
    for number in range(5):
        line.enqueue("flood", f"f{number}")
    for number in range(2):
        line.enqueue("calm", f"c{number}")
        line.enqueue("third", f"t{number}")
    assert drained(line) == ["f0", "c0", "t0", "f1", "c1", "t1", "f2", "f3", "f4"]
    assert len(line) == 0


@requirement("M23")
def test_nobody_stands_in_line_twice_and_a_full_organisation_keeps_its_place() -> None:
    line = FairScheduler()
    for org in ("a", "b", "a", "b"):
        line.enqueue(org, f"{org}1")
    line.enqueue("a", "a2")
    assert len(line) == 3
    assert drained(line, frozenset(("a",))) == ["b1"]
    assert "a1" in line
    assert drained(line) == ["a1", "a2"]
    assert "a1" not in line
