"""Runs the collaboration tools of agents in threads.

Each call acts from a thread. Our engine calls from the thread that it runs. Hosts that keep their conversation
themselves (an MCP host, LangChain, a shell) call from their *session thread*: a root thread of their workspace,
created on first use and found again by its key. Called by every host of tools; calls the public API through a
Requester.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import UNSET, Struct, structs

from molecule_core.common.clock import Clock
from molecule_core.common.text import is_valid_client_id, truncate_line
from molecule_core.tools.collaboration_specs import COLLABORATION_TOOLS
from molecule_core.tools.runners.delegation_tools import CallerWorkspaces, explicit_workspace, probe_workspaces
from molecule_core.tools.runners.message_tools import ProgressCallback, idempotency_headers
from molecule_core.tools.runners.requester import Requester, with_approval
from molecule_core.tools.schemas import collaboration as types
from molecule_core.tools.spec import IDENTITY_ARGUMENT, ToolError, unknown_answer_error
from molecule_core.wire.schemas.thread_log import AgentState
from molecule_core.wire.schemas.threads import AgentCallResponse, AgentList

TOOL_NAMES = tuple(spec.name for spec in COLLABORATION_TOOLS)
"""The tools that `run` runs."""
COLLAB_SECTION = "collab"
SESSION_KEY = "session"
"""The key of the session thread, and the prefix of the keys for several sessions of one workspace."""
SESSION_BASE_INSTRUCTIONS = (
    "This thread represents a session of an agent whose own runtime has its instructions and its conversation. The "
    "thread records the agent's calls to other agents and their results."
)
"""The base instructions of a session thread in a workspace without a reported prompt."""
IN_PROGRESS = "inProgress"
UNDRIVEN_NOTE = (
    "No engine drives the threads of workspace {workspaces}: {paths} cannot continue. A person must start an engine "
    "there, for example with `molecule agent run`."
)
_ROUTE_VERBS: Mapping[type[Struct], str] = {
    types.SpawnAgentArguments: "spawn",
    types.SendMessageArguments: "send",
    types.FollowupTaskArguments: "followup",
    types.WaitAgentArguments: "wait",
    types.InterruptAgentArguments: "interrupt",
    types.CloseAgentArguments: "close",
    types.ResumeAgentArguments: "resume",
    types.ListAgentsArguments: "list",
}
_CALLER_ARGUMENTS = ("thread_id", "via_workspace", "approval_id")  # control: spawn-role
# The `_meta` members in which hosts name a conversation.
_SESSION_META_KEYS = ("threadId", "sessionId")
_MAX_NAME_LENGTH, _MAX_QUOTED_LENGTH = 100, 300
_DEFAULT_WAIT_SECONDS = 30
# Well before a host that shows progress would consider the call hung.
_PROGRESS_SECONDS = 10.0
# At least this long between equal responses, in case the server does not hold the requests.
_MIN_POLL_SECONDS = 1.0
# Maximum number of closed sessions to skip. The server skips those that were replaced; only servers of older versions
# need one request for each.
_MAX_CLOSED_SESSIONS = 100
_BASE_MISSING = "base_missing"
_ResponseT = TypeVar("_ResponseT")


class CollabRequest(NamedTuple):
    """A call as the routes take it: POST agents/{verb}, or GET agents for `list`."""

    verb: str
    fields: dict[str, Any]


class CollabCaller(NamedTuple):
    """The calling workspace and thread."""

    workspace_id: str
    thread_id: str


async def run(
    workspaces: CallerWorkspaces,
    arguments: Struct,
    call: str,
    *,
    clock: Clock,
    session: str = "",
    progress: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Run a collaboration tool as the workspace that it applies to. Raises ToolError.

    It acts from the thread in the arguments, else from the session thread. `call`: idempotency key of the call;
    `session`: the host's name for its conversation."""
    workspace_id, requester = await _calling_workspace(workspaces, arguments)
    explicit_thread = _named_thread(arguments)
    thread_id = explicit_thread or await session_thread(requester, workspace_id, session)
    if not explicit_thread and isinstance(arguments, types.SpawnAgentArguments) and arguments.wake is UNSET:
        # Otherwise the spawned agent's end would start a turn of a thread that no engine runs.
        arguments = structs.replace(arguments, wake="queue")
    return await call_from_thread(
        requester, CollabCaller(workspace_id, thread_id), arguments, call, clock=clock, progress=progress
    )


def host_session(meta: Mapping[str, Any]) -> str:
    """Return the host's name for the conversation of a call, or an empty string."""
    names = [meta.get(name) for name in _SESSION_META_KEYS]
    return next((each for each in names if isinstance(each, str) and is_valid_client_id(each, _MAX_NAME_LENGTH)), "")


# -- choice of workspace and thread ------------------------------------------------------------------------------------


async def _calling_workspace(workspaces: CallerWorkspaces, arguments: Struct) -> tuple[str, Requester]:
    """Return the workspace to call as. Raises ToolError.

    It is the named one, the only one, or the owner of the named thread."""
    if (workspace := explicit_workspace(workspaces, str(getattr(arguments, IDENTITY_ARGUMENT)))) is not None:
        return workspace
    thread_id = _named_thread(arguments)
    if thread_id:
        found = await probe_workspaces(
            workspaces, [_owns_thread(requester, id_, thread_id) for id_, requester in workspaces]
        )
        if found:
            return found[0]
    ids = ", ".join(id_ for id_, _ in workspaces)
    raise ToolError(
        f"you have several workspaces. Set {IDENTITY_ARGUMENT} to the one to act as: {ids}.",
        "ambiguous_workspace",
    )


def _named_thread(arguments: Struct) -> str:
    return str(getattr(arguments, "thread_id", ""))


async def _owns_thread(requester: Requester, workspace_id: str, thread_id: str) -> bool:
    found = _convert_response(await requester.call("GET", _thread_path(thread_id)), _ThreadSummary)
    return found.workspace_id == workspace_id


class _ThreadSummary(Struct, frozen=True):
    """The parts of a thread that the runner needs."""

    thread_id: str
    workspace_id: str
    closed: bool


async def session_thread(requester: Requester, workspace_id: str, session: str = "") -> str:
    """Return the session thread for a host without threads here. Raises ToolError.

    It is created on first use, and replaced by a new one once it was closed."""
    key = f"{SESSION_KEY}:{session}" if session else SESSION_KEY
    for _ in range(_MAX_CLOSED_SESSIONS):
        thread = await _start_session_thread(requester, workspace_id, key)
        if not thread.closed:
            return thread.thread_id
        key = f"{SESSION_KEY}:{thread.thread_id}"
    raise ToolError("too many threads of this session are closed. Set thread_id to an open thread.", "thread_closed")


async def _start_session_thread(requester: Requester, workspace_id: str, key: str) -> _ThreadSummary:
    """Create or find the thread of a key.

    Its base instructions are the workspace's reported prompt. Without one, they say that the host's runtime has
    them."""
    path, body = f"/workspaces/{quote(workspace_id, safe='')}/threads", {"nickname": SESSION_KEY, "key": key}
    try:
        return _convert_response(
            await requester.call("POST", path, body=body, headers=idempotency_headers(key)), _ThreadSummary
        )
    except ToolError as error:
        if error.code != _BASE_MISSING:
            raise
    body = {**body, "base_instructions": SESSION_BASE_INSTRUCTIONS}
    return _convert_response(
        await requester.call("POST", path, body=body, headers=idempotency_headers(key)), _ThreadSummary
    )


# -- calls -------------------------------------------------------------------------------------------------------------


def to_collab_request(arguments: Struct) -> CollabRequest:
    """Convert arguments to a request of the routes."""
    fields = {name: value for name, value in structs.asdict(arguments).items() if value not in _OMITTED_VALUES}
    fields = {name: value for name, value in fields.items() if name not in _CALLER_ARGUMENTS}
    turns = fields.get("fork_turns", "")
    return CollabRequest(
        _ROUTE_VERBS[type(arguments)], {**fields, "fork_turns": int(turns)} if turns.isdigit() else fields
    )


_OMITTED_VALUES: tuple[Any, ...] = (UNSET, "", [], {})


async def call_from_thread(
    requester: Requester,
    caller: CollabCaller,
    arguments: Struct,
    call: str,
    *,
    clock: Clock,
    progress: ProgressCallback | None = None,
) -> dict[str, Any]:
    """Run a tool from a thread and return its result. Raises ToolError, also if the call failed before."""
    verb, fields = to_collab_request(arguments)
    path, requester = _thread_path(caller.thread_id, "agents"), with_approval(requester, arguments, read_only=True)
    if verb == "list":
        found = _convert_response(await requester.call("GET", path, query=fields), AgentList)
        return _to_builtins(
            types.ListAgentsResult(
                workspace_id=caller.workspace_id,
                thread_id=caller.thread_id,
                agents=[_agent_snapshot(each) for each in found.agents],
                note=_undriven_note(found.undriven, found.quiet),
            )
        )
    body = {**fields, "call_id": call}
    if isinstance(arguments, types.WaitAgentArguments):
        loop = _AgentWaitLoop(requester, f"{path}/wait", body, clock=clock, progress=progress)
        return _wait_result(caller, await loop.result())
    return _agent_result(
        caller, _convert_response(await requester.call("POST", f"{path}/{verb}", body=body), AgentCallResponse)
    )


class _AgentWaitLoop:
    """Repeats a wait request until the wait has ended. The server keeps its deadline."""

    def __init__(
        self, requester: Requester, path: str, body: dict[str, Any], *, clock: Clock, progress: ProgressCallback | None
    ) -> None:
        self._requester = requester
        self._path = path
        self._body = body
        self._clock = clock
        self._progress = progress
        self._started_at = clock.monotonic()

    async def result(self) -> AgentCallResponse:
        """Return the ended call. Raises ToolError."""
        response: AgentCallResponse | None = None
        while response is None or response.call.status == IN_PROGRESS:
            asked_at = self._clock.monotonic()
            try:
                response = await self._poll(response)
            except ToolError as error:  # the wait continues on the server during an outage
                if response is None or not error.is_transient or self._is_past_deadline():
                    raise
            rest = _MIN_POLL_SECONDS - (self._clock.monotonic() - asked_at)
            if response.call.status == IN_PROGRESS and rest > 0:
                await self._clock.wait(asyncio.get_running_loop().create_future(), rest)
        return response

    async def _poll(self, before: AgentCallResponse | None) -> AgentCallResponse:
        """Send one wait request, which the server holds as long as it chooses, and return its response."""
        request = asyncio.ensure_future(self._requester.call("POST", self._path, body=self._body))
        try:
            while not await self._clock.wait(asyncio.shield(request), _PROGRESS_SECONDS):
                await self._report_progress(before)
        finally:
            request.cancel()
        response = _convert_response(request.result(), AgentCallResponse)
        await self._report_progress(response)
        return response

    async def _report_progress(self, response: AgentCallResponse | None) -> None:
        if self._progress is not None and (response is None or response.call.status == IN_PROGRESS):
            note = "" if response is None else _undriven_note(response.undriven, response.quiet)
            elapsed = min(self._clock.monotonic() - self._started_at, self._timeout_seconds)
            await self._progress(elapsed, self._timeout_seconds, note or "waiting for agents")

    @property
    def _timeout_seconds(self) -> float:
        return float(self._body.get("timeout", _DEFAULT_WAIT_SECONDS))

    def _is_past_deadline(self) -> bool:
        return self._clock.monotonic() - self._started_at > self._timeout_seconds


# -- results -----------------------------------------------------------------------------------------------------------


def _agent_result(caller: CollabCaller, answer: AgentCallResponse) -> dict[str, Any]:
    call = _successful_call(answer)
    return _to_builtins(
        types.AgentCallResult(
            call_id=call.call_id,
            workspace_id=caller.workspace_id,
            thread_id=caller.thread_id,
            agent=_agent_snapshot(call.agents[0]),
            note=_undriven_note(answer.undriven, answer.quiet),
        )
    )


def _wait_result(caller: CollabCaller, answer: AgentCallResponse) -> dict[str, Any]:
    call = _successful_call(answer)
    notes = (call.reason, call.clamped, _undriven_note(answer.undriven, answer.quiet))
    return _to_builtins(
        types.WaitAgentResult(
            call_id=call.call_id,
            workspace_id=caller.workspace_id,
            thread_id=caller.thread_id,
            status=call.status,
            timed_out=call.timed_out,
            agents=[_agent_snapshot(each) for each in call.agents],
            after=answer.after or {},
            note=" ".join(each for each in notes if each),
        )
    )


def _successful_call(answer: AgentCallResponse) -> Any:
    """Return the call. Raises ToolError if it is the repetition of a rejected one."""
    if answer.call.status == "failed" or not (answer.call.agents or answer.call.tool == "wait"):
        raise ToolError(answer.call.reason or "the call failed. Call the tool again.", "call_failed")
    return answer.call


def _agent_snapshot(state: AgentState) -> types.AgentSnapshot:
    return types.AgentSnapshot(
        thread_id=state.thread_id,
        path=state.path,
        nickname=state.nickname,
        role=state.role or "",
        status=state.status,
        message=state.message or "",
        outcome=state.outcome or "",
    )


def _undriven_note(paths: Sequence[str], workspaces: Sequence[str]) -> str:
    """Return the note about agents without an engine, or an empty string."""
    return UNDRIVEN_NOTE.format(paths=", ".join(paths), workspaces=", ".join(workspaces)) if paths else ""


def _thread_path(thread_id: str, *rest: str) -> str:
    """Return a path of the thread routes. Raises ToolError if the id could change the path."""
    if not thread_id.strip("."):
        raise ToolError(f"thread_id cannot be {thread_id!r}. Omit thread_id.", "bad_arguments")
    return "/threads/" + "/".join(quote(each, safe="") for each in (thread_id, *rest))


def _convert_response(answer: Any, shape: type[_ResponseT]) -> _ResponseT:
    """Convert a route's response. Raises ToolError for an unknown shape."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
        raise unknown_answer_error(detail) from None


def _to_builtins(response: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(response)
    return found
