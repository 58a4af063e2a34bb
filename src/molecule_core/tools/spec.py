"""What a platform tool is. One spec says all about it: how it is called, what it takes and gives, what it is for.

Above: `tools/registry.py`, which declares each tool once; everything else that speaks of tools is made from there.
"""

from enum import Enum
from functools import cached_property
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, structs

from molecule_core.common.text import truncate_line

IDENTITY_ARGUMENT = "via_workspace"
"""The argument that says as which of its workspaces an agent calls."""
LEGACY_IDENTITY_ARGUMENT = "workspace_id"
"""What four tools have called it since before there was a common name."""
IDENTITY_ALIASES = ("source_workspace_id", "_as_workspace")
"""Names under which older agents know that argument. Taken, and shown nowhere."""

APPROVAL_ARGUMENT, APPROVAL_HEADER = "approval_id", "x-molecule-approval"
"""The argument by which a call that a rule has stopped is made again once it is approved, and the header for it."""

NO_ANSWER_CODE = "no_answer"
"""The short name of what a tool says when the server did not answer: what has begun goes on there, and who waits for it
asks again."""

TOOL_SECTIONS = ("a2a", "collab", "approvals", "inbox", "memory")
# A refusal repeats no more of what a model wrote than the model needs to find its mistake.
_MAX_QUOTED_LENGTH = 300


class ToolError(Exception):
    """A tool was refused. The text is for the model: what is wrong and what to do; `code` is the refusal's short name;
    `passes`: whether it says nothing of what was asked, so that who waits for something asks again."""

    def __init__(self, text: str, code: str = "tool_failed", *, is_transient: bool = False) -> None:
        self.text = text
        self.code = code
        self.is_transient = is_transient or code == NO_ANSWER_CODE
        super().__init__(text)


def unknown_answer_error(detail: str) -> ToolError:
    """The server answered, and nobody knows what that means."""
    return ToolError(
        f"the server answered something that this version does not know ({detail}). What was asked may have been done. "
        "Tell the person that agent and server differ in version.",
        "unknown_answer",
    )


class BadArgumentsError(ToolError):
    """The arguments of a call do not fit the tool."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "bad_arguments")


class RouteCall(Struct, frozen=True):
    """A route of the public API. `{workspace_id}` in its path is always the seat of the caller."""

    method: str
    path: str
    query: dict[str, str] = {}
    """argument -> field of the query"""
    path_arguments: dict[str, str] = {}
    """argument -> another parameter of the path"""
    body: dict[str, str] = {}
    """argument -> member of the body"""
    workspace_member: str = ""
    """The member of the body that names the caller's seat, for routes whose path does not."""
    keyed: bool = False
    """Whether the server acts once for all requests that carry the same Idempotency-Key."""
    list_member: str = ""
    """The member of the tool's result that holds the answer, where the route answers with a list."""


class LocalCall(Struct, frozen=True):
    """A verb that takes more than one route, so that each host of the tools has its own way to do it."""

    name: str


class ToolAnnotations(Struct, frozen=True, kw_only=True):
    """What a host may tell people before it calls a tool. All four are always said: a missing one counts as the worse
    answer."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool


class ToolRequest(Struct, frozen=True):
    """A call as a request of the public API."""

    method: str
    path: str
    query: dict[str, Any]
    body: dict[str, Any] | None


class ToolSpec(Struct, frozen=True, kw_only=True, dict=True):
    """A platform tool."""

    name: str
    summary: str
    """One line; the MCP description begins with it."""
    when_to_use: str
    """A paragraph."""
    arguments_type: type[Struct]
    """The arguments: no others are taken, each has a description and bounds."""
    result_type: type[Struct]
    """The structured result, complete by itself: some hosts show a model nothing else."""
    call: RouteCall | LocalCall
    section: str
    annotations: ToolAnnotations
    cli: str | None
    """The word of the command line for it; None: `molecule tool NAME` only."""
    always_load: bool = False
    """Whether a host that hides tools until a model searches for them must show this one."""

    @property
    def description(self) -> str:
        """What a model reads of the tool before it calls it."""
        return f"{self.summary}\n\n{self.when_to_use}"

    @property
    def identity_argument(self) -> str | None:
        """The argument that names the caller's seat; None if the tool is about all of the agent's seats."""
        if IDENTITY_ARGUMENT in self.arguments_type.__struct_fields__:
            return IDENTITY_ARGUMENT
        named = LEGACY_IDENTITY_ARGUMENT in self.arguments_type.__struct_fields__
        return LEGACY_IDENTITY_ARGUMENT if named else None

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """The arguments as JSON Schema 2020-12, without references."""
        return json_schema_of(self.arguments_type)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """The result as JSON Schema 2020-12, without references."""
        return json_schema_of(self.result_type)

    def parse_arguments(self, provided: object) -> Struct:
        """The arguments of a call; null counts as not given. Raises BadArguments."""
        if provided is None:
            provided = {}
        if not isinstance(provided, dict):
            raise BadArgumentsError(f"{self.name}: the arguments must be a JSON object. {self._usage_text()}")
        known = {name: value for name, value in provided.items() if value is not None}
        known = self._merge_identity(known)
        try:
            return msgspec.convert(known, self.arguments_type)
        except msgspec.ValidationError as error:
            detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
            raise BadArgumentsError(f"{self.name}: {detail}. {self._usage_text()}") from None

    def _merge_identity(self, provided: dict[Any, Any]) -> dict[Any, Any]:
        names = (self.identity_argument, *IDENTITY_ALIASES) if self.identity_argument else ()
        ids = {provided.pop(name) for name in names if isinstance(provided.get(name), str)} - {""}
        if len(ids) > 1:
            raise BadArgumentsError(
                f"{self.name}: two different workspaces are named to act as; give {self.identity_argument} once."
            )
        return {**provided, self.identity_argument: ids.pop()} if ids else provided

    def _usage_text(self) -> str:
        needed = ", ".join(self.input_schema.get("required", ())) or "nothing"
        others = [name for name in self.input_schema["properties"] if name not in self.input_schema.get("required", ())]
        more = f", and may be given {', '.join(others)}" if others else ""
        return f"It needs {needed}{more}. Correct the arguments and call it again."

    def caller_workspace(self, arguments: Struct) -> str:
        """The seat that a call names as the caller's; empty if it names none."""
        return str(getattr(arguments, self.identity_argument)) if self.identity_argument else ""

    def to_request(self, workspace_id: str, arguments: Struct) -> ToolRequest:
        """The request that this call is, from a seat. Only for a tool that is a route. Raises BadArguments."""
        route = self.call
        if isinstance(route, LocalCall):
            raise TypeError(f"{self.name} is no route")
        provided = {name: value for name, value in structs.asdict(arguments).items() if value not in _OMITTED_VALUES}
        values = {name: provided[argument] for argument, name in route.path_arguments.items() if argument in provided}
        workspace_field = {route.workspace_member: workspace_id} if route.workspace_member else {}
        sent = {name: provided[argument] for argument, name in route.body.items() if argument in provided}
        return ToolRequest(
            route.method,
            _fill_path(route.path, {"workspace_id": workspace_id, **values}),
            {name: provided[argument] for argument, name in route.query.items() if argument in provided},
            {**workspace_field, **sent} if route.body or route.workspace_member else None,
        )

    def convert_result(self, workspace_id: str, answer: Any) -> dict[str, Any]:
        """What a route answered, in the shape that the tool promises. Raises ToolError if it is something else."""
        if isinstance(self.call, RouteCall) and self.call.list_member:
            answer = {self.call.list_member: answer}
        if isinstance(answer, dict) and "workspace_id" in self.result_type.__struct_fields__:
            answer = {"workspace_id": workspace_id, **answer}
        try:
            shaped: dict[str, Any] = msgspec.to_builtins(msgspec.convert(answer, self.result_type))
        except msgspec.ValidationError as error:
            detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
            raise ToolError(
                f"{self.name}: the server answered something that this version does not know ({detail}). What was asked "
                "may have been done. Tell the person that agent and server differ in version.",
                "unknown_answer",
            ) from None
        return shaped


_OMITTED_VALUES: tuple[Any, ...] = (UNSET, "", [], {})


def _fill_path(path: str, values: dict[str, Any]) -> str:
    """A path with its parameters. Raises BadArguments if one is missing, or would lead somewhere else."""
    segments = []
    for segment in path.split("/"):
        name = segment.removeprefix("{").removesuffix("}")
        if name == segment:
            segments.append(segment)
            continue
        value = str(values.get(name, ""))
        if not value.strip("."):
            raise BadArgumentsError(f"{name} must name something; {value!r} does not. Correct it and call again.")
        segments.append(quote(value, safe=""))
    return "/".join(segments)


def json_schema_of(shape: type[Struct]) -> dict[str, Any]:
    """A shape as JSON Schema 2020-12 that stands alone: what is referred to stands where it is referred to from, and
    titles, which repeat names, are left out. A shape that holds itself cannot be written so."""
    schema = msgspec.json.schema(shape)
    parts = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inline_refs(schema, parts)
    inlined.pop("description", None)  # of a tool, the description says it
    return inlined


def _inline_refs(value: Any, parts: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inline_refs(each, parts) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        target = parts[value["$ref"].removeprefix("#/$defs/")]
        beside = {name: each for name, each in value.items() if name != "$ref"}
        return _inline_refs({**target, **beside}, parts)
    if "properties" in value:  # whose members may well be called `title`
        named = {name: _inline_refs(each, parts) for name, each in value["properties"].items()}
        rest = {name: each for name, each in value.items() if name != "properties"}
        return {**_inline_refs(rest, parts), "properties": named}
    typed = {"type": "string"} if "enum" in value else {}  # some hosts take no choice without one
    return {**typed, **{name: _inline_refs(each, parts) for name, each in value.items() if name != "title"}}


class Runtime(Enum):
    """A program that hosts agents, as far as it has its own way to call tools. The value is the pattern of a tool's
    name."""

    CLAUDE_CODE = "mcp__{server}__{tool}"
    CODEX = "mcp__{server}.{tool}"
    GEMINI_CLI = "mcp_{server}_{tool}"
    OPENCODE = "{server}_{tool}"
    CLINE = "{server}__{tool}"
    BARE = "{tool}"
    """LangChain, OpenAI Agents, Pydantic AI, the command line."""


# How the names begin that programs give themselves, and that workspaces have as their runtime.
_RUNTIME_NAME_PREFIXES = (
    ("claude", Runtime.CLAUDE_CODE),
    ("codex", Runtime.CODEX),
    ("gemini", Runtime.GEMINI_CLI),
    ("opencode", Runtime.OPENCODE),
    ("cline", Runtime.CLINE),
)


def runtime_for_name(name: str) -> Runtime:
    """How a program of this name calls tools; one that is not known calls them by their bare names."""
    lowered = name.lower()
    return next((runtime for start, runtime in _RUNTIME_NAME_PREFIXES if lowered.startswith(start)), Runtime.BARE)


SERVER_NAME = "molecule"
"""What our server is called in the configuration of a host, and so in the names of its tools."""


def tool_name(tool: str, runtime: Runtime = Runtime.BARE, server: str = SERVER_NAME) -> str:
    """The name under which a runtime's model knows a tool."""
    return runtime.value.format(server=server, tool=tool)
