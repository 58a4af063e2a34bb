"""The tools of agents that work together, as walks over the public API.

Each call acts from a thread. An engine of ours calls from the one that it drives. Who has none here, because it keeps
its conversation itself (an MCP host, LangChain, a shell), calls from its *session thread*: a root thread of its
workspace that is made on first use and found again by its key. Above: whoever runs tools. Below: anything that can make
one request as a workspace.
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
from molecule_core.tools.spec import IDENTITY_ARGUMENT, ToolError
from molecule_core.wire.schemas.thread_log import AgentState
from molecule_core.wire.schemas.threads import AgentCallResponse, AgentList

TOOL_NAMES = tuple(spec.name for spec in COLLABORATION_TOOLS)
"""The tools, each of which is one local verb of every host: `run`."""
COLLAB_SECTION = "collab"
SESSION_KEY = "session"
"""The key of the session thread, and how those of several sessions of one workspace begin."""
SESSION_BASE_INSTRUCTIONS = (
    "This thread stands for a session of an agent whose own runtime holds its instructions and its conversation. What "
    "is kept here is what it asks of other agents, and what becomes of them."
)
"""The base instructions of a session thread in a workspace that has told no prompt: honest about what it is."""
IN_PROGRESS = "inProgress"
UNDRIVEN_NOTE = (
    "No engine is driving this workspace's threads: {paths} will not move before one does. Somebody has to start one, "
    "such as `molecule agent run`, in workspace {seats}."
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
# What hosts call a conversation of theirs.
_SESSION_META_KEYS = ("threadId", "sessionId")
_MAX_NAME_LENGTH, _MAX_QUOTED_LENGTH = 100, 300
_DEFAULT_WAIT_SECONDS = 30
# A host that shows progress is told well before it would think that a call hangs.
_PROGRESS_SECONDS = 10.0
# Between two questions to which the answer was the same: a server that does not hold them is not to be flooded.
_MIN_POLL_SECONDS = 1.0
# So many closed sessions are gone past for one that is open. The server itself leads past those whose place was taken:
# only one of an older version has each of them asked for.
_MAX_CLOSED_SESSIONS = 100
_BASE_MISSING = "base_missing"
_ResponseT = TypeVar("_ResponseT")


class CollabRequest(NamedTuple):
    """A call as the routes take it: POST agents/{verb}, or GET agents for `list`."""

    verb: str
    fields: dict[str, Any]


class CollabCaller(NamedTuple):
    """Who calls: a workspace, and the thread from which it does."""

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
    """Runs a tool as the seat that it is for, from its session thread or the one that it names. `call`: what names this
    call, so that it is done once however often it is made; `session`: what the host calls its conversation. Raises
    ToolError."""
    workspace_id, requester = await _calling_workspace(workspaces, arguments)
    named = _named_thread(arguments)
    thread_id = named or await session_thread(requester, workspace_id, session)
    if not named and isinstance(arguments, types.SpawnAgentArguments) and arguments.wake is UNSET:
        # Its end would else begin a turn of a thread that no engine is to drive.
        arguments = structs.replace(arguments, wake="queue")
    return await call_from_thread(
        requester, CollabCaller(workspace_id, thread_id), arguments, call, clock=clock, progress=progress
    )


def host_session(meta: Mapping[str, Any]) -> str:
    """What a host calls the conversation that a call is made in; empty if it does not say."""
    given = [meta.get(name) for name in _SESSION_META_KEYS]
    return next((each for each in given if isinstance(each, str) and is_valid_client_id(each, _MAX_NAME_LENGTH)), "")


# -- as whom -----------------------------------------------------------------------------------------------------------


async def _calling_workspace(workspaces: CallerWorkspaces, arguments: Struct) -> tuple[str, Requester]:
    """The named workspace, the only one, or the one whose the named thread is. Raises ToolError."""
    if (known := explicit_workspace(workspaces, str(getattr(arguments, IDENTITY_ARGUMENT)))) is not None:
        return known
    thread_id = _named_thread(arguments)
    if thread_id:
        found = await probe_workspaces(
            workspaces, [_owns_thread(requester, id_, thread_id) for id_, requester in workspaces]
        )
        if found:
            return found[0]
    ids = ", ".join(id_ for id_, _ in workspaces)
    raise ToolError(
        f"you sit in several workspaces; say with {IDENTITY_ARGUMENT} as which one you act: {ids}.",
        "ambiguous_workspace",
    )


def _named_thread(arguments: Struct) -> str:
    return str(getattr(arguments, "thread_id", ""))


async def _owns_thread(requester: Requester, workspace_id: str, thread_id: str) -> bool:
    found = _convert_response(await requester.call("GET", _thread_path(thread_id)), _ThreadSummary)
    return found.workspace_id == workspace_id


class _ThreadSummary(Struct, frozen=True):
    """As much of a thread as is asked about."""

    thread_id: str
    workspace_id: str
    closed: bool


async def session_thread(requester: Requester, workspace_id: str, session: str = "") -> str:
    """The thread in whose name a session calls that has no thread of its own here. Made on first use; the next one
    takes its place once somebody has closed it. Raises ToolError."""
    key = f"{SESSION_KEY}:{session}" if session else SESSION_KEY
    for _ in range(_MAX_CLOSED_SESSIONS):
        found = await _start_session_thread(requester, workspace_id, key)
        if not found.closed:
            return found.thread_id
        key = f"{SESSION_KEY}:{found.thread_id}"
    raise ToolError("too many threads of this session were closed; name another one as thread_id.", "thread_closed")


async def _start_session_thread(requester: Requester, workspace_id: str, key: str) -> _ThreadSummary:
    """The thread of a key. Its base instructions are the prompt that its agent has told; where none was told, they say
    that its runtime has them."""
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
    """A call as the routes take it."""
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
    """Runs a tool from a thread; what it gives. Raises ToolError, also if the call has failed before."""
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
        waiting = _AgentWaitLoop(requester, f"{path}/wait", body, clock=clock, progress=progress)
        return _wait_result(caller, await waiting.result())
    return _agent_result(
        caller, _convert_response(await requester.call("POST", f"{path}/{verb}", body=body), AgentCallResponse)
    )


class _AgentWaitLoop:
    """A wait, which is asked for again as long as it goes on; its deadline is the server's."""

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
        """How it ended. Raises ToolError."""
        response: AgentCallResponse | None = None
        while response is None or response.call.status == IN_PROGRESS:
            asked_at = self._clock.monotonic()
            try:
                response = await self._request_slice(response)
            except ToolError as error:  # it goes on there, whoever cannot be heard for a moment
                if response is None or not error.is_transient or self._is_past_deadline():
                    raise
            rest = _MIN_POLL_SECONDS - (self._clock.monotonic() - asked_at)
            if response.call.status == IN_PROGRESS and rest > 0:
                await self._clock.wait(asyncio.get_running_loop().create_future(), rest)
        return response

    async def _request_slice(self, before: AgentCallResponse | None) -> AgentCallResponse:
        """How it stands after one request, which the server holds as long as it likes."""
        asking = asyncio.ensure_future(self._requester.call("POST", self._path, body=self._body))
        try:
            while not await self._clock.wait(asyncio.shield(asking), _PROGRESS_SECONDS):
                await self._report_progress(before)
        finally:
            asking.cancel()
        response = _convert_response(asking.result(), AgentCallResponse)
        await self._report_progress(response)
        return response

    async def _report_progress(self, response: AgentCallResponse | None) -> None:
        if self._progress is not None and (response is None or response.call.status == IN_PROGRESS):
            quiet = "" if response is None else _undriven_note(response.undriven, response.quiet)
            spent = min(self._clock.monotonic() - self._started_at, self._timeout_seconds)
            await self._progress(spent, self._timeout_seconds, quiet or "waiting for agents")

    @property
    def _timeout_seconds(self) -> float:
        return float(self._body.get("timeout", _DEFAULT_WAIT_SECONDS))

    def _is_past_deadline(self) -> bool:
        return self._clock.monotonic() - self._started_at > self._timeout_seconds


# -- what came of it ---------------------------------------------------------------------------------------------------


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
    """The call, unless it is the repetition of one that was refused. Raises ToolError."""
    if answer.call.status == "failed" or not (answer.call.agents or answer.call.tool == "wait"):
        raise ToolError(answer.call.reason or "it has failed; call again", "call_failed")
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
    """What is said of agents that nobody runs; empty if there are none."""
    return UNDRIVEN_NOTE.format(paths=", ".join(paths), seats=", ".join(workspaces)) if paths else ""


def _thread_path(thread_id: str, *rest: str) -> str:
    """A route of a thread. Raises ToolError if the id would lead somewhere else."""
    if not thread_id.strip("."):
        raise ToolError(f"{thread_id!r} names no thread; leave thread_id out.", "bad_arguments")
    return "/threads/" + "/".join(quote(each, safe="") for each in (thread_id, *rest))


def _convert_response(answer: Any, shape: type[_ResponseT]) -> _ResponseT:
    """What a route answered. Raises ToolError if it is something else."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        detail = truncate_line(str(error), _MAX_QUOTED_LENGTH)
        raise ToolError(
            f"the server answered something that this version does not know ({detail}). What was asked may have been "
            "done. Tell the person that agent and server differ in version.",
            "unknown_answer",
        ) from None


def _to_builtins(response: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(response)
    return found
