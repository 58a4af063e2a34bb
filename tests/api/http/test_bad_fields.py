"""Fields of the wrong type or out of their range, generated from the structs that the routes read."""

import re
from collections.abc import Iterator
from typing import Any, get_type_hints

import msgspec
import pytest

from testing.raw_http import ask
from testing.running_server import Running
from tests.api.http.request_targets import BODYLESS, ELSEWHERE, Target, json_targets, left_behind
from tests.requirements import requirement

# One of each kind of JSON value, and those of each kind that are hardest on a reader.
VALUES: tuple[Any, ...] = (
    None,
    True,
    0,
    -1,
    12,
    1.5,
    -0.0,
    1e308,
    2**31,
    2**53 + 1,
    2**63,
    2**64,
    -(2**63) - 1,
    10**40,
    "",
    "text",
    "12",
    "\u202e",
    "\U000e0041",
    "x" * 5_000,
    [],
    [1],
    [{}],
    {},
    {"a": 1},
)


def _fields(shape: type) -> Iterator[tuple[str, Any, bool]]:
    """(name, type, whether it must be there) of each field."""
    hints = get_type_hints(shape, include_extras=True)
    for field in msgspec.structs.fields(shape):
        yield field.encode_name, hints[field.name], field.required


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _shaped(targets: list[Target]) -> list[tuple[Target, type]]:
    return [(target, target.route.body) for target in targets if target.route.body is not None]


def _shown(value: Any) -> str:
    return repr(value)[:60]


@requirement("S14")
async def test_what_differs_from_a_refused_body_in_one_field_is_taken(server: Running) -> None:
    """The control of this file: the valid bodies are valid, so it is the changed field that is refused."""
    targets = await json_targets(server)
    answers = {target.name: (await target.ask(target.valid())).status for target in targets}
    assert {name: status for name, status in answers.items() if status not in (200, 201, 202)} == {}
    bodies = [route for route in server.server.routes.routes if route.method in ("POST", "PATCH", "PUT")]
    assert len(answers) == len([route for route in bodies if route.path not in (*ELSEWHERE, *BODYLESS)])


@requirement("S14")
async def test_a_field_of_the_wrong_type_is_refused_by_its_name(server: Running) -> None:
    targets = await json_targets(server)
    before = await left_behind(server, targets[0].seat)
    wrong, asked = {}, 0
    for target, shape in _shaped(targets):
        for name, kind, _ in _fields(shape):
            for value in (each for each in VALUES if not _fits(each, kind)):
                reply = await target.ask({**target.valid(), name: value})
                asked += 1
                if (
                    reply.status != 422
                    or reply.json["code"] != "invalid_field"
                    or not re.match(rf"(a key of )?{name}\b", reply.error)
                ):
                    wrong[target.name, name, _shown(value)] = (reply.status, reply.body)
    assert wrong == {}
    assert asked > 500
    assert await left_behind(server, targets[0].seat) == before


@requirement("S14")
async def test_a_field_of_the_right_type_never_brings_a_mistake_of_ours(server: Running) -> None:
    wrong, asked = {}, 0
    for target, shape in _shaped(await json_targets(server)):
        for name, kind, _ in _fields(shape):
            for value in (each for each in VALUES if _fits(each, kind)):
                reply = await target.ask({**target.valid(), name: value})
                asked += 1
                if reply.status >= 500 or (reply.status >= 400 and not reply.error):
                    wrong[target.name, name, _shown(value)] = (reply.status, reply.body)
    assert wrong == {}
    assert asked > 200


@requirement("S14")
async def test_a_field_that_must_be_there_is_asked_for_by_its_name(server: Running) -> None:
    wrong, asked = {}, 0
    for target, shape in _shaped(await json_targets(server)):
        for name in [name for name, _, needed in _fields(shape) if needed]:
            body = target.valid()
            del body[name]
            reply = await target.ask(body)
            asked += 1
            if reply.status != 422 or reply.error != f"{name} is missing. Add it.":
                wrong[target.name, name] = (reply.status, reply.body)
    assert wrong == {}
    assert asked > 8


@requirement("S14", "M15")
async def test_a_message_of_the_wrong_shape_is_refused_and_the_member_named(server: Running) -> None:
    """`message/send` is read by hand: each member in turn is every kind of value that it must not be."""
    (target,) = [each for each in await json_targets(server) if each.route.body is None]
    part = {"kind": "text", "text": "hello"}
    cases: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("params", lambda value: {"params": value}, ()),
        ("message", lambda value: {"params": {"message": value}}, ()),
        ("part", lambda value: {"params": {"message": {"parts": value}}}, ()),
        ("part", lambda value: {"params": {"message": {"parts": [value]}}}, ()),
        ("text", lambda value: {"params": {"message": {"parts": [{**part, "text": value}]}}}, (str,)),
        ("kind", lambda value: {"params": {"message": {"parts": [{**part, "kind": value}]}}}, (None, "text")),
        ("role", lambda value: {"params": {"message": {"parts": [part], "role": value}}}, (None,)),
    ]
    wrong = {}
    for member, body, taken in cases:
        for value in (each for each in VALUES if each not in taken and type(each) not in taken):
            reply = await target.ask({"jsonrpc": "2.0", "id": 7, **body(value)})
            problem = reply.json.get("error")
            spoken = isinstance(problem, dict) and problem["code"] == -32602 and reply.json["id"] == 7
            if reply.status != 400 or not spoken or member not in problem["message"]:
                wrong[member, _shown(value)] = (reply.status, reply.body)
    assert wrong == {}


@requirement("S14")
@pytest.mark.parametrize("member", ["messageId", "contextId"])
async def test_an_id_that_a_client_chose_is_short_and_plain_or_refused(server: Running, member: str) -> None:
    (target,) = [each for each in await json_targets(server) if each.route.body is None]
    bad: tuple[Any, ...] = (
        0,
        False,
        [],
        {},
        " ",
        "a b",
        "a/b",
        "ä",
        "\u202e",
        "a\n",
        "x" * 129,
        "'; DROP TABLE message; --",
    )
    statuses = {}
    for value in bad:
        body = target.valid()
        body["params"]["message"][member] = value
        statuses[_shown(value)] = (await target.ask(body)).status
    assert set(statuses.values()) == {400}, statuses


@requirement("S14")
async def test_a_header_key_that_a_client_chose_is_short_and_plain_or_refused(server: Running) -> None:
    targets = [each for each in await json_targets(server) if each.route.path.endswith(("/a2a", "/notify"))]
    before = await left_behind(server, targets[0].seat)
    keys = ("", "a b", "x" * 129, "é", "'")
    replies = [
        await ask(
            server.port,
            "POST",
            target.path,
            target.valid(),
            token=target.token,
            headers={"Idempotency-Key": key},
        )
        for target in targets
        for key in keys
    ]
    assert {reply.status for reply in replies} == {422}
    assert all("Idempotency-Key" in reply.error for reply in replies)
    assert len(replies) == 2 * len(keys)
    assert await left_behind(server, targets[0].seat) == before


@requirement("S14")
@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"text": "x" * (1 << 18) + "x"}, str(1 << 18)),
        ({"text": "é" * (1 << 17) + "x"}, str(1 << 18)),
        ({"parts": 65}, "64"),
        ({"files": 11}, "10"),
    ],
)
async def test_a_message_larger_than_a_limit_is_refused_with_the_limit(
    plain: Running, fields: dict[str, Any], limit: str
) -> None:
    (target,) = [each for each in await json_targets(plain) if each.route.body is None]

    def parts(more: int) -> list[dict[str, Any]]:
        if "text" in fields:
            return [{"kind": "text", "text": fields["text"] if more else fields["text"][:-1]}]
        if "parts" in fields:
            return [{"kind": "text", "text": "x"}] * (fields["parts"] - 1 + more)
        return [{"kind": "file", "file": {}}] * (fields["files"] - 1 + more)

    too_much = await target.ask({"params": {"message": {"parts": parts(1)}}})
    just_right = await target.ask({"params": {"message": {"parts": parts(0)}}})
    assert (too_much.status, just_right.status) == (400, 200)
    assert limit in too_much.error
