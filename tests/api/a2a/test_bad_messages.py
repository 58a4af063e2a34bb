"""Messages that are not what they should be: each is told what is wrong with it, in the language it was sent in."""

import json
from typing import Any

from testing.raw_http import wire
from testing.running_server import ADMIN_TOKEN, Running
from tests.api.http.rejection_checks import check_refusal
from tests.requirements import requirement

GOOD_PART = {"kind": "text", "text": "hi"}


def message(**fields: Any) -> dict[str, Any]:
    """A body around a message."""
    return {"params": {"message": {"parts": [GOOD_PART], **fields}}}


BAD_MESSAGES: dict[str, Any] = {
    "no params": {},
    "params no object": {"params": []},
    "no message": {"params": {}},
    "message no object": {"params": {"message": "hi"}},
    "params metadata no object": {"params": {"message": {"parts": [GOOD_PART]}, "metadata": "x"}},
    "no parts": {"params": {"message": {"role": "user"}}},
    "empty parts": message(parts=[]),
    "parts no list": message(parts={"kind": "text"}),
    "part no object": message(parts=["hi"]),
    "part without content": message(parts=[{"kind": "text"}]),
    "part of no known kind": message(parts=[{"kind": "video", "video": {}}]),
    "kind no text": message(parts=[{"kind": ["text"], "text": "x"}]),
    "text no text": message(parts=[{"kind": "text", "text": {"a": 1}}]),
    "file no object": message(parts=[{"kind": "file", "file": "a.png"}]),
    "data no object": message(parts=[{"kind": "data", "data": 5}]),
    "too many parts": message(parts=[GOOD_PART] * 65),
    "too many files": message(parts=[{"kind": "file", "file": {"uri": "x"}}] * 11),
    "too long": message(parts=[{"kind": "text", "text": "ü" * 140_000}]),
    "too long together": message(parts=[{"kind": "text", "text": "x" * 9_000}] * 32),
    "role unknown": message(role="system"),
    "role no text": message(role=["user"]),
    "metadata no object": message(metadata=[1]),
    "intent unknown": message(metadata={"intent": "demand"}),
    "intent no text": message(metadata={"intent": {"a": 1}}),
    "content no text": {"params": {"message": {"content": ["hi"]}}},
    **{
        f"{name} {what}": message(**{name: value})
        for name in ("messageId", "contextId")
        for what, value in {
            "too long": "x" * 129,
            "with a space": "a b",
            "with a slash": "a/b",
            "with a line break": "a\n",
            "of another script": "ид",
            "bidi": "a\u202eb",
            "a number": 5,
            "huge": 10**30,
            "a list": ["a"],
            "an object": {"a": 1},
            "true": True,
        }.items()
    },
}


@requirement("S14", "M15")
async def test_every_bad_message_is_told_what_is_wrong_with_it(server: Running) -> None:
    seat, person = await server.seat("Ops"), await server.seat("Lead")
    path = f"/workspaces/{seat.id}/a2a"

    async with wire(server.port) as connection:
        for name, body in BAD_MESSAGES.items():
            plain = check_refusal(await connection.ask("POST", path, body, token=person.token), 400)
            assert plain.json["code"] == "invalid_message", name
            rpc = {"jsonrpc": "2.0", "id": "call", "method": "message/send", **body}
            spoken = check_refusal(await connection.ask("POST", path, rpc, token=person.token), 400).json
            assert (spoken["id"], spoken["error"]["code"]) == ("call", -32602), name
            assert spoken["error"]["message"] == plain.error
    assert await seat.api.get(f"/workspaces/{seat.id}/activity") == []


@requirement("S14", "M15")
async def test_an_unknown_method_is_named_with_those_that_are_known(server: Running) -> None:
    seat = await server.seat("Ops")

    async with wire(server.port) as connection:
        for method in ("tasks/send", "", None, 5, ["message/send"], {"a": 1}, "\u202e"):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, **message()}
            reply = await connection.ask("POST", f"/workspaces/{seat.id}/a2a", body, token=ADMIN_TOKEN)
            error = check_refusal(reply, 400).json["error"]
            assert error["code"] == -32601
            assert "message/send" in error["message"]


@requirement("S14", "M12")
async def test_an_a2a_client_is_held_to_its_version(server: Running) -> None:
    seat = await server.seat("Ops")
    strict = {"jsonrpc": "2.0", "id": "1", "method": "message/send", **message(role="user", messageId="m")}
    bad: dict[str, Any] = {
        "no jsonrpc": {**strict, "jsonrpc": None},
        "no method": {key: value for key, value in strict.items() if key != "method"},
        "no role": {**strict, **message(messageId="m")},
        "no messageId": {**strict, **message(role="user")},
        "type for kind": {**strict, **message(role="user", messageId="m", parts=[{"type": "text", "text": "hi"}])},
        "content for parts": {**strict, "params": {"message": {"role": "user", "messageId": "m", "content": "hi"}}},
    }

    async with wire(server.port) as connection:
        for version, body, code in (
            *(("0.3", each, -32600 if name in ("no jsonrpc", "no method") else -32602) for name, each in bad.items()),
            ("0.3", [], -32600),
            ("9.9", strict, -32009),
            ("0.30", strict, -32009),
            ("0.30.1", strict, -32009),
            ("0.3.x", strict, -32009),
            ("0.3.0.1", strict, -32009),
        ):
            headers = {"A2A-Version": version, "Content-Type": "application/json"}
            reply = await connection.ask("POST", f"/workspaces/{seat.id}/a2a", body, token=ADMIN_TOKEN, headers=headers)
            assert (reply.status, reply.json["error"]["code"]) == (200, code), body
        taken = await connection.ask(
            "POST",
            f"/workspaces/{seat.id}/a2a",
            strict,
            token=ADMIN_TOKEN,
            headers={"A2A-Version": "0.3", "Content-Type": "application/json"},
        )
        assert taken.json["result"]["status"]["state"] == "submitted"
        for version in ("0.3.0", " 0.3.17 "):
            headers = {"A2A-Version": version, "Content-Type": "application/json"}
            again = await connection.ask(
                "POST", f"/workspaces/{seat.id}/a2a", strict, token=ADMIN_TOKEN, headers=headers
            )
            assert again.json["result"]["status"]["state"] == "submitted"


@requirement("S14", "M15")
async def test_an_rpc_id_of_any_shape_comes_back_or_is_null(server: Running) -> None:
    seat = await server.seat("Ops")

    async with wire(server.port) as connection:
        for rpc_id, back in (
            ("7", 7),
            ('"x"', "x"),
            ("-5", -5),
            ("18446744073709551616", 18446744073709551616),
            ("1" + "0" * 400, 10**400),
            ("null", None),
            ("true", None),
            ("[1]", None),
            ("{}", None),
            ("1.5", None),
        ):
            body = json.dumps({"jsonrpc": "2.0", "method": "message/send", **message()})[:-1] + f', "id": {rpc_id}}}'
            path = f"/workspaces/{seat.id}/a2a"
            reply = await connection.ask("POST", path, body.encode(), token=ADMIN_TOKEN)
            assert (reply.status, reply.json["id"]) == (200, back)


@requirement("S14", "M15")
async def test_a_notice_is_held_to_the_limits_of_a_message(server: Running) -> None:
    seat = await server.seat("Ops")
    path = f"/workspaces/{seat.id}/notify"

    async with wire(server.port) as connection:
        for body in (
            {"message": ""},
            {"message": " \n"},
            {"message": "ü" * 140_000},
            {"message": "x", "attachments": [{"uri": "x"}] * 11},
            {"message": "x", "attachments": ["a.png"]},
            {"message": "x", "attachments": "a.png"},
        ):
            check_refusal(await connection.ask("POST", path, body, token=seat.token), 400, 422)
    assert await seat.api.get(f"/workspaces/{seat.id}/activity") == []
