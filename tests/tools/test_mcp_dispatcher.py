"""The one dispatcher of the Model Context Protocol: both eras, calls side by side, progress, cancellation, limits."""

import asyncio
from typing import Any

import pytest
from msgspec import Struct

from molecule_core.tools.mcp_dispatcher import (
    HANDSHAKE_VERSIONS,
    SERVER_INFO_KEY,
    CallContext,
    ExtraMethods,
    SessionMode,
    ToolResult,
    tool_listing,
)
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.spec import ToolError, ToolSpec
from testing.clocks import settle
from tests.requirements import requirement
from tests.tools.mcp_session import Talk, TellingHost, stateless


def refusal(result: dict[str, Any]) -> str:
    """The text of a tool's refusal."""
    assert result["isError"] is True
    assert "structuredContent" not in result
    text: str = result["content"][0]["text"]
    return text


# -- the handshake -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
@requirement("G13")
async def test_the_handshake_agrees_on_every_version_of_its_era(version: str) -> None:
    talk = Talk(eras=SessionMode.HANDSHAKE)
    greeting = await talk.greet(version)
    assert greeting["protocolVersion"] == version == talk.session.protocol_version
    assert greeting["serverInfo"] == {"name": "molecule", "version": "0"}
    assert greeting["instructions"] == talk.host.instructions
    assert talk.session.initialized.is_set()
    assert talk.session.client["name"] == "test"


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", ""])
async def test_a_version_that_has_no_handshake_is_answered_with_the_newest_that_has(version: str) -> None:
    assert (await Talk().greet(version))["protocolVersion"] == "2025-11-25"


async def test_experimental_abilities_are_told_in_the_handshake_only_where_there_are_some() -> None:
    plain, channel = Talk(), Talk(experimental=lambda _client: {"claude/channel": {}})
    assert "experimental" not in (await plain.greet())["capabilities"]
    assert (await channel.greet())["capabilities"]["experimental"] == {"claude/channel": {}}


async def test_a_handshake_without_a_version_is_refused_and_may_be_tried_again() -> None:
    talk = Talk()
    assert (await talk.ask(1, "initialize", {}))["error"]["code"] == -32602
    assert (await talk.greet())["protocolVersion"] == "2025-11-25"


# -- the stateless era -------------------------------------------------------------------------------------------------


@requirement("G13")
async def test_a_session_for_pushes_does_not_answer_discover() -> None:
    talk = Talk(eras=SessionMode.HANDSHAKE)
    for params in ({"_meta": stateless()}, None):
        assert (await talk.ask(str(params), "server/discover", params))["error"]["code"] == -32601
    assert (await talk.ask(1, "tools/list", {"_meta": stateless()}))["error"]["code"] == -32022


async def test_discover_tells_versions_and_instructions() -> None:
    talk = Talk()
    result = (await talk.ask(1, "server/discover", {"_meta": stateless()}))["result"]
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["instructions"] == talk.host.instructions
    assert result["resultType"] == "complete"
    assert result["_meta"][SERVER_INFO_KEY]["name"] == "molecule"


async def test_each_stateless_request_is_complete_by_itself() -> None:
    talk = Talk()
    tools = (await talk.ask(1, "tools/list", {"_meta": stateless()}))["result"]
    called = await talk.call(2, "list_peers", {}, **stateless())
    assert (tools["ttlMs"], tools["cacheScope"], tools["resultType"]) == (0, "private", "complete")
    assert [tool["name"] for tool in tools["tools"]] == [spec.name for spec in TOOLS]
    assert called["resultType"] == "complete"
    assert called["structuredContent"]["tool"] == "list_peers"


async def test_an_unknown_version_is_told_which_ones_there_are() -> None:
    error = (await Talk().ask(1, "tools/list", {"_meta": stateless("2031-01-01")}))["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": ["2026-07-28"], "requested": "2031-01-01"})


@pytest.mark.parametrize(
    "method", ["ping", "logging/setLevel", "resources/list", "prompts/list", "subscriptions/listen"]
)
async def test_what_the_stateless_era_does_not_have_is_no_method(method: str) -> None:
    assert (await Talk().ask(1, method, {"_meta": stateless()}))["error"]["code"] == -32601


async def test_an_envelope_without_abilities_is_refused_by_its_missing_name() -> None:
    meta = stateless()
    meta.pop("io.modelcontextprotocol/clientCapabilities")
    error = (await Talk().ask(1, "tools/list", {"_meta": meta}))["error"]
    assert error["code"] == -32602
    assert "clientCapabilities" in error["message"]


# -- tools -------------------------------------------------------------------------------------------------------------


@requirement("G3")
@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
async def test_a_listed_tool_says_all_four_hints_and_both_schemas(spec: ToolSpec) -> None:
    shown = tool_listing(spec)
    assert set(shown["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert shown["inputSchema"]["type"] == shown["outputSchema"]["type"] == "object"
    assert shown["description"].startswith(spec.summary)


@requirement("G3")
async def test_a_result_is_complete_as_structure_and_as_text() -> None:
    talk = Talk()
    result = await talk.call(1, "send_message_to_user", {"message": "hi", "workspace_id": "a"})
    given = {
        "message": "hi",
        "attachments": [],
        "reply_handle": "",
        "progress": False,
        "approval_id": "",
        "workspace_id": "a",
    }
    assert result["structuredContent"] == {"tool": "send_message_to_user", "given": given}
    assert '"message":"hi"' in result["content"][0]["text"]
    assert result["isError"] is False


async def test_an_unknown_tool_is_refused_with_the_names_there_are() -> None:
    talk = Talk()
    text = refusal(await talk.call(1, "delegate_tusk"))
    assert all(spec.name in text for spec in TOOLS)


async def test_arguments_that_do_not_fit_are_refused_with_what_would() -> None:
    text = refusal(await Talk().call(1, "send_message_to_user", {"text": "hi"}))
    assert "send_message_to_user" in text
    assert "Required: message" in text


async def test_a_refusal_of_the_host_reaches_the_model_in_its_words() -> None:
    async def refuse(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        raise ToolError("name one of: a, b", "ambiguous")

    result = await Talk(TellingHost(refuse)).call(1, "list_peers")
    assert refusal(result) == "name one of: a, b"
    assert result["_meta"] == {"molecule/code": "ambiguous"}


async def test_a_tool_that_breaks_tells_the_model_nothing_of_the_inside() -> None:
    async def breaks(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        raise RuntimeError("secret path")

    talk = Talk(TellingHost(breaks))
    assert "secret" not in refusal(await talk.call(1, "list_peers"))
    assert [str(each) for each in talk.faults] == ["secret path"]
    assert (await talk.ask(2, "ping"))["result"] == {}


# -- side by side ------------------------------------------------------------------------------------------------------


class Gates:
    """Tools that say when they begin, and end when they are let."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.gate = asyncio.Event()
        self.step = asyncio.Event()

    async def act(self, spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        if spec.name == "list_peers":
            return ToolResult({})
        self.begun.append(spec.name)
        self.step.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(spec.name)
            self.step.set()
            raise
        self.ended.append(spec.name)
        return ToolResult({})


def call_of(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


@requirement("G13")
async def test_a_slow_tool_blocks_nobody() -> None:
    gates = Gates()
    talk = Talk(TellingHost(gates.act))
    await talk.begin(1, "tools/call", call_of("wait_for_message"))
    await talk.begin(2, "tools/call", call_of("inbox_peek"))
    assert (await talk.call(3, "list_peers"))["isError"] is False
    assert (await talk.ask(4, "ping"))["result"] == {}
    assert (gates.begun, gates.ended) == (["wait_for_message", "inbox_peek"], [])
    gates.gate.set()
    await talk.answer(1)
    await talk.answer(2)
    assert gates.ended == ["wait_for_message", "inbox_peek"]


@requirement("G13")
async def test_a_cancelled_call_ends_its_tool_and_is_not_answered() -> None:
    gates = Gates()
    talk = Talk(TellingHost(gates.act))
    await talk.begin("slow", "tools/call", call_of("wait_for_message"))
    await gates.step.wait()
    gates.step.clear()
    await talk.tell("notifications/cancelled", requestId="slow", reason="enough")
    await gates.step.wait()
    await talk.ask(2, "ping")
    assert gates.cancelled == ["wait_for_message"]
    assert [message.get("id") for message in talk.sent] == [2]


@pytest.mark.parametrize("id_", ["unknown", None, [], {}, 1.5, True])
async def test_a_cancellation_of_nothing_changes_nothing(id_: Any) -> None:
    talk = Talk()
    await talk.tell("notifications/cancelled", requestId=id_)
    assert (await talk.ask(1, "ping"))["result"] == {}
    assert talk.faults == []


async def test_a_tool_that_holds_a_cancellation_back_is_not_answered_either() -> None:
    stubborn, asked = asyncio.Event(), asyncio.Event()

    async def act(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        asked.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stubborn.set()
        return ToolResult({})

    talk = Talk(TellingHost(act))
    await talk.begin(1, "tools/call", call_of("wait_for_message"))
    await asked.wait()
    await talk.tell("notifications/cancelled", requestId=1)
    await stubborn.wait()
    await talk.ask(2, "ping")
    assert [message.get("id") for message in talk.sent] == [2]


async def test_more_calls_than_the_limit_are_refused_and_everything_else_goes_on() -> None:
    gates = Gates()
    talk = Talk(TellingHost(gates.act), max_calls=2)
    await talk.begin(1, "tools/call", call_of("wait_for_message"))
    await talk.begin(2, "tools/call", call_of("inbox_peek"))
    assert "calls are running" in refusal(await talk.call(3, "list_peers"))
    assert (await talk.ask(4, "ping"))["result"] == {}
    gates.gate.set()
    await talk.answer(1)
    await talk.answer(2)
    assert (await talk.call(5, "list_peers"))["isError"] is False


async def test_an_id_is_good_for_one_request_at_a_time() -> None:
    gates = Gates()
    talk = Talk(TellingHost(gates.act))
    await talk.begin(1, "tools/call", call_of("wait_for_message"))
    assert (await talk.ask(1, "ping"))["error"]["code"] == -32600
    gates.gate.set()
    assert "isError" in (await talk.until(lambda message: "result" in message))["result"]


async def test_closing_ends_what_is_under_way_and_sends_nothing_more() -> None:
    gates = Gates()
    talk = Talk(TellingHost(gates.act))
    await talk.begin(1, "tools/call", call_of("wait_for_message"))
    await gates.step.wait()
    await talk.session.close()
    await talk.begin(2, "ping")
    await talk.session.notify("notifications/message", {})
    assert (gates.cancelled, talk.sent) == (["wait_for_message"], [])


async def test_a_client_that_reads_nothing_is_not_read_from_for_ever() -> None:
    stuck = asyncio.Event()
    talk = Talk()

    async def send(message: dict[str, Any]) -> None:
        await stuck.wait()

    talk.session._send = send

    async def flood() -> None:
        for number in range(5000):
            await talk.begin(number, "ping")

    flooding = asyncio.create_task(flood())
    await settle()
    held, flooded = len(talk.session._open_requests), flooding.done()
    stuck.set()
    await flooding
    await talk.session.close()
    assert (flooded, held) == (False, 1000)


# -- progress ----------------------------------------------------------------------------------------------------------


async def tells_progress(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
    await calling.progress(1, 3, "looking")
    await calling.progress(2, None, "")
    await calling.progress(2, None, "no further than before")
    return ToolResult({})


@requirement("G13")
async def test_progress_is_told_before_the_answer_to_who_asked_for_it() -> None:
    talk = Talk(TellingHost(tells_progress))
    await talk.call(1, "wait_for_message", {}, progressToken="t")
    told = [message["params"] for message in talk.sent if message.get("method") == "notifications/progress"]
    first = {"progressToken": "t", "progress": 1, "total": 3, "message": "looking"}
    assert told == [first, {"progressToken": "t", "progress": 2}]
    assert talk.sent[-1]["id"] == 1


@pytest.mark.parametrize("meta", [{}, {"progressToken": None}, {"progressToken": 1.5}, {"progressToken": [1]}])
async def test_no_progress_is_told_without_a_token(meta: dict[str, Any]) -> None:
    talk = Talk(TellingHost(tells_progress))
    await talk.call(1, "wait_for_message", {}, **meta)
    assert [message["id"] for message in talk.sent] == [1]


async def test_no_progress_is_told_after_the_answer() -> None:
    kept: list[CallContext] = []

    async def act(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        kept.append(calling)
        return ToolResult({})

    talk = Talk(TellingHost(act))
    await talk.call(1, "wait_for_message", {}, progressToken=7)
    await kept[0].progress(1, None, "late")
    assert [message["id"] for message in talk.sent] == [1]


# -- the host's own ----------------------------------------------------------------------------------------------------


async def test_notifications_are_handed_on_and_one_that_breaks_ends_nothing() -> None:
    heard: list[str] = []

    async def listen(method: str, params: dict[str, Any]) -> None:
        heard.append(method)
        raise ValueError(method)

    talk = Talk(on_notification=listen)
    await talk.greet()
    await talk.tell("notifications/claude/channel/permission_request", request_id="abcde")
    assert heard == ["notifications/initialized", "notifications/claude/channel/permission_request"]
    assert (await talk.ask(2, "ping"))["result"] == {}


async def test_what_a_host_tells_by_itself_goes_out_as_a_notification() -> None:
    talk = Talk()
    await talk.session.notify("notifications/claude/channel", {"content": "hi", "meta": {"kind": "peer_agent"}})
    await talk.session.notify("notifications/tools/list_changed")
    assert talk.sent == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/claude/channel",
            "params": {"content": "hi", "meta": {"kind": "peer_agent"}},
        },
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"},
    ]


async def test_methods_beside_tools_are_answered_and_told() -> None:
    async def prompts(params: dict[str, Any]) -> dict[str, Any]:
        return {"prompts": []}

    talk = Talk(extra=ExtraMethods({"prompts/list": prompts}, {"prompts": {}}))
    assert (await talk.greet())["capabilities"] == {"tools": {}, "prompts": {}}
    assert (await talk.ask(1, "prompts/list"))["result"] == {"prompts": []}


async def test_an_answer_is_written_whole_although_its_request_is_cancelled_meanwhile() -> None:
    talk, half, rest = Talk(), asyncio.Event(), asyncio.Event()
    written: list[str] = []

    async def send(message: dict[str, Any]) -> None:
        written.append("first half")
        half.set()
        await rest.wait()
        written.append("second half")
        talk.sent.append(message)
        talk._more.set()

    talk.session._send = send
    await talk.begin(1, "tools/call", call_of("list_peers"))
    await half.wait()
    await talk.tell("notifications/cancelled", requestId=1)
    rest.set()
    await talk.answer(1)
    assert written == ["first half", "second half"]


async def test_a_connection_that_is_lost_while_writing_ends_no_task_with_an_error() -> None:
    talk = Talk()

    async def send(message: dict[str, Any]) -> None:
        raise BrokenPipeError("gone")

    talk.session._send = send
    await talk.begin(1, "ping")
    await talk.session.notify("notifications/message", {})
    await talk.session.close()
    assert {type(each) for each in talk.faults} == {BrokenPipeError}
