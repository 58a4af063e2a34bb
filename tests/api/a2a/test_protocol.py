"""Version, content type, envelope, extensions and errors of A2A, in both lines."""

import json
from typing import Any

import pytest

from testing.a2a_callers import V0_3, V1, A2ACaller
from testing.message_world import MessageWorld
from testing.raw_http import ask
from testing.running_server import Running, Seat
from testing.waits import bounded
from tests.requirements import requirement

LINES = pytest.mark.parametrize("line", [V1, V0_3])
GET = {V1: "GetTask", V0_3: "tasks/get"}


@pytest.fixture
async def pair(server: Running) -> tuple[Seat, Seat]:
    """A workspace that calls, and one that is called."""
    return await server.seat("Lead"), await server.seat("Ops")


def caller(server: Running, pair: tuple[Seat, Seat], line: str = V1) -> A2ACaller:
    """A client of the second workspace with the token of the first."""
    return A2ACaller(server, pair[1].id, pair[0].token, line)


def rpc(method: str, params: Any, **more: Any) -> dict[str, Any]:
    """A request by JSON-RPC."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params, **more}


@requirement("A2A2")
@pytest.mark.parametrize("version", ["1.0", "1.0.1", " 1.0 ", "1.0.0"])
async def test_a_patch_number_of_the_version_changes_nothing(
    server: Running, pair: tuple[Seat, Seat], version: str
) -> None:
    client = caller(server, pair)
    body = rpc("GetTask", {"id": "none"})
    headers = {"A2A-Version": version, "Content-Type": "application/json"}
    assert (await client.post(body, headers)).json["error"]["code"] == -32001


@requirement("A2A2")
@pytest.mark.parametrize("version", ["1.9", "2.0", "99.0", "1", "one", "0.2", "1.0.0.0"])
async def test_another_version_is_not_supported(server: Running, pair: tuple[Seat, Seat], version: str) -> None:
    headers = {"A2A-Version": version, "Content-Type": "application/json"}
    reply = await caller(server, pair).post(rpc("GetTask", {"id": "none"}), headers)
    error = reply.json["error"]
    assert (reply.status, error["code"], error["data"][0]["reason"]) == (200, -32009, "VERSION_NOT_SUPPORTED")
    assert error["data"][0]["domain"] == "a2a-protocol.org"


@requirement("A2A2")
async def test_the_version_may_be_a_query_parameter(server: Running, pair: tuple[Seat, Seat]) -> None:
    client, headers = caller(server, pair), {"Content-Type": "application/json"}
    body = rpc("GetTask", {"id": "none"})
    known = await client.post(body, headers, suffix="?A2A-Version=1.0")
    other = await client.post(body, headers, suffix="?A2A-Version=7.0")
    assert [each.json["error"]["code"] for each in (known, other)] == [-32001, -32009]


@requirement("A2A2")
async def test_without_a_version_the_methods_are_those_of_0_3(server: Running, pair: tuple[Seat, Seat]) -> None:
    client, headers = caller(server, pair), {"Content-Type": "application/json"}
    old = await client.post(rpc("tasks/get", {"id": "none"}), headers)
    new = await client.post(rpc("GetTask", {"id": "none"}), headers)
    sent = await client.post(rpc("SendMessage", {"message": client.message("hi")}), headers)
    assert [each.json["error"]["code"] for each in (old, new, sent)] == [-32001, -32009, -32009]
    mixed = await client.post(rpc("tasks/get", {"id": "none"}), client.headers())
    assert mixed.json["error"]["code"] == -32601


@requirement("A2A2")
@LINES
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b'{"jsonrpc": "2.0",', -32700),
        ([], -32600),
        ([{"jsonrpc": "2.0", "id": 1, "method": "GetTask"}], -32600),
        ("GetTask", -32600),
        ({"id": 1, "method": "GetTask"}, -32600),
        ({"jsonrpc": "2.0", "id": 1}, -32600),
        ({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}, -32600),
        (rpc("NoSuchMethod", {}), -32601),
    ],
)
async def test_a_malformed_envelope_has_its_own_error(
    server: Running, pair: tuple[Seat, Seat], line: str, body: Any, code: int
) -> None:
    reply = await caller(server, pair, line).post(body)
    assert (reply.status, reply.json["error"]["code"]) == (200, code)
    assert "result" not in reply.json
    if code == -32700:
        assert reply.json["id"] is None


@requirement("A2A2")
@LINES
@pytest.mark.parametrize(
    "params", [[], {}, {"id": 5}, {"id": ["a"]}, {"id": "x", "historyLength": -1}, {"id": "x", "historyLength": "many"}]
)
async def test_malformed_params_are_invalid_params(
    server: Running, pair: tuple[Seat, Seat], line: str, params: Any
) -> None:
    assert await caller(server, pair, line).error(GET[line], params) == -32602


@requirement("A2A2")
@LINES
@pytest.mark.parametrize(
    "message",
    [
        None,
        "hi",
        {"messageId": "m"},
        {"messageId": "m", "role": "ROLE_USER", "kind": "message"},
        {"messageId": "m", "role": "boss", "parts": [{"kind": "text", "text": "hi"}]},
        {"messageId": "m", "role": "user", "parts": []},
        {"messageId": "m", "role": "ROLE_USER", "parts": []},
        {"messageId": "m", "role": "ROLE_USER", "parts": [{}]},
        {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a", "url": "b"}]},
        {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": 5}]},
        {"role": "ROLE_USER", "parts": [{"text": "hi"}]},
    ],
)
async def test_a_malformed_message_is_invalid_params(
    server: Running, pair: tuple[Seat, Seat], line: str, message: Any
) -> None:
    client = caller(server, pair, line)
    assert await client.error("SendMessage" if line == V1 else "message/send", {"message": message}) == -32602


@requirement("A2A2")
@LINES
@pytest.mark.parametrize("id_", ["text", 7, None])
async def test_the_id_of_a_request_comes_back_with_its_type(
    server: Running, pair: tuple[Seat, Seat], line: str, id_: Any
) -> None:
    reply = await caller(server, pair, line).post(rpc(GET[line], {"id": "none"}, id=id_))
    assert reply.json["id"] == id_ and type(reply.json["id"]) is type(id_)


@requirement("A2A2")
@pytest.mark.parametrize("content_type", ["text/plain", "application/xml", "multipart/form-data"])
async def test_a_body_that_is_not_json_is_refused_before_it_is_read(
    server: Running, pair: tuple[Seat, Seat], content_type: str
) -> None:
    client = caller(server, pair)
    headers = {"A2A-Version": "1.0", "Content-Type": content_type}
    assert (await client.post(b"{", headers)).json["error"]["code"] == -32005
    for accepted in ("application/json; charset=utf-8", "application/a2a+json"):
        reply = await client.post(rpc("GetTask", {"id": "none"}), {**headers, "Content-Type": accepted})
        assert reply.json["error"]["code"] == -32001


@requirement("A2A2")
async def test_unknown_members_are_ignored(server: Running, pair: tuple[Seat, Seat]) -> None:
    client = caller(server, pair)
    message = {**client.message("hi"), "future": {"a": 1}}
    message["parts"][0]["later"] = True
    assert (await client.send(message, returnImmediately=True, unknown="x"))["id"]


@requirement("A2A2")
async def test_an_address_with_a_slash_is_the_same(server: Running, pair: tuple[Seat, Seat]) -> None:
    client = caller(server, pair)
    reply = await client.post(rpc("GetTask", {"id": "none"}), suffix="/")
    assert (reply.status, reply.json["error"]["code"]) == (200, -32001)


@requirement("A2A2")
async def test_named_extensions_are_echoed_if_they_are_known(server: Running, pair: tuple[Seat, Seat]) -> None:
    client = caller(server, pair)
    named = "https://example.org/other, https://molecule.dev/ext/resume/v1"
    reply = await client.post(rpc("GetTask", {"id": "none"}), client.headers({"A2A-Extensions": named}))
    assert reply.headers["a2a-extensions"] == "https://molecule.dev/ext/resume/v1"
    assert "a2a-extensions" not in (await client.post(rpc("GetTask", {"id": "none"}))).headers


@requirement("A2A2")
@LINES
async def test_an_extension_that_the_agent_requires_must_be_named(
    server: Running, pair: tuple[Seat, Seat], line: str
) -> None:
    _, ops = pair
    uri = "https://example.org/required"
    described = {"name": "Ops", "capabilities": {"extensions": [{"uri": uri, "required": True}]}}
    await ops.api.post("/registry/update-card", {"workspace_id": ops.id, "agent_card": described})
    client = caller(server, pair, line)
    method, params = ("SendMessage" if line == V1 else "message/send"), {"message": client.message("hi")}
    assert await client.error(method, params) == -32008
    assert await ops.api.get(f"/workspaces/{ops.id}/activity") == []
    assert "result" in await client.call(
        method, {**params, "configuration": {"returnImmediately": True}}, {"A2A-Extensions": uri, "X-Timeout": "0"}
    )


@requirement("A2A2")
@LINES
async def test_a_media_type_that_the_agent_does_not_declare_is_refused(
    server: Running, pair: tuple[Seat, Seat], line: str
) -> None:
    _, ops = pair
    described = {"name": "Ops", "defaultInputModes": ["text/plain", "image/*"]}
    await ops.api.post("/registry/update-card", {"workspace_id": ops.id, "agent_card": described})
    client = caller(server, pair, line)
    method = "SendMessage" if line == V1 else "message/send"

    def message(media_type: str) -> dict[str, Any]:
        url = "https://files.example/a"
        new, old = {"url": url, "mediaType": media_type}, {"kind": "file", "file": {"uri": url, "mimeType": media_type}}
        return {**client.message("hi"), "parts": [new if line == V1 else old]}

    headers = {"X-Timeout": "0"}
    assert await client.error(method, {"message": message("video/mp4")}, headers) == -32005
    assert "result" in await client.call(method, {"message": message("image/png")}, headers)


@requirement("A2A2", "M9")
async def test_every_operation_authenticates_with_a_challenge(server: Running, pair: tuple[Seat, Seat]) -> None:
    base = f"/workspaces/{pair[1].id}/a2a"
    for method, path in (("POST", ""), ("POST", "/message:send"), ("GET", "/tasks"), ("GET", "/extendedAgentCard")):
        reply = await bounded(ask(server.port, method, base + path, {} if method == "POST" else None))
        assert (reply.status, reply.headers["www-authenticate"]) == (401, 'Bearer realm="molecule"'), path


@requirement("A2A6")
async def test_rest_does_what_json_rpc_does(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    client, base = A2ACaller(world.server, ops.id, lead.token), f"/workspaces/{ops.id}/a2a"
    headers = {"A2A-Version": "1.0", "Content-Type": "application/a2a+json"}

    async def rest(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        reply = await bounded(ask(world.server.port, method, base + path, body, token=lead.token, headers=headers))
        assert reply.headers["content-type"] == "application/a2a+json"
        return reply.status, json.loads(reply.body)

    message = {"message": client.message("hi"), "configuration": {"returnImmediately": True}}
    status, sent = await rest("POST", "/message:send", message)
    task_id = sent["task"]["id"]
    assert (status, sent["task"]["status"]["state"]) == (200, "TASK_STATE_SUBMITTED")
    assert (await rest("GET", f"/tasks/{task_id}"))[1] == await client.get(task_id)
    status, page = await rest("GET", "/tasks?pageSize=5")
    assert ([each["id"] for each in page["tasks"]], page["nextPageToken"]) == ([task_id], "")
    status, cancelled = await rest("POST", f"/tasks/{task_id}:cancel")
    assert (status, cancelled["status"]["state"]) == (200, "TASK_STATE_CANCELED")
    status, error = await rest("POST", f"/tasks/{task_id}:cancel")
    assert (status, error["error"]["details"][0]["reason"]) == (400, "TASK_NOT_CANCELABLE")
    status, error = await rest("GET", "/tasks/none")
    assert (status, error["error"]["status"]) == (404, "NOT_FOUND")
    assert (await rest("GET", "/tasks?pageSize=0"))[0] == 400
    assert (await rest("POST", f"/tasks/{task_id}:burn"))[0] == 404
