"""JSON from strangers: whatever is wrong with it, every route that reads it says so, and nothing has happened."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from testing.running_server import Running
from tests.api.http.request_targets import json_targets, left_behind
from tests.requirements import requirement

_DEEP = 32  # the default of limits.json_depth
_LONG_NUMBER = b"1" * 5000  # more digits than Python turns into a number

BROKEN = {
    "nothing": b"",
    "only blanks": b" \r\n\t",
    "no JSON": b"hello",
    "cut off": b'{"name": "x"',
    "two values": b'{"name": "x"} {}',
    "a comma too many": b'{"name": "x",}',
    "single quotes": b"{'name': 'x'}",
    "a comment": b'{"name": "x"} // hello',
    "NaN": b'{"name": "x", "tier": NaN}',
    "Infinity": b'{"name": "x", "tier": Infinity}',
    "-Infinity": b'{"name": "x", "tier": -Infinity}',
    "a number beyond all floats": b'{"name": "x", "tier": 1e999}',
    "a number beyond all floats below zero": b'{"name": "x", "tier": -1e999}',
    "a leading zero": b'{"name": "x", "tier": 01}',
    "a hex number": b'{"name": "x", "tier": 0x10}',
    "a doubled key": b'{"name": "x", "name": "y"}',
    "a doubled key inside": b'{"name": "x", "agent_card": {"a": 1, "a": 1}}',
    "a doubled key in disguise": b'{"name": "x", "n\\u0061me": "y"}',
    "a doubled key beside a colon": b'{"name": "a:b", "name": "a:b", "role": ":"}',
    "a lone high surrogate": b'{"name": "\\ud800"}',
    "a lone low surrogate": b'{"name": "\\udc00"}',
    "surrogates in the wrong order": b'{"name": "\\udc00\\ud800"}',
    "a lone surrogate as a key": b'{"\\ud800": 1}',
    "a NUL": b'{"name": "x\\u0000"}',
    "a NUL in a key": b'{"name": "x", "a\\u0000": 1}',
    "a NUL far inside": b'{"name": "x", "agent_card": [[{"a": ["\\u0000"]}]]}',
    "a raw NUL": b'{"name": "x\x00"}',
    "a raw line break in a string": b'{"name": "x\ny"}',
    "an escape that does not exist": b'{"name": "\\x41"}',
    "not UTF-8": b'{"name": "\xff\xfe"}',
    "an overlong encoding": b'{"name": "\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"name": "\xed\xa0\x80"}',
    "beyond Unicode": b'{"name": "\xf4\x90\x80\x80"}',
    "latin-1": '{"name": "é"}'.encode("latin-1"),
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"name": "x"}'.encode("utf-16-le"),
}
DEEP = {
    "one level too deep": b'{"name":"x","agent_card":' + b"[" * _DEEP + b"]" * _DEEP + b"}",
    "lists, 1,000 deep": b"[" * 1_000 + b"]" * 1_000,
    "objects, 1,000 deep": b'{"a":' * 1_000 + b"1" + b"}" * 1_000,
    "lists, 200,000 deep": b"[" * 200_000 + b"]" * 200_000,
    "objects, 100,000 deep": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep, with an escape": b'{"\\u0061":' * 500 + b"1" + b"}" * 500,
    "deep and wide": b'{"a":[' + b"[[]]," * 1_000 + b"[" * 40 + b"]" * 40 + b"]}",
}
NOT_OBJECTS = (b"null", b"true", b"0", b"-1.5", b'"text"', b"[]", b'[{"name": "x"}]', b"1" * 30)
# JSON that is allowed, and that has brought down readers who thought that it could not be.
STRANGE = {
    "a number of 64 bits": {"x": 2**64 - 1},
    "a number beyond 64 bits": {"x": 2**64},
    "a number beyond 64 bits below zero": {"x": -(2**63) - 1},
    "a number of 300 digits": {"x": 10**299},
    "the largest float": {"x": 1.7e308},
    "a very small float": {"x": 5e-324},
    "an empty key": {"": {"": ""}},
    "a key of a prototype": {"__proto__": {"x": 1}, "constructor": 1},
    "all of the first plane's ends": {"x": "\ufffe\uffff\ue000\U0010ffff"},
    "hidden characters": {"x": "\u202e\u2066\U000e0041\u0001\u001f\u007f\u0085"},
}


def test_the_tables_hold_what_they_say() -> None:
    """The broken ones are broken for Python too, or are among the few that Python lets pass; the strange are sound."""
    lenient = {name for name, body in BROKEN.items() if _python_reads(body)}
    assert all(word in " ".join(lenient) for word in ("NaN", "Infinity", "doubled", "surrogate", "NUL"))
    assert not {"nothing", "cut off", "latin-1", "not UTF-8"} & lenient
    assert all(json.loads(json.dumps(value)) == value for value in STRANGE.values())


def _python_reads(body: bytes) -> bool:
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


@requirement("S14", "M15")
async def test_every_route_refuses_every_broken_body_and_says_so(server: Running) -> None:
    targets = await json_targets(server)
    before = await left_behind(server, targets[0].seat)
    wrong: dict[tuple[str, str], Any] = {}
    for target in targets:
        for name, body in {**BROKEN, **DEEP}.items():
            if not body and target.route.body_optional:
                continue
            reply = await target.ask(body)
            code = "json_too_deep" if name in DEEP else "invalid_json"
            if (reply.status, reply.json.get("code")) != (400, code) or not reply.error.endswith("."):
                wrong[target.name, name] = (reply.status, reply.body)
    assert wrong == {}
    assert await left_behind(server, targets[0].seat) == before


@requirement("S14")
async def test_a_route_that_needs_no_body_is_declared_so_and_no_other_takes_none(plain: Running) -> None:
    targets = await json_targets(plain)
    taken = {target.name for target in targets if (await target.ask(b"")).status in (200, 201)}
    assert taken == {target.name for target in targets if target.route.body_optional}
    threads = {f"POST /threads/{{thread_id}}/{act}" for act in ("interrupt", "close", "resume", "fork")}
    cancel = "POST /workspaces/{id}/delegations/{delegation_id}/cancel"
    secret = "POST /workspaces/{id}/push-secret/rotate"
    assert taken == threads | {"POST /workspaces/{id}/threads", cancel, secret}  # the others are in ELSEWHERE


@requirement("S14")
async def test_what_is_broken_is_named_in_the_refusal(plain: Running) -> None:
    (target, *_) = [each for each in await json_targets(plain) if each.route.path == "/workspaces"]
    names = {
        "a doubled key": "'name' occurs twice",
        "a NUL": "NUL",
        "a NUL in a key": "a key contains a NUL",
        "a surrogate in UTF-8": "UTF-8",
        "not UTF-8": "UTF-8",
    }
    said = {name: (await target.ask(BROKEN[name])).error for name in names}
    assert {name: text for name, text in said.items() if names[name] not in text} == {}
    assert str(_DEEP) in (await target.ask(DEEP["one level too deep"])).error


@requirement("S14")
async def test_one_level_less_than_too_deep_is_taken(server: Running) -> None:
    seat = await server.seat()
    deep: Any = 1
    for _ in range(_DEEP - 1):  # the object around it is the first level
        deep = [deep]
    await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": deep})
    assert (await server.admin.get(f"/workspaces/{seat.id}"))["agent_card"] is not None


@requirement("S14")
async def test_every_route_refuses_a_body_that_is_no_object(server: Running) -> None:
    wrong = {}
    for target in await json_targets(server):
        for body in NOT_OBJECTS:
            if target.route.path.endswith("/shared-context") and body[:1] in ("[", b"["):
                continue  # a list of files is what it takes
            reply = await target.ask(body)
            if reply.status != 400 or "object" not in reply.error:
                wrong[target.name, body] = (reply.status, reply.body)
    assert wrong == {}


@requirement("S14")
async def test_json_that_is_strange_but_sound_breaks_nothing(server: Running) -> None:
    wrong = {}
    for target in await json_targets(server):
        for name, value in STRANGE.items():
            for body in (value, {**target.valid(), "agent_card": value, "request_body": value, "extra": value}):
                reply = await target.ask(json.dumps(body, ensure_ascii=False).encode())
                if not 200 <= reply.status < 500:
                    wrong[target.name, name] = (reply.status, reply.body)
    assert wrong == {}


@requirement("S14")
@pytest.mark.parametrize("escaped", [False, True])
async def test_a_number_of_thousands_of_digits_breaks_nothing(server: Running, escaped: bool) -> None:
    key = b"\\u0061" if escaped else b"a"
    wrong = {}
    for target in await json_targets(server):
        for body in (b'{"%b": %b}', b'{"agent_card": {"%b": %b}}', b'{"request_body": {"%b": -%b}}'):
            reply = await target.ask(body % (key, _LONG_NUMBER))
            if not 400 <= reply.status < 500:
                wrong[target.name, body] = (reply.status, reply.body)
    assert wrong == {}


@requirement("S14")
async def test_what_was_taken_is_what_is_read_back(server: Running) -> None:
    seat = await server.seat()
    card = {"name": "é\u00ad\U0001f600", "x": {"": [1.5, -0.0, 2**63 - 1, "\u2028", "\\u0000", "a:b"]}}
    await seat.api.post("/registry/update-card", {"workspace_id": seat.id, "agent_card": card})
    assert (await server.admin.get(f"/workspaces/{seat.id}"))["agent_card"]["x"] == card["x"]


_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_JSON: st.SearchStrategy[Any] = st.recursive(
    _LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)
_MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "parts": st.lists(
            _JSON
            | st.fixed_dictionaries(
                {}, optional={"kind": _JSON | st.sampled_from(("text", "file", "data")), "text": _JSON, "file": _JSON}
            ),
            max_size=3,
        )
        | _JSON,
        "content": _JSON,
        "messageId": _JSON,
        "contextId": _JSON,
        "role": _JSON,
        "metadata": st.dictionaries(st.sampled_from(("intent", "source", "x")), _JSON) | _JSON,
    },
)


@requirement("S14")
@settings(
    max_examples=400,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    number=st.integers(0, 1 << 16),
    value=_JSON | st.lists(_JSON, min_size=1, max_size=8),
    message=_MESSAGE | _JSON,
    mutations=st.integers(0, 2),
)
async def test_no_body_that_one_can_think_of_is_answered_with_a_mistake_of_ours(
    server: Running, number: int, value: Any, message: Any, mutations: int
) -> None:
    """Without mutations the body is anything at all; with them it is valid but for so many members."""
    targets = await _targets_once(server)
    target = targets[number % len(targets)]
    body = value
    if mutations and target.route.body is None:
        body = {"jsonrpc": "2.0", "id": value, "method": "message/send", "params": {"message": message}}
    elif mutations:
        fields = target.route.body.__struct_fields__
        values = value if isinstance(value, list) and value else [value]
        changed = {fields[(number + i) % len(fields)]: each for i, each in enumerate(values[:mutations])}
        body = {**target.valid(), **changed}
        if target.route.path.endswith("/agents/wait") and body["timeout"] is None:
            body["timeout"] = 1  # null is the default of 30 s, longer than a request of this test may take
    reply = await target.ask(json.dumps(body).encode())
    assert reply.status < 500, (target.name, body, reply.body)
    assert reply.status < 400 or reply.json["error"]


_targets: dict[int, Any] = {}


async def _targets_once(server: Running) -> Any:
    """The targets of a server, made at its first example."""
    if server.port not in _targets:
        _targets.clear()
        _targets[server.port] = await json_targets(server)
    return _targets[server.port]
