"""What a request of MCP must say in its headers, in both eras, byte by byte."""

from typing import Any

import pytest

from molecule_core.tools.mcp_dispatcher import HANDSHAKE_VERSIONS, STATELESS_VERSIONS
from testing.mcp_clients import STATELESS, Line, calling, greeting, headers_of, line_of, rpc, stateless, told
from testing.raw_http import ask, request, wire
from testing.running_server import Running
from tests.requirements import requirement


@pytest.fixture
async def line(plain: Running) -> Line:
    """A client by hand."""
    return line_of(plain, await plain.seat("Ops"), "/mcp")


@requirement("S18", "N1")
@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://evil.example:80", "null", "file://", "http://127.0.0.1.evil.example", ""]
)
async def test_a_page_of_another_host_is_refused_in_each_way(line: Line, origin: str) -> None:
    await line.begin()
    page = origin or "http://"
    for message in (greeting(), rpc("ping"), stateless("tools/list")):
        reply = await line.post(message, Origin=page)
        assert (reply.status, reply.json["code"]) == (403, "cross_origin")
    for method in ("GET", "DELETE"):
        assert (await line.ask(method, Origin=page)).status == 403
    assert (await line.post(rpc("ping"))).status == 200


@pytest.mark.parametrize("origin", ["http://localhost:6274", "http://127.0.0.1", "https://LOCALHOST", "http://[::1]:1"])
async def test_a_page_of_one_of_our_own_names_may_speak(line: Line, origin: str) -> None:
    assert (await line.post(greeting(), Origin=origin)).status == 200


@requirement("N1")
@pytest.mark.parametrize("path", ["/mcp/", "/workspaces/{id}/mcp/"])
async def test_a_slash_at_the_end_of_the_address_changes_nothing(plain: Running, path: str) -> None:
    seat = await plain.seat("Ops")
    line = line_of(plain, seat, path.format(id=seat.id))
    await line.begin()
    assert (await line.post(rpc("ping"))).json["result"] == {}
    assert (await line.post(stateless("tools/list"))).status == 200
    for other in ("//mcp", "/mcp//", "/mcp/x", "/workspaces/", "/mcp%2F/"):
        reply = await ask(plain.port, "POST", other, rpc("ping"), token=seat.token)
        assert reply.status == 404, other


@requirement("S18")
async def test_a_host_name_that_is_not_ours_is_refused(line: Line) -> None:
    assert (await line.post(greeting(), Host="evil.example")).status == 421


async def test_only_the_token_of_a_workspace_speaks(plain: Running, line: Line) -> None:
    person = await plain.admin.post(f"/orgs/{(await plain.admin.get('/orgs'))[0]['id']}/people", {"name": "Ann"})
    for token, status in ((person["auth_token"], 403), ("nobody", 401)):
        line.token = token
        assert (await line.post(greeting())).status == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("application/json", 200),
        ("*/*", 200),
        ("", 200),
        ("text/event-stream", 406),
        ("text/html", 406),
        ("application/json;q=0.5,text/event-stream;q=1", 200),
    ],
)
async def test_the_answer_is_of_a_kind_that_the_client_takes(line: Line, accept: str, status: int) -> None:
    for message in (greeting(), stateless("tools/list")):
        reply = await line.post(message, Accept=accept)
        assert reply.status == status
        assert reply.headers["content-type"] == "application/json"


@pytest.mark.parametrize("kind", ["text/plain", "", "application/xml", "multipart/form-data; boundary=a"])
async def test_a_body_that_says_it_is_no_json_is_refused(line: Line, kind: str) -> None:
    assert (await line.post(greeting(), Content_Type=kind)).status == 415


async def test_a_standing_stream_is_only_for_who_takes_events(line: Line) -> None:
    await line.begin()
    assert (await line.ask("GET", Accept="application/json")).status == 406


@pytest.mark.parametrize("name", ["Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Origin"])
async def test_a_header_that_decides_something_stands_once(line: Line, name: str) -> None:
    message = calling("list_peers")
    async with wire(line.server.port) as connection:
        pairs = [*headers_of(message).items(), (name, "a"), (name, "b")]
        await connection.send(request("POST", "/mcp", b"{}", token=line.token, headers=pairs))
        reply = await connection.reply()
    assert (reply.status, reply.json["code"]) == (400, "bad_http")


async def test_other_methods_are_named_as_not_allowed(line: Line) -> None:
    reply = await ask(line.server.port, "PUT", "/mcp", b"{}", token=line.token)
    assert (reply.status, reply.headers["allow"]) == (405, "DELETE, GET, POST")


# -- versions ----------------------------------------------------------------------------------------------------------


@requirement("N1")
@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-29", "", "latest", "é"])
async def test_a_version_that_nobody_knows_is_answered_with_those_that_are_known(line: Line, version: str) -> None:
    await line.begin()
    sent = version or "x"
    reply = await line.post(rpc("tools/list"), MCP_Protocol_Version=sent)
    error = reply.json["error"]
    assert (reply.status, error["code"]) == (400, -32022)
    assert set(error["data"]["supported"]) == {*HANDSHAKE_VERSIONS, *STATELESS_VERSIONS}


@requirement("N1")
async def test_a_stateless_version_that_is_not_supported_gets_the_list(line: Line) -> None:
    reply = await line.post(stateless("server/discover", version="2027-01-01"))
    error = reply.json["error"]
    assert (reply.status, error["code"], error["data"]["supported"]) == (400, -32022, list(STATELESS_VERSIONS))
    assert error["data"]["requested"] == "2027-01-01"


async def test_a_session_may_name_any_version_of_its_era(line: Line) -> None:
    await line.begin("2025-11-25")
    for version in HANDSHAKE_VERSIONS:
        assert (await line.post(rpc("ping"), MCP_Protocol_Version=version)).status == 200


async def test_the_second_era_needs_no_session_and_heeds_none(line: Line) -> None:
    line.session = "nonsense"
    reply = await line.post(stateless("tools/list"))
    assert reply.status == 200
    assert "mcp-session-id" not in reply.headers
    assert reply.json["result"]["resultType"] == "complete"
    for method in ("GET", "DELETE"):
        assert (await line.ask(method, MCP_Protocol_Version=STATELESS)).status == 405
    assert len(line.server.server.mcp_routes.sessions) == 0


def _without(message: dict[str, Any], key: str) -> dict[str, Any]:
    del message["params"]["_meta"][f"io.modelcontextprotocol/{key}"]
    return message


@requirement("N1")
@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"MCP-Protocol-Version": ""}, -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
        ({"Mcp-Method": ""}, -32020),
        ({"Mcp-Method": "tools/list"}, -32020),
        ({"Mcp-Name": ""}, -32020),
        ({"Mcp-Name": "inbox_pop"}, -32020),
        ({"Mcp-Name": "=?base64?bGlzdF9wZWVyc2==?="}, -32020),
        ({"Mcp-Name": "=?base64?!!?="}, -32020),
        ({"Mcp-Name": "=?base64?bGlzdF9wZWVycw==?="}, None),
        ({}, None),
    ],
)
async def test_headers_of_the_second_era_say_the_same_as_the_body(
    line: Line, changed: dict[str, str], code: int | None
) -> None:
    message = stateless("tools/call", {"name": "list_peers", "arguments": {}})
    reply = await line.post(message, None, **{name.replace("-", "_"): value for name, value in changed.items()})
    if code is None:
        assert (reply.status, reply.json["result"]["structuredContent"]["peers"]) == (200, [])
    else:
        assert (reply.status, reply.json["error"]["code"], reply.json["id"]) == (400, code, message["id"])


@pytest.mark.parametrize("key", ["protocolVersion", "clientCapabilities"])
async def test_a_request_of_the_second_era_says_all_about_itself(line: Line, key: str) -> None:
    message = _without(stateless("tools/list"), key)
    reply = await line.post(message, MCP_Protocol_Version=STATELESS, Mcp_Method="tools/list")
    assert (reply.status, reply.json["error"]["code"]) == (400, -32602)


async def test_statuses_of_the_second_era_tell_what_was_not_done(line: Line) -> None:
    unknown = await line.post(stateless("logging/setLevel"))
    assert (unknown.status, unknown.json["error"]["code"]) == (404, -32601)
    batch = await line.post([stateless("tools/list")], MCP_Protocol_Version=STATELESS)
    assert (batch.status, batch.json["error"]["code"]) == (400, -32600)
    told_ = await line.post(told("notifications/cancelled", {"requestId": 1}), MCP_Protocol_Version=STATELESS)
    assert told_.status == 202
    wrong_tool = await line.post(stateless("tools/call", {"name": "nope", "arguments": {}}))
    assert (wrong_tool.status, wrong_tool.json["result"]["isError"]) == (200, True)


async def test_discovery_tells_versions_tools_and_the_convention(line: Line) -> None:
    found = (await line.post(stateless("server/discover"))).json["result"]
    assert found["supportedVersions"] == list(STATELESS_VERSIONS)
    assert found["capabilities"] == {  # and nothing that the product has not
        "tools": {},
        "prompts": {},
        "completions": {},
        "resources": {"subscribe": True},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    }
    assert "reply_to_workspace" in found["instructions"]
    await line.begin()
    assert (await line.post(rpc("server/discover"))).json["error"]["code"] == -32601
