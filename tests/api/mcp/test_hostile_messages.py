"""Whatever is sent to the endpoint, it is answered with what is wrong with it, never with a mistake of ours."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_core.tools.registry import TOOLS
from testing.mcp_clients import STATELESS, Line, calling, line_of, rpc, stateless
from testing.raw_http import wire
from testing.running_server import Running
from tests.requirements import requirement

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_METHODS = st.sampled_from(
    ["initialize", "tools/list", "tools/call", "ping", "server/discover", "notifications/cancelled", "resources/list"]
)
_KEY = "io.modelcontextprotocol/"
_METAS = st.dictionaries(
    st.sampled_from([f"{_KEY}protocolVersion", f"{_KEY}clientCapabilities", "progressToken", "claudecode/toolUseId"]),
    _ANY | st.just(STATELESS) | st.just({}),
    max_size=4,
)
_PARAMS = st.dictionaries(
    st.sampled_from(["name", "arguments", "protocolVersion", "requestId", "uri", "_meta"]), _ANY | _METAS, max_size=4
)
_MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | _ANY},
    optional={"id": _ANY, "method": _METHODS | _ANY, "params": _PARAMS | _ANY, "result": _ANY, "error": _ANY},
)
_BODIES = _MESSAGES | _ANY | st.lists(_MESSAGES, max_size=3)
_HEADERS = st.dictionaries(
    st.sampled_from(["Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method", "Mcp-Name", "Accept", "Last-Event-ID"]),
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF, exclude_characters="\x7f"), max_size=30)
    | st.sampled_from([STATELESS, "2025-11-25", "tools/list", "*/*", "=?base64?AAAA?="]),
    max_size=4,
)
_QUIET = settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
_BROKEN = (b"", b"{", b"[" * 5000, b"nul", b"\xff", b'"text"', b"7", b'{"a":1,"a":2}', b"[" + b"1," * 100 + b"1]")


@pytest.fixture
async def line(plain: Running) -> Line:
    """A client in a session."""
    line = line_of(plain, await plain.seat("Ops"), "/mcp")
    await line.begin()
    return line


@requirement("S14", "N1")
async def test_nothing_that_one_can_think_of_brings_a_mistake_of_ours(line: Line) -> None:
    cases: list[Any] = []

    @_QUIET
    @given(st.lists(st.tuples(_BODIES, _HEADERS), min_size=5, max_size=5))
    def collect(found: list[Any]) -> None:
        cases.extend(found)

    collect()
    wrong: list[Any] = []
    async with wire(line.server.port) as connection:
        for message, headers in cases:
            named = {name.replace("-", "_"): value for name, value in headers.items()}
            reply = await line.post(json.dumps(message).encode(), connection, **named)
            if reply.status >= 500 or reply.headers.get("content-type", "").startswith("text/event"):
                wrong.append((message, headers, reply))

    assert wrong == []
    assert len(cases) >= 1000


@requirement("S14")
@pytest.mark.parametrize("body", _BROKEN, ids=range(len(_BROKEN)))
async def test_a_body_that_is_no_message_is_refused(line: Line, body: bytes) -> None:
    for version in ("2025-11-25", STATELESS):
        reply = await line.post(body, MCP_Protocol_Version=version)
        assert reply.status == 400
    assert (await line.post(rpc("ping"))).status == 200


@requirement("S14", "N1")
@pytest.mark.parametrize("name", [spec.name for spec in TOOLS])
async def test_arguments_that_do_not_fit_are_refused_with_what_to_do(line: Line, name: str) -> None:
    wrong: list[dict[str, Any]] = [{"via_workspace": 7}, {"text": None, "via_workspac": []}]
    for arguments in wrong:
        for message in (calling(name, arguments), stateless("tools/call", {"name": name, "arguments": arguments})):
            reply = await line.post(message)
            assert (reply.status, reply.json["result"]["isError"]) == (200, True), reply
            assert name in reply.json["result"]["content"][0]["text"]


@requirement("S14", "N1")
async def test_an_argument_that_the_tool_does_not_have_is_passed_over_with_a_note(line: Line) -> None:
    arguments = {"limit": "1", "nonsense": []}
    for message in (
        calling("inbox_peek", arguments),
        stateless("tools/call", {"name": "inbox_peek", "arguments": arguments}),
    ):
        result = (await line.post(message)).json["result"]
        assert result["isError"] is False
        assert "inbox_peek has no argument nonsense: it was ignored." in result["structuredContent"]["note"]
        assert "nonsense" in result["content"][-1]["text"]


async def test_a_body_larger_than_allowed_is_refused_before_it_is_read(line: Line) -> None:
    reply = await line.post(b" " * ((1 << 20) + 1))
    assert (reply.status, reply.json["code"]) == (413, "body_too_large")
