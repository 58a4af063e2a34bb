"""Specification of a platform tool: its call, arguments, result and purpose.

Called by `tools/registry.py`, which declares each tool once.
"""

from difflib import get_close_matches
from functools import cached_property
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, structs

from molecule_core.common.text import truncate_line

IDENTITY_ARGUMENT = "via_workspace"
"""The argument that names the workspace to act as."""
LEGACY_IDENTITY_ARGUMENT = "workspace_id"
"""Its name in four tools that are older than the common name."""
IDENTITY_ALIASES = ("source_workspace_id", "_as_workspace")
"""Names of that argument in older agents. Accepted, but not documented."""

MALFORMED_ARGUMENTS = NOT_JSON, NOT_AN_OBJECT = "not_json", "not_an_object"
"""Arguments that hold the text of a model that wrote no object: no tool takes them, and none passes them over."""
APPROVAL_ARGUMENT, APPROVAL_HEADER = "approval_id", "x-molecule-approval"
"""The argument, and the header, with which a call that a rule stopped is repeated once it is approved."""

NO_ANSWER_CODE = "no_answer"
"""The error code for requests that the server did not answer. Work that has begun continues there; waiting callers
retry."""

TOOL_SECTIONS = ("a2a", "collab", "approvals", "inbox", "memory")
# Error messages quote at most this much of the model's input, enough to find the mistake.
_MAX_QUOTED_LENGTH = 300


class ToolError(Exception):
    """A rejected tool call. `text` is for the model: the error and what to do; `code` is the error code.

    `is_transient`: the error is not about the call itself, so waiting callers retry."""

    def __init__(self, text: str, code: str = "tool_failed", *, is_transient: bool = False) -> None:
        self.text = text
        self.code = code
        self.is_transient = is_transient or code == NO_ANSWER_CODE
        super().__init__(text)


def unknown_answer_error(detail: str) -> ToolError:
    """Build the error for a response of an unknown shape."""
    return ToolError(
        f"the format of the server's response is unknown ({detail}). The request may have been carried out. Inform "
        "the person that the agent and the server have different versions.",
        "unknown_answer",
    )


class BadArgumentsError(ToolError):
    """The arguments of a call do not match the tool."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "bad_arguments")


class RouteCall(Struct, frozen=True):
    """A route of the public API. `{workspace_id}` in its path is always the caller's workspace."""

    method: str
    path: str
    query: dict[str, str] = {}
    """Argument -> query parameter."""
    path_arguments: dict[str, str] = {}
    """Argument -> other path parameter."""
    body: dict[str, str] = {}
    """Argument -> member of the body."""
    workspace_member: str = ""
    """The member of the body that names the caller's workspace, for routes without it in their path."""
    keyed: bool = False
    """Whether the server acts once for all requests with the same Idempotency-Key."""
    list_member: str = ""
    """The member of the tool's result that holds the response, for routes that return a list."""


class LocalCall(Struct, frozen=True):
    """An operation that takes more than one request, implemented by each host of the tools."""

    name: str


class ToolAnnotations(Struct, frozen=True, kw_only=True):
    """Hints that a host may show people before a call.

    All four are always set: hosts assume the worse value for a missing one."""

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


# Share of equal characters from which a name counts as a misspelling: `timeout_sec` for `timeout_secs`.
_NEAR_MISS = 0.75
_MAX_NAMES = 5


def _plain_name(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _accepts_text(schema: dict[str, Any]) -> bool:
    """Return whether a value of a JSON Schema may be a text."""
    choices = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if choices:
        return any(_accepts_text(each) for each in choices)
    kinds = schema.get("type")
    if kinds is None:
        return not any(not isinstance(each, str) for each in schema.get("enum", ()))
    return kinds == "string" or (isinstance(kinds, list) and "string" in kinds)


class ToolSpec(Struct, frozen=True, kw_only=True, dict=True):
    """A platform tool."""

    name: str
    summary: str
    """One line; the MCP description begins with it."""
    when_to_use: str
    """A paragraph."""
    arguments_type: type[Struct]
    """The arguments, each with a description and bounds; others are rejected."""
    result_type: type[Struct]
    """The structured result. It is complete, since some hosts show a model nothing else."""
    call: RouteCall | LocalCall
    section: str
    annotations: ToolAnnotations
    cli: str | None
    """Its command on the command line; None: only `molecule tool NAME`."""
    always_load: bool = False
    """Whether hosts that hide tools behind a search must always show this one."""

    @property
    def description(self) -> str:
        """Return the description that a model reads before a call."""
        return f"{self.summary}\n\n{self.when_to_use}"

    @property
    def identity_argument(self) -> str | None:
        """Return the argument that names the caller's workspace.

        None for tools about all of the agent's workspaces."""
        if IDENTITY_ARGUMENT in self.arguments_type.__struct_fields__:
            return IDENTITY_ARGUMENT
        has_legacy = LEGACY_IDENTITY_ARGUMENT in self.arguments_type.__struct_fields__
        return LEGACY_IDENTITY_ARGUMENT if has_legacy else None

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """Return the arguments as JSON Schema 2020-12 without references."""
        return json_schema_of(self.arguments_type)

    @cached_property
    def output_schema(self) -> dict[str, Any]:
        """Return the result as JSON Schema 2020-12 without references."""
        return json_schema_of(self.result_type)

    def parse_arguments(self, provided: object) -> Struct:
        """Parse the arguments of a call; null members count as absent. Raises BadArgumentsError.

        Hosts send some values as text: where the schema has no text, it is read once as JSON. Unknown members are
        passed over (see `unknown_arguments`), unless one is nearly the name of a known one."""
        if provided is None:
            provided = {}
        if not isinstance(provided, dict):
            raise BadArgumentsError(f"{self.name}: the arguments must be a JSON object. {self._usage_text()}")
        known = {name: value for name, value in provided.items() if value is not None}
        known = self._merge_identity(known)
        for name in self.unknown_arguments(provided):
            known.pop(name, None)
        try:
            return msgspec.convert(
                {name: self._read_text(name, each) for name, each in known.items()}, self.arguments_type
            )
        except msgspec.ValidationError as error:
            detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
            raise BadArgumentsError(f"{self.name}: {detail}. {self._usage_text()}") from None

    def unknown_arguments(self, provided: object) -> list[str]:
        """Return the names of members that a call has beside those of the schema, without near misses."""
        # A workspace to act as is never passed over, also by a tool that acts as all of them.
        names = [*self.input_schema["properties"], *IDENTITY_ALIASES, "via_workspace"]
        given = provided if isinstance(provided, dict) else {}
        return [
            name
            for name in given
            if isinstance(name, str)
            and name not in (*names, *MALFORMED_ARGUMENTS)
            and not get_close_matches(_plain_name(name), map(_plain_name, names), n=1, cutoff=_NEAR_MISS)
        ]

    def unknown_note(self, provided: object) -> str:
        """Return a sentence about members that a call has and the tool has not; empty if there are none."""
        names = [truncate_line(name, _MAX_QUOTED_LENGTH) for name in self.unknown_arguments(provided)[:_MAX_NAMES]]
        return f"{self.name} has no argument {', '.join(names)}: it was ignored." if names else ""

    def _read_text(self, name: str, value: object) -> object:
        """Return what a text says as JSON, if the member cannot be a text; else the value."""
        schema = self.input_schema["properties"].get(name)
        if not isinstance(value, str) or schema is None or _accepts_text(schema):
            return value
        try:
            return msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError):
            return value

    def _merge_identity(self, provided: dict[Any, Any]) -> dict[Any, Any]:
        names = (self.identity_argument, *IDENTITY_ALIASES) if self.identity_argument else ()
        ids = {provided.pop(name) for name in names if isinstance(provided.get(name), str)} - {""}
        if len(ids) > 1:
            raise BadArgumentsError(
                f"{self.name}: the arguments name two different workspaces to act as. Set only "
                f"{self.identity_argument}."
            )
        return {**provided, self.identity_argument: ids.pop()} if ids else provided

    def _usage_text(self) -> str:
        required = ", ".join(self.input_schema.get("required", ())) or "nothing"
        others = [name for name in self.input_schema["properties"] if name not in self.input_schema.get("required", ())]
        optional_text = f". Optional: {', '.join(others)}" if others else ""
        return f"Required: {required}{optional_text}. Correct the arguments and call the tool again."

    def caller_workspace(self, arguments: Struct) -> str:
        """Return the workspace that the arguments name to act as, or an empty string."""
        return str(getattr(arguments, self.identity_argument)) if self.identity_argument else ""

    def to_request(self, workspace_id: str, arguments: Struct) -> ToolRequest:
        """Return the request of a call from a workspace.

        Raises BadArgumentsError, or TypeError if the tool is not a route."""
        route = self.call
        if isinstance(route, LocalCall):
            raise TypeError(f"{self.name} is not a route")
        provided = {name: value for name, value in structs.asdict(arguments).items() if value not in _OMITTED_VALUES}
        values = {name: provided[argument] for argument, name in route.path_arguments.items() if argument in provided}
        workspace_field = {route.workspace_member: workspace_id} if route.workspace_member else {}
        body = {name: provided[argument] for argument, name in route.body.items() if argument in provided}
        return ToolRequest(
            route.method,
            _fill_path(route.path, {"workspace_id": workspace_id, **values}),
            {name: provided[argument] for argument, name in route.query.items() if argument in provided},
            {**workspace_field, **body} if route.body or route.workspace_member else None,
        )

    def convert_result(self, workspace_id: str, response: Any) -> dict[str, Any]:
        """Convert a route's response to the tool's result. Raises ToolError for an unknown shape."""
        if isinstance(self.call, RouteCall) and self.call.list_member:
            response = {self.call.list_member: response}
        if isinstance(response, dict) and "workspace_id" in self.result_type.__struct_fields__:
            response = {"workspace_id": workspace_id, **response}
        try:
            converted: dict[str, Any] = msgspec.to_builtins(msgspec.convert(response, self.result_type))
        except msgspec.ValidationError as error:
            detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
            raise ToolError(
                f"{self.name}: the format of the server's response is unknown ({detail}). The request may have been "
                "carried out. Inform the person that the agent and the server have different versions.",
                "unknown_answer",
            ) from None
        return converted


_OMITTED_VALUES: tuple[Any, ...] = (UNSET, "", [], {})


def _fill_path(path: str, values: dict[str, Any]) -> str:
    """Fill in the parameters of a path.

    Raises BadArgumentsError if one is missing or could change the path."""
    segments = []
    for segment in path.split("/"):
        name = segment.removeprefix("{").removesuffix("}")
        if name == segment:
            segments.append(segment)
            continue
        value = str(values.get(name, ""))
        if not value.strip("."):
            raise BadArgumentsError(f"{name} cannot be {value!r}. Correct {name} and call the tool again.")
        segments.append(quote(value, safe=""))
    return "/".join(segments)


def json_schema_of(shape: type[Struct]) -> dict[str, Any]:
    """Return a type as self-contained JSON Schema 2020-12.

    References are inlined, so recursive types are not supported. Titles are omitted, since they repeat names."""
    schema = msgspec.json.schema(shape)
    definitions = schema.pop("$defs", {})
    inlined: dict[str, Any] = _inline_refs(schema, definitions)
    inlined.pop("description", None)  # the description of the tool covers it
    return inlined


def _inline_refs(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_inline_refs(each, definitions) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        target = definitions[value["$ref"].removeprefix("#/$defs/")]
        siblings = {name: each for name, each in value.items() if name != "$ref"}
        return _inline_refs({**target, **siblings}, definitions)
    if "properties" in value:  # a property may itself be named `title`
        properties = {name: _inline_refs(each, definitions) for name, each in value["properties"].items()}
        rest = {name: each for name, each in value.items() if name != "properties"}
        return {**_inline_refs(rest, definitions), "properties": properties}
    type_member = {"type": "string"} if "enum" in value else {}  # some hosts reject an enum without a type
    return {**type_member, **{name: _inline_refs(each, definitions) for name, each in value.items() if name != "title"}}
