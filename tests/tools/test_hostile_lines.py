"""No input ends a session: whatever comes, the next honest request is answered."""

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testing.step_counts import examples
from tests.requirements import requirement
from tests.tools.mcp_session import Talk

_HONEST = {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": {"name": "list_peers", "arguments": {}}}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
METHODS = ("initialize", "ping", "tools/list", "tools/call", "server/discover", "notifications/cancelled", "x")


def near_misses() -> st.SearchStrategy[dict[str, Any]]:
    """Messages that look right at first sight."""
    return st.fixed_dictionaries(
        {},
        optional={
            "jsonrpc": st.just("2.0") | JSON,
            "id": st.integers() | st.text(max_size=5) | JSON,
            "method": st.sampled_from(METHODS) | JSON,
            "params": st.fixed_dictionaries(
                {},
                optional={
                    "name": st.sampled_from(["list_peers", "reply_to_workspace", "wait_for_message"]) | JSON,
                    "arguments": st.dictionaries(st.sampled_from(["text", "via_workspace", "limit"]), JSON) | JSON,
                    "_meta": st.dictionaries(
                        st.sampled_from(["progressToken", "io.modelcontextprotocol/protocolVersion"]), JSON
                    )
                    | JSON,
                    "requestId": JSON,
                    "protocolVersion": JSON,
                    "clientInfo": JSON,
                    "capabilities": JSON,
                },
            )
            | JSON,
            "result": JSON,
            "error": JSON,
        },
    )


async def check_still_answers(talk: Talk) -> None:
    """An honest request gets its answer, and nothing inside has broken."""
    talk.sent.clear()
    assert (await talk.ask("still here?", "ping"))["result"] == {}
    assert talk.faults == []


@requirement("G13", "S14")
@examples(1000)
@given(message=JSON | near_misses() | st.lists(near_misses(), max_size=3))
async def test_strange_messages_do_not_end_a_session(message: object) -> None:
    talk = Talk()
    await talk.session.receive(message)
    await check_still_answers(talk)
    await talk.session.close()


def _mutated(dice: random.Random) -> bytes:
    """An honest line with a few bytes changed, cut, doubled or swapped for others."""
    line = bytearray(msgspec.json.encode(_HONEST))
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(line) or 1)
        match dice.randrange(4):
            case 0:
                line[at:at] = bytes([dice.randrange(256)])
            case 1:
                del line[at : at + dice.randint(1, 9)]
            case 2:
                line[at : at + 1] = bytes([dice.randrange(256)])
            case _:
                line[at:at] = line[at : at + dice.randint(1, 30)]
    return bytes(line)


@requirement("G13", "S14")
async def test_a_thousand_broken_lines_do_not_end_a_session() -> None:
    dice, talk = random.Random(5), Talk()
    for _ in range(1000):
        await talk.session.receive_line(_mutated(dice))
    await check_still_answers(talk)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"\n",
        b"Content-Length: 52",
        b"\xff\xfe\x00",
        b"null",
        b"12",
        b'"text"',
        b"GET / HTTP/1.1",
    ],
)
async def test_a_line_that_is_no_message_is_passed_over_in_silence(line: bytes) -> None:
    talk = Talk()
    await talk.session.receive_line(line)
    assert talk.sent == []
    await check_still_answers(talk)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', -32700),
        (b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', -32700),
        (b'{"a":' * 5000 + b"1" + b"}" * 5000, -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b"[1]", -32600),
        (b'{"id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":123456789012345678901234567890,"method":"ping"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":7}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":["list_peers"]}}', -32602),
        (b'{"jsonrpc":"2.0","id":1,"method":"nothing/such"}', -32601),
        (b'{"jsonrpc":"2.0","id":1,"method":"__init__"}', -32601),
    ],
)
async def test_a_message_that_is_wrong_is_told_so_once(line: bytes, code: int) -> None:
    talk = Talk()
    await talk.session.receive_line(line)
    answer = await talk.until(lambda message: "error" in message)
    assert (answer["error"]["code"], len(talk.sent)) == (code, 1)
    assert len(answer["error"]["message"]) < 500
    await check_still_answers(talk)


@requirement("G13")
@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (
            rb'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"id":9,"b":"\u0000"}}}',
            7,
        ),
        (rb'{"id":"call-1","jsonrpc":"2.0","method":"ping","params":{"a":1,"a":2}}', "call-1"),
        (b'{"jsonrpc":"2.0","id":8,"method":"ping","params":{"text":"\xff"}}', 8),
        (b'{"jsonrpc":"2.0","id":8,"method":"ping","params":' + b"[" * 70 + b"]" * 70 + b"}", 8),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"text":"a\tb"}}', 9),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', None),
    ],
)
async def test_a_request_that_cannot_be_read_is_answered_under_its_own_id(line: bytes, id_: object) -> None:
    talk = Talk()
    await talk.session.receive_line(line)
    answer = await talk.until(lambda message: "error" in message)
    assert (answer["id"], answer["error"]["code"], len(talk.sent)) == (id_, -32700, 1)
    await check_still_answers(talk)


@requirement("G13")
@pytest.mark.parametrize("half", [rb"\ud83d", rb"\uDE00", b"\xed\xa0\xbd"])
async def test_half_of_a_surrogate_pair_is_a_replacement_character(half: bytes) -> None:
    talk = Talk()
    seen = b'{"jsonrpc":"2.0","id":5,"method":"nothing/' + half + b' \\\\ud83d"}'
    await talk.session.receive_line(b"\xef\xbb\xbf" + seen)
    answer = await talk.answer(5)
    assert "nothing/\ufffd" in answer["error"]["message"]
    assert answer["error"]["code"] == -32601


async def test_a_batch_is_answered_request_by_request() -> None:
    talk = Talk()
    await talk.session.receive_line(
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/initialized"},'
        b'{"jsonrpc":"2.0","id":2,"method":"tools/list"}]'
    )
    assert (await talk.answer(1))["result"] == {}
    assert (await talk.answer(2))["result"]["tools"]
    assert talk.session.initialized.is_set()


async def test_an_answer_that_nobody_waits_for_is_passed_over() -> None:
    talk = Talk()
    await talk.session.receive({"jsonrpc": "2.0", "id": 5, "result": {}})
    await talk.session.receive({"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": ""}})
    assert talk.sent == []
    await check_still_answers(talk)
