"""The official SDK's client and our dispatcher face to face, without a network: both eras, and what the client checks
by itself (schemas, results that keep to them, cancellation, progress)."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import jsonschema
import msgspec
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCMessage, TextContent
from msgspec import Struct
from pydantic import TypeAdapter

from molecule_core.tools.mcp_dispatcher import CallContext, McpClientSession, SessionMode, ToolResult
from molecule_core.tools.registry import TOOLS
from molecule_core.tools.spec import ToolError, ToolSpec
from testing.waits import bounded
from tests.requirements import requirement
from tests.tools.mcp_session import Act, TellingHost

_MESSAGES: TypeAdapter[Any] = TypeAdapter(JSONRPCMessage)
MODES = {"legacy": "2025-11-25", "auto": "2026-07-28"}


class Pair:
    """A transport of the SDK whose other end is a session of ours."""

    def __init__(self, host: TellingHost, eras: SessionMode) -> None:
        self._host = host
        self._eras = eras

    async def __aenter__(self) -> Any:
        self._to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](100)
        to_server, self._from_client = anyio.create_memory_object_stream[SessionMessage](100)
        self.session = McpClientSession(self._host, self._send, mode=self._eras)
        self._pumping = asyncio.create_task(self._pump())
        return from_server, to_server

    async def _send(self, message: dict[str, Any]) -> None:
        await self._to_client.send(SessionMessage(_MESSAGES.validate_json(msgspec.json.encode(message))))

    async def _pump(self) -> None:
        async for envelope in self._from_client:
            line = envelope.message.model_dump_json(by_alias=True, exclude_unset=True)
            await self.session.receive_line(line.encode())

    async def __aexit__(self, *_: object) -> None:
        self._pumping.cancel()
        await asyncio.gather(self._pumping, return_exceptions=True)
        await self.session.close()
        await self._to_client.aclose()
        await self._from_client.aclose()


@asynccontextmanager
async def client_of(act: Act, mode: str, *, tools: Sequence[ToolSpec] = TOOLS) -> AsyncIterator[Client]:
    """A client that is connected to a host whose tools do this."""
    async with Client(Pair(TellingHost(act, tools), SessionMode.BOTH), mode=mode) as client:
        yield client


def sample(schema: dict[str, Any]) -> Any:
    """The smallest value that keeps to a schema."""
    if "anyOf" in schema:
        return sample(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    by_type: dict[str, Callable[[], Any]] = {
        "object": lambda: {
            name: sample(each)
            for name, each in schema.get("properties", {"a": schema.get("additionalProperties") or {}}).items()
        },
        "array": lambda: [sample(schema["items"])],
        "string": lambda: schema.get("default") or "x",
        "integer": lambda: schema.get("minimum", 0),
        "number": lambda: schema.get("minimum", 0),
        "boolean": lambda: True,
    }
    return by_type[schema["type"]]() if "type" in schema else None


async def give_sample(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
    return ToolResult(sample(spec.output_schema))


@requirement("G3", "G13")
@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_calls_and_checks_every_tool(mode: str) -> None:
    async with client_of(give_sample, mode) as client:
        assert client.protocol_version == MODES[mode]
        assert client.instructions == "Answer through these tools."
        listed = (await bounded(client.list_tools())).tools
        assert [each.name for each in listed] == [spec.name for spec in TOOLS]
        for spec, tool in zip(TOOLS, listed, strict=True):
            assert tool.annotations is not None and tool.annotations.read_only_hint is spec.annotations.read_only
            assert (tool.meta or {}).get("anthropic/alwaysLoad", False) is spec.always_load
            result = await bounded(client.call_tool(spec.name, sample(spec.input_schema)))
            assert not result.is_error, result
            assert result.structured_content == sample(spec.output_schema)


@requirement("G3")
@pytest.mark.parametrize("spec", TOOLS, ids=lambda spec: spec.name)
def test_both_schemas_are_json_schema_2020_12(spec: ToolSpec) -> None:
    for schema in (spec.input_schema, spec.output_schema):
        jsonschema.Draft202012Validator.check_schema(schema)
        jsonschema.Draft202012Validator(schema).validate(sample(schema))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(spec.input_schema).validate({"no such argument": 1})


@pytest.mark.parametrize("mode", MODES)
async def test_a_result_that_breaks_its_promise_is_noticed_by_the_client(mode: str) -> None:
    async def give_nothing(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        return ToolResult({})

    async with client_of(give_nothing, mode) as client:
        await bounded(client.list_tools())
        with pytest.raises(RuntimeError, match="structured content"):
            await bounded(client.call_tool("list_peers", {}))


@pytest.mark.parametrize("mode", MODES)
async def test_refusals_reach_the_client_as_results_and_unknown_methods_as_errors(mode: str) -> None:
    async def refuse(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        raise ToolError("name one of: a, b")

    async with client_of(refuse, mode) as client:
        for tool, said in (
            ("list_peers", "name one of"),
            ("send_message_to_user", "Required: message"),
            ("no_such_tool", "Available tools: reply, decline"),
        ):
            result = await bounded(client.call_tool(tool, {}))
            assert result.is_error
            (content,) = result.content
            assert isinstance(content, TextContent)
            assert said in content.text
        with pytest.raises(MCPError, match="no method"):
            await bounded(client.list_prompts())


@pytest.mark.parametrize("mode", MODES)
async def test_the_client_is_told_of_progress_while_it_waits(mode: str) -> None:
    told: list[tuple[float, float | None, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def act(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        await calling.progress(1, 60, "no message yet")
        return ToolResult(sample(spec.output_schema))

    async with client_of(act, mode) as client:
        await bounded(client.call_tool("wait_for_message", {}, progress_callback=listen))
    assert told == [(1, 60, "no message yet")]


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_gives_up_ends_the_tool_and_goes_on(mode: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def act(spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        if spec.name == "wait_for_message":
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()
        return ToolResult(sample(spec.output_schema))

    async with client_of(act, mode) as client:
        waiting = asyncio.create_task(client.call_tool("wait_for_message", {}))
        await bounded(begun.wait())
        waiting.cancel()
        await bounded(ended.wait())
        assert not (await bounded(client.call_tool("list_peers", {}))).is_error
