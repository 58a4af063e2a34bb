"""What the conformance suite wants of a server: registered through the registry, on test servers only. The product
declares none of it."""

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.api.mcp.responses import current_response
from molecule_core.tools.mcp_dispatcher import CallContext, ExtraMethods, ToolResult
from molecule_core.tools.spec import LocalCall, ToolAnnotations, ToolError, ToolSpec
from molecule_core.wire.protocols.jsonrpc import INVALID_PARAMS, JsonRpcMessage, RpcError
from testing.waits import IN_PROCESS_SECONDS

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
_TEXT = {"type": "text", "text": "Multiple content types test:"}
_IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
_AUDIO = {"type": "audio", "data": SOUND, "mimeType": "audio/wav"}
_HINTS = ToolAnnotations(read_only=True, destructive=False, idempotent=True, open_world=False)
Content = list[dict[str, Any]]


def _resource(uri: str, text: str, mime_type: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


CONTENTS: dict[str, Content] = {
    "test_simple_text": [{"type": "text", "text": "This is a simple text response for testing."}],
    "test_image_content": [_IMAGE],
    "test_audio_content": [_AUDIO],
    "test_embedded_resource": [
        _resource("test://embedded-resource", "This is an embedded resource content.", "text/plain")
    ],
    "test_multiple_content_types": [
        _TEXT,
        _IMAGE,
        _resource("test://mixed-content-resource", '{"test":"data","value":123}', "application/json"),
    ],
}


class Nothing(Struct, frozen=True):
    """Neither arguments nor a structured result."""


class Prompt(Struct, frozen=True):
    """test_sampling."""

    prompt: str


class Asked(Struct, frozen=True):
    """test_elicitation."""

    message: str


class Address(Struct, frozen=True):
    """Of a person."""

    street: str = ""
    city: str = ""


class Person(Struct, frozen=True, forbid_unknown_fields=True):
    """json_schema_2020_12_tool."""

    name: str = ""
    address: Address = Address()


def _spec(name: str, takes: type[Struct] = Nothing) -> ToolSpec:
    return ToolSpec(
        name=name,
        summary=f"The suite's {name}.",
        when_to_use="For tests.",
        arguments_type=takes,
        result_type=Nothing,
        call=LocalCall(name),
        section="a2a",
        annotations=_HINTS,
        cli=None,
    )


def _dialect() -> ToolSpec:
    """A tool whose schema refers to parts of itself. (Ours do not: some hosts cannot read that.)"""
    spec = _spec("json_schema_2020_12_tool", Person)
    schema = msgspec.json.schema(Person)
    address = schema["$defs"]["Address"]
    name = schema["$defs"]["Person"]["properties"]["name"]
    spec.__dict__["input_schema"] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": address},
        "properties": {"name": name, "address": {"$ref": "#/$defs/address"}},
        "additionalProperties": False,
    }
    return spec


def _choices(kind: str, key: str) -> list[dict[str, str]]:
    return [{key: f"value{n}", "title": f"{n}. {kind}"} for n in (1, 2, 3)]


_STRING = {"type": "string"}
_OPTIONS = ["option1", "option2", "option3"]
FORMS: dict[str, dict[str, Any]] = {
    "test_elicitation": {"username": _STRING, "email": _STRING},
    "test_elicitation_sep1034_defaults": {
        "name": {**_STRING, "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {**_STRING, "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "test_elicitation_sep1330_enums": {
        "untitledSingle": {**_STRING, "enum": _OPTIONS},
        "titledSingle": {**_STRING, "oneOf": _choices("Option", "const")},
        "legacyEnum": {**_STRING, "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {**_STRING, "enum": _OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": _choices("Choice", "const")}},
    },
}


class Fixtures:
    """The suite's tools and methods. (`mcp_host.Additions`.)"""

    def __init__(self) -> None:
        self.specs: Sequence[ToolSpec] = (
            *(_spec(name) for name in (*CONTENTS, "test_error_handling", "test_tool_with_logging")),
            _spec("test_tool_with_progress"),
            _spec("test_sampling", Prompt),
            _spec("test_elicitation", Asked),
            _spec("test_elicitation_sep1034_defaults"),
            _spec("test_elicitation_sep1330_enums"),
            _dialect(),
        )
        self.extra = ExtraMethods(
            methods={
                "logging/setLevel": _nothing,
                "completion/complete": _completion,
                "resources/list": _resources,
                "resources/templates/list": _templates,
                "resources/read": _read,
                "resources/subscribe": _nothing,
                "resources/unsubscribe": _nothing,
                "prompts/list": _prompts,
                "prompts/get": _prompt,
            },
            capabilities={"resources": {"subscribe": True}, "prompts": {}, "logging": {}, "completions": {}},
        )
        self._asked: dict[str, asyncio.Future[JsonRpcMessage]] = {}
        self._numbers = itertools.count(1)

    async def call(self, spec: ToolSpec, arguments: Struct, calling: CallContext) -> ToolResult:
        """Runs one of the suite's tools."""
        if spec.name in CONTENTS:
            return ToolResult({}, content=CONTENTS[spec.name])
        if spec.name == "test_error_handling":
            raise ToolError("This tool intentionally returns an error for testing")
        if spec.name == "test_tool_with_logging":
            for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
                await self._tell("notifications/message", {"level": "info", "data": text})
        if spec.name == "test_tool_with_progress":
            for value in (0, 50, 100):
                await calling.progress(value, 100, f"{value} %")
        if isinstance(arguments, Prompt):
            said = {"role": "user", "content": {"type": "text", "text": arguments.prompt}}
            answer = await self._ask("sampling/createMessage", {"messages": [said], "maxTokens": 100})
            return ToolResult({}, text=f"LLM response: {answer['result']['content']['text']}")
        if spec.name in FORMS:
            schema = {"type": "object", "properties": FORMS[spec.name], "required": []}
            message = arguments.message if isinstance(arguments, Asked) else "Please fill this in"
            answer = await self._ask("elicitation/create", {"message": message, "requestedSchema": schema})
            return ToolResult({}, text=f"Elicitation completed: {answer['result']}")
        return ToolResult({}, text=f"{spec.name} is done")

    async def _tell(self, method: str, params: dict[str, Any], **more: Any) -> None:
        outlet = current_response()
        assert outlet is not None
        await outlet.send({"jsonrpc": "2.0", "method": method, "params": params, **more})

    async def _ask(self, method: str, params: dict[str, Any]) -> JsonRpcMessage:
        """Asks the client something, over the stream of the request that is being answered."""
        id_ = f"asked-{next(self._numbers)}"
        self._asked[id_] = asyncio.get_running_loop().create_future()
        await self._tell(method, params, id=id_)
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            return await self._asked[id_]

    def client_answered(self, message: JsonRpcMessage) -> None:
        """A client has answered."""
        asked = self._asked.pop(str(message.get("id")), None)
        if asked is not None and not asked.done():
            asked.set_result(message)


async def _nothing(_params: dict[str, Any]) -> dict[str, Any]:
    return {}


async def _completion(_params: dict[str, Any]) -> dict[str, Any]:
    return {"completion": {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}}


async def _resources(_params: dict[str, Any]) -> dict[str, Any]:
    named = (("static-text", "text/plain"), ("static-binary", "image/png"), ("watched-resource", "text/plain"))
    return {
        "resources": [
            {"uri": f"test://{name}", "name": name, "description": f"The suite's {name}", "mimeType": mime_type}
            for name, mime_type in named
        ]
    }


async def _templates(_params: dict[str, Any]) -> dict[str, Any]:
    template = {"uriTemplate": "test://template/{id}/data", "name": "template", "mimeType": "application/json"}
    return {"resourceTemplates": [template]}


async def _read(params: dict[str, Any]) -> dict[str, Any]:
    uri = str(params.get("uri"))
    held: dict[str, Any] = {"uri": uri, "mimeType": "text/plain"}
    if uri == "test://static-text":
        held["text"] = "This is the content of the static text resource."
    elif uri == "test://static-binary":
        held |= {"mimeType": "image/png", "blob": PIXEL}
    elif uri.startswith("test://template/"):
        number = uri.split("/")[3]
        about = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
        held |= {"mimeType": "application/json", "text": msgspec.json.encode(about).decode()}
    else:
        raise RpcError(INVALID_PARAMS, "there is no such resource")
    return {"contents": [held]}


_PROMPTS: dict[str, tuple[str, ...]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
}


async def _prompts(_params: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompts": [
            {
                "name": name,
                "description": f"The suite's {name}",
                "arguments": [{"name": each, "required": True} for each in takes],
            }
            for name, takes in _PROMPTS.items()
        ]
    }


async def _prompt(params: dict[str, Any]) -> dict[str, Any]:
    name, given = params.get("name"), params.get("arguments") or {}
    if name == "test_prompt_with_image":
        said = [_IMAGE, {"type": "text", "text": "Please analyze the image above."}]
    elif name == "test_prompt_with_embedded_resource":
        held = _resource(str(given.get("resourceUri")), "Embedded resource content for testing.", "text/plain")
        said = [held, {"type": "text", "text": "Please process the embedded resource above."}]
    elif name == "test_prompt_with_arguments":
        text = f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
        said = [{"type": "text", "text": text}]
    else:
        said = [{"type": "text", "text": "This is a simple prompt for testing."}]
    return {"messages": [{"role": "user", "content": each} for each in said]}
