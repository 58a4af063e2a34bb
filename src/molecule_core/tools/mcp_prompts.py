"""Prompts of the MCP servers, which hosts show as slash commands: ask, delegate, inbox. Completes names of workspaces.

Called by `tools/mcp_dispatcher.py`. A prompt is what a person says to the agent: the person's words stay as they are,
and names of workspaces are data.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.common.text import single_line, truncate_line
from molecule_core.tools.mcp_features import (
    UNKNOWN_CODES,
    CallerWorkspaces,
    FeatureMethod,
    FeatureRequest,
    to_rpc_error,
)
from molecule_core.tools.runners.requester import Requester
from molecule_core.tools.spec import IDENTITY_ARGUMENT, ToolError
from molecule_core.wire.protocols.jsonrpc import INVALID_PARAMS, RpcError, as_object
from molecule_core.wire.schemas.runtimes import Runtime, tool_name

MAX_ARGUMENT_LENGTH = 20_000
"""Longest argument of a prompt, characters."""
MAX_COMPLETIONS = 100
"""The protocol's own bound of one answer."""
# From these versions on, clients know the members.
_TITLES_SINCE, _COMPLETIONS_SINCE = "2025-06-18", "2025-03-26"
_MAX_NAME = 120
_MAX_QUOTED, _MAX_CANDIDATES = 100, 5
_BLANK, _QUOTES = re.compile(r"\s"), "\"'“”"
# Claude Code gives each argument one word of what a person types, and drops the rest. Its model sees the whole line.
_ONE_WORD_NOTE = (
    "If I typed more words after the command than are shown here, use all of them. If this is no complete sentence and "
    "you cannot see more, ask me for the whole text before you call a tool."
)
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class PromptArgument(Struct, frozen=True):
    """An argument of a prompt. `is_workspace`: it is the name or id of a workspace, and can be completed."""

    name: str
    description: str
    required: bool = True
    is_workspace: bool = False


class PromptSpec(Struct, frozen=True):
    """A prompt. `text`: its text with places for arguments and names of tools."""

    name: str
    title: str
    description: str
    arguments: tuple[PromptArgument, ...]
    text: str


_WORKSPACE = PromptArgument("workspace", "Name or id of the workspace.", is_workspace=True)

PROMPTS = (
    PromptSpec(
        "ask",
        "Ask a workspace",
        "Ask another workspace a question and show its answer.",
        (_WORKSPACE, PromptArgument("question", "The question.")),
        "Ask the workspace {workspace} the question below. Call {delegate_task} with {target}. Put the question into "
        "`task`, with everything that is needed to answer it: the workspace cannot see this conversation. Then show "
        "me the answer. If the call returns before there is an answer, say so: the answer arrives in your inbox.\n\n"
        "Question:\n{question}",
    ),
    PromptSpec(
        "delegate",
        "Delegate a task",
        "Delegate a task to another workspace and go on working.",
        (_WORKSPACE, PromptArgument("task", "The task.")),
        "Delegate the task below to the workspace {workspace}. Call {delegate_task_async} with {target}. Put the task "
        "into `task`, with everything that is needed to do it: the workspace cannot see this conversation. Then show "
        "me the task_id and the status. Do not wait: the result arrives in your inbox.\n\n"
        "Task:\n{task}",
    ),
    PromptSpec(
        "inbox",
        "Show the inbox",
        "List the open messages of your inbox.",
        (PromptArgument("workspace", "Only messages from this workspace (name or id).", False, is_workspace=True),),
        "Call {inbox_peek}. List the open messages{sender}, oldest first: for each the sender, the time, what it is "
        "about in one sentence, and whether it needs an answer. If there are none, say so. Answer and acknowledge no "
        "message until I say which.",
    ),
)
"""All prompts, in the order of the listing. They are the same for every client and never change in a session."""

_TOOLS = ("delegate_task", "delegate_task_async", "inbox_peek")


class PromptFeature:
    """The prompts, and the completion of their arguments. Implements `McpFeature`.

    `runtime`: returns the program that the tools are named for."""

    def __init__(self, workspaces: CallerWorkspaces, runtime: Callable[[], Runtime]) -> None:
        self._workspaces = workspaces
        self._runtime = runtime

    def capabilities(self, version: str) -> dict[str, Any]:
        """Return the announcement. The list never changes, so no change is announced."""
        return {"prompts": {}, **({"completions": {}} if version >= _COMPLETIONS_SINCE else {})}

    def methods(self, version: str) -> Mapping[str, FeatureMethod]:
        """Return the methods."""
        return {
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
        }

    async def _list_prompts(self, request: FeatureRequest) -> dict[str, Any]:
        return {"prompts": [_listing(each, request.version) for each in PROMPTS]}

    async def _get_prompt(self, request: FeatureRequest) -> dict[str, Any]:
        spec = _find_prompt(request.params.get("name"))
        values = _checked_arguments(spec, request.params.get("arguments"))
        names = await self._names(values.pop("workspace", "").strip().strip(_QUOTES))
        text = spec.text.format(**values, **names)
        if any(value and not _BLANK.search(value.strip()) for value in values.values()):
            text = f"{text}\n\n{_ONE_WORD_NOTE}"
        return {
            "description": spec.description,
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }

    async def _names(self, query: str) -> dict[str, str]:
        """Return the places of a text that are not the person's words: names of tools, and of the workspace."""
        runtime = self._runtime()
        names = {each: f"`{tool_name(each, runtime)}`" for each in _TOOLS}
        if not query:
            return {**names, "sender": ""}
        peer = await self._find_peer(query)
        target = f'`workspace_id` "{peer.id}"'
        if peer.via:
            target = f'{target} and `{IDENTITY_ARGUMENT}` "{peer.via}"'
        shown = f"{_quote(peer.name)} ({peer.id})"
        return {**names, "workspace": shown, "target": target, "sender": f" from the workspace {shown}"}

    # -- workspaces ----------------------------------------------------------------------------------------------------

    async def _find_peer(self, query: str) -> "_Peer":
        """Return the only workspace that a name or an id means. Raises RpcError."""
        peers = await self._peers(query)
        for is_meant in (
            lambda peer: peer.id == query,
            lambda peer: peer.name.casefold() == query.casefold(),
            lambda peer: query.casefold() in peer.name.casefold(),
        ):
            found = {peer.id: peer for peer in peers if is_meant(peer)}
            if len(found) == 1:
                return next(iter(found.values()))
            if found:
                raise RpcError(
                    INVALID_PARAMS,
                    f"{_shown(query)} is the name of {len(found)} workspaces. Use the id of one: {_candidates(found)}.",
                )
        raise RpcError(
            INVALID_PARAMS,
            f"workspace {_shown(query)} not found. Use the name or the id of a workspace that you may message.",
        )

    async def _peers(self, query: str) -> "list[_Peer]":
        """Return the workspaces that a name or an id may mean, of all workspaces of the caller."""
        workspaces = await self._workspaces()
        peers = list[_Peer]()
        for each in workspaces:
            via = each.id if len(workspaces) > 1 else ""
            peers += await _peers_of(each.requester, each.id, query, via)
        return peers

    # -- completion ----------------------------------------------------------------------------------------------------

    async def _complete(self, request: FeatureRequest) -> dict[str, Any]:
        reference, argument = as_object(request.params.get("ref")), as_object(request.params.get("argument"))
        name, value = argument.get("name"), argument.get("value")
        if not isinstance(name, str) or not isinstance(value, str):
            raise RpcError(INVALID_PARAMS, "argument must have a name and a value. Send both as text.")
        kind = reference.get("type")
        if kind == "ref/resource":  # ids are no names that a person types
            return _completion([])
        if kind != "ref/prompt":
            raise RpcError(INVALID_PARAMS, "ref has an unknown type. Use ref/prompt or ref/resource.")
        spec = _find_prompt(reference.get("name"))
        found = next((each for each in spec.arguments if each.name == name), None)
        if found is None:
            raise RpcError(INVALID_PARAMS, f"prompt {spec.name} has no argument {_shown(name)}.")
        return _completion(await self._names_like(value) if found.is_workspace else [])

    async def _names_like(self, value: str) -> list[str]:
        """Return names of workspaces with this text, those that begin with it first; ids where a name is not unique."""
        query = value.strip().casefold()
        peers = {each.id: each for each in await self._peers(value.strip())}
        found = [each for each in peers.values() if query in each.name.casefold()]
        names = [each.name.casefold() for each in found]
        ranked = sorted(found, key=lambda each: (not each.name.casefold().startswith(query), each.name.casefold()))
        # A name that is shown on one line only in part could not be typed back.
        return [
            each.name
            if names.count(each.name.casefold()) == 1 and single_line(each.name, _MAX_NAME) == each.name
            else each.id
            for each in ranked
        ]


class _Peer(Struct, frozen=True):
    """A workspace that the caller may message. `via`: the caller's workspace, if there are several."""

    id: str
    name: str
    via: str = ""


async def _peers_of(requester: Requester, workspace_id: str, query: str, via: str) -> list[_Peer]:
    """Return the peers of a workspace whose name may match, or the one whose id it is. Raises RpcError."""
    search = single_line(query, _MAX_NAME)
    try:
        rows = await requester.call("GET", f"/registry/{workspace_id}/peers", query={"q": search} if search else {})
        if not rows and _ID.fullmatch(search):
            rows = [await requester.call("GET", f"/registry/discover/{search}")]
    except ToolError as error:
        if error.code in UNKNOWN_CODES:
            return []
        raise to_rpc_error(error) from None
    return [_Peer(each["id"], each["name"], via) for each in rows]


def _find_prompt(name: object) -> PromptSpec:
    for spec in PROMPTS:
        if spec.name == name:
            return spec
    known = ", ".join(each.name for each in PROMPTS)
    raise RpcError(INVALID_PARAMS, f"prompt {_shown(str(name))} not found. Available prompts: {known}.")


def _checked_arguments(spec: PromptSpec, provided: object) -> dict[str, str]:
    """Return a value for each argument of a prompt, empty for a missing one. Raises RpcError."""
    given = as_object(provided)
    values = dict[str, str]()
    for argument in spec.arguments:
        value = given.get(argument.name)
        if value is None:
            value = ""
        if not isinstance(value, str) or len(value) > MAX_ARGUMENT_LENGTH:
            raise RpcError(
                INVALID_PARAMS, f"{argument.name} must be a text of at most {MAX_ARGUMENT_LENGTH} characters."
            )
        if argument.required and not value.strip():
            raise RpcError(INVALID_PARAMS, f"{argument.name} is missing. Add it to the arguments of {spec.name}.")
        values[argument.name] = value
    return values


def _listing(spec: PromptSpec, version: str) -> dict[str, Any]:
    title = {"title": spec.title} if version >= _TITLES_SINCE else {}
    arguments = [
        {"name": each.name, "description": each.description, "required": each.required} for each in spec.arguments
    ]
    return {"name": spec.name, **title, "description": spec.description, "arguments": arguments}


def _completion(values: Sequence[str]) -> dict[str, Any]:
    shown = list(values[:MAX_COMPLETIONS])
    return {"completion": {"values": shown, "total": len(values), "hasMore": len(values) > len(shown)}}


def _candidates(peers: Mapping[str, _Peer]) -> str:
    names = [f"{each.id} ({_quote(each.name)})" for each in list(peers.values())[:_MAX_CANDIDATES]]
    return ", ".join(names)


def _quote(name: str) -> str:
    """Quote a name as data: one line, and no text that looks like a tag."""
    return msgspec.json.encode(single_line(name, _MAX_NAME)).decode().replace("<", "\\u003c")


def _shown(text: str) -> str:
    return repr(truncate_line(text, _MAX_QUOTED))
