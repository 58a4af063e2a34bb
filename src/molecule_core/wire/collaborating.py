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

from molecule_core.ground.clock import Clock
from molecule_core.ground.text import is_client_id, shorten
from molecule_core.wire import collabtypes as types
from molecule_core.wire.collabtools import COLLAB
from molecule_core.wire.delegating import Seats, known_seat, those
from molecule_core.wire.speaks import Speaks, allowed
from molecule_core.wire.threadlog import AgentState
from molecule_core.wire.threads import AgentAnswer, Agents
from molecule_core.wire.toolspec import IDENTITY, ToolError
from molecule_core.wire.verbs import Progress, key_headers

NAMES = tuple(spec.name for spec in COLLAB)
"""The tools, each of which is one local verb of every host: `run`."""
SECTION = "collab"
SESSION = "session"
"""The key of the session thread, and how those of several sessions of one workspace begin."""
SESSION_BASE = (
    "This thread stands for a session of an agent whose own runtime holds its instructions and its conversation. What "
    "is kept here is what it asks of other agents, and what becomes of them."
)
"""The base instructions of a session thread in a workspace that has told no prompt: honest about what it is."""
GOES_ON = "inProgress"
UNDRIVEN = (
    "No engine is driving this workspace's threads: {paths} will not move before one does. Somebody has to start one, "
    "such as `molecule agent run`, in workspace {seats}."
)
_VERBS: Mapping[type[Struct], str] = {
    types.SpawnArguments: "spawn",
    types.SendArguments: "send",
    types.FollowupArguments: "followup",
    types.WaitAgentArguments: "wait",
    types.InterruptArguments: "interrupt",
    types.CloseArguments: "close",
    types.ResumeArguments: "resume",
    types.ListArguments: "list",
}
_OURS = ("thread_id", "via_workspace", "approval_id")  # control: spawn-role
# What hosts call a conversation of theirs.
_SESSIONS = ("threadId", "sessionId")
_LONGEST_NAME, _MOST_REPEATED = 100, 300
_USUAL_WAIT = 30
# A host that shows progress is told well before it would think that a call hangs.
_PROGRESS_SECONDS = 10.0
# Between two questions to which the answer was the same: a server that does not hold them is not to be flooded.
_LEAST_SECONDS = 1.0
# So many closed sessions are gone past for one that is open. The server itself leads past those whose place was taken:
# only one of an older version has each of them asked for.
_MOST_CLOSED = 100
_BASE_MISSING = "base_missing"
T = TypeVar("T")


class Asked(NamedTuple):
    """A call as the routes take it: POST agents/{verb}, or GET agents for `list`."""

    verb: str
    fields: dict[str, Any]


class From(NamedTuple):
    """Who calls: a workspace, and the thread from which it does."""

    workspace_id: str
    thread_id: str


async def run(
    seats: Seats, given: Struct, call: str, *, clock: Clock, session: str = "", progress: Progress | None = None
) -> dict[str, Any]:
    """Runs a tool as the seat that it is for, from its session thread or the one that it names. `call`: what names this
    call, so that it is done once however often it is made; `session`: what the host calls its conversation. Raises
    ToolError."""
    own, speaks = await _seat(seats, given)
    named = _thread_of(given)
    thread_id = named or await session_of(speaks, own, session)
    if not named and isinstance(given, types.SpawnArguments) and given.wake is UNSET:
        # Its end would else begin a turn of a thread that no engine is to drive.
        given = structs.replace(given, wake="queue")
    return await act(speaks, From(own, thread_id), given, call, clock=clock, progress=progress)


def session_in(meta: Mapping[str, Any]) -> str:
    """What a host calls the conversation that a call is made in; empty if it does not say."""
    given = [meta.get(name) for name in _SESSIONS]
    return next((each for each in given if isinstance(each, str) and is_client_id(each, _LONGEST_NAME)), "")


# -- as whom -----------------------------------------------------------------------------------------------------------


async def _seat(seats: Seats, given: Struct) -> tuple[str, Speaks]:
    """The named workspace, the only one, or the one whose the named thread is. Raises ToolError."""
    if (known := known_seat(seats, str(getattr(given, IDENTITY)))) is not None:
        return known
    thread_id = _thread_of(given)
    if thread_id:
        found = await those(seats, [_owns(speaks, id_, thread_id) for id_, speaks in seats])
        if found:
            return found[0]
    ids = ", ".join(id_ for id_, _ in seats)
    raise ToolError(
        f"you sit in several workspaces; say with {IDENTITY} as which one you act: {ids}.", "ambiguous_workspace"
    )


def _thread_of(given: Struct) -> str:
    return str(getattr(given, "thread_id", ""))


async def _owns(speaks: Speaks, own: str, thread_id: str) -> bool:
    found = _shaped(await speaks.call("GET", _path(thread_id)), _Thread)
    return found.workspace_id == own


class _Thread(Struct, frozen=True):
    """As much of a thread as is asked about."""

    thread_id: str
    workspace_id: str
    closed: bool


async def session_of(speaks: Speaks, own: str, session: str = "") -> str:
    """The thread in whose name a session calls that has no thread of its own here. Made on first use; the next one
    takes its place once somebody has closed it. Raises ToolError."""
    key = f"{SESSION}:{session}" if session else SESSION
    for _ in range(_MOST_CLOSED):
        found = await _started(speaks, own, key)
        if not found.closed:
            return found.thread_id
        key = f"{SESSION}:{found.thread_id}"
    raise ToolError("too many threads of this session were closed; name another one as thread_id.", "thread_closed")


async def _started(speaks: Speaks, own: str, key: str) -> _Thread:
    """The thread of a key. Its base instructions are the prompt that its agent has told; where none was told, they say
    that its runtime has them."""
    path, body = f"/workspaces/{quote(own, safe='')}/threads", {"nickname": SESSION, "key": key}
    try:
        return _shaped(await speaks.call("POST", path, body=body, headers=key_headers(key)), _Thread)
    except ToolError as error:
        if error.code != _BASE_MISSING:
            raise
    body = {**body, "base_instructions": SESSION_BASE}
    return _shaped(await speaks.call("POST", path, body=body, headers=key_headers(key)), _Thread)


# -- calls -------------------------------------------------------------------------------------------------------------


def asked(given: Struct) -> Asked:
    """A call as the routes take it."""
    fields = {name: value for name, value in structs.asdict(given).items() if value not in _NOT_GIVEN}
    fields = {name: value for name, value in fields.items() if name not in _OURS}
    turns = fields.get("fork_turns", "")
    return Asked(_VERBS[type(given)], {**fields, "fork_turns": int(turns)} if turns.isdigit() else fields)


_NOT_GIVEN: tuple[Any, ...] = (UNSET, "", [], {})


async def act(
    speaks: Speaks, by: From, given: Struct, call: str, *, clock: Clock, progress: Progress | None = None
) -> dict[str, Any]:
    """Runs a tool from a thread; what it gives. Raises ToolError, also if the call has failed before."""
    verb, fields = asked(given)
    path, speaks = _path(by.thread_id, "agents"), allowed(speaks, given, reads=True)
    if verb == "list":
        found = _shaped(await speaks.call("GET", path, query=fields), Agents)
        return _plain(
            types.AgentsListed(
                workspace_id=by.workspace_id,
                thread_id=by.thread_id,
                agents=[_seen(each) for each in found.agents],
                note=_undriven(found.undriven, found.quiet),
            )
        )
    body = {**fields, "call_id": call}
    if isinstance(given, types.WaitAgentArguments):
        waiting = _Wait(speaks, f"{path}/wait", body, clock=clock, progress=progress)
        return _waited(by, await waiting.over())
    return _told(by, _shaped(await speaks.call("POST", f"{path}/{verb}", body=body), AgentAnswer))


class _Wait:
    """A wait, which is asked for again as long as it goes on; its deadline is the server's."""

    def __init__(
        self, speaks: Speaks, path: str, body: dict[str, Any], *, clock: Clock, progress: Progress | None
    ) -> None:
        self._speaks = speaks
        self._path = path
        self._body = body
        self._clock = clock
        self._progress = progress
        self._began = clock.monotonic()

    async def over(self) -> AgentAnswer:
        """How it ended. Raises ToolError."""
        told: AgentAnswer | None = None
        while told is None or told.call.status == GOES_ON:
            asked_at = self._clock.monotonic()
            try:
                told = await self._slice(told)
            except ToolError as error:  # it goes on there, whoever cannot be heard for a moment
                if told is None or not error.passes or self._is_late():
                    raise
            rest = _LEAST_SECONDS - (self._clock.monotonic() - asked_at)
            if told.call.status == GOES_ON and rest > 0:
                await self._clock.wait(asyncio.get_running_loop().create_future(), rest)
        return told

    async def _slice(self, before: AgentAnswer | None) -> AgentAnswer:
        """How it stands after one request, which the server holds as long as it likes."""
        asking = asyncio.ensure_future(self._speaks.call("POST", self._path, body=self._body))
        try:
            while not await self._clock.wait(asyncio.shield(asking), _PROGRESS_SECONDS):
                await self._tell(before)
        finally:
            asking.cancel()
        told = _shaped(asking.result(), AgentAnswer)
        await self._tell(told)
        return told

    async def _tell(self, told: AgentAnswer | None) -> None:
        if self._progress is not None and (told is None or told.call.status == GOES_ON):
            quiet = "" if told is None else _undriven(told.undriven, told.quiet)
            spent = min(self._clock.monotonic() - self._began, self._seconds)
            await self._progress(spent, self._seconds, quiet or "waiting for agents")

    @property
    def _seconds(self) -> float:
        return float(self._body.get("timeout", _USUAL_WAIT))

    def _is_late(self) -> bool:
        return self._clock.monotonic() - self._began > self._seconds


# -- what came of it ---------------------------------------------------------------------------------------------------


def _told(by: From, answer: AgentAnswer) -> dict[str, Any]:
    call = _not_failed(answer)
    return _plain(
        types.AgentTold(
            call_id=call.call_id,
            workspace_id=by.workspace_id,
            thread_id=by.thread_id,
            agent=_seen(call.agents[0]),
            note=_undriven(answer.undriven, answer.quiet),
        )
    )


def _waited(by: From, answer: AgentAnswer) -> dict[str, Any]:
    call = _not_failed(answer)
    notes = (call.reason, call.clamped, _undriven(answer.undriven, answer.quiet))
    return _plain(
        types.AgentsWaited(
            call_id=call.call_id,
            workspace_id=by.workspace_id,
            thread_id=by.thread_id,
            status=call.status,
            timed_out=call.timed_out,
            agents=[_seen(each) for each in call.agents],
            after=answer.after or {},
            note=" ".join(each for each in notes if each),
        )
    )


def _not_failed(answer: AgentAnswer) -> Any:
    """The call, unless it is the repetition of one that was refused. Raises ToolError."""
    if answer.call.status == "failed" or not (answer.call.agents or answer.call.tool == "wait"):
        raise ToolError(answer.call.reason or "it has failed; call again", "call_failed")
    return answer.call


def _seen(state: AgentState) -> types.AgentSeen:
    return types.AgentSeen(
        thread_id=state.thread_id,
        path=state.path,
        nickname=state.nickname,
        role=state.role or "",
        status=state.status,
        message=state.message or "",
        outcome=state.outcome or "",
    )


def _undriven(paths: Sequence[str], seats: Sequence[str]) -> str:
    """What is said of agents that nobody runs; empty if there are none."""
    return UNDRIVEN.format(paths=", ".join(paths), seats=", ".join(seats)) if paths else ""


def _path(thread_id: str, *rest: str) -> str:
    """A route of a thread. Raises ToolError if the id would lead somewhere else."""
    if not thread_id.strip("."):
        raise ToolError(f"{thread_id!r} names no thread; leave thread_id out.", "bad_arguments")
    return "/threads/" + "/".join(quote(each, safe="") for each in (thread_id, *rest))


def _shaped(answer: Any, shape: type[T]) -> T:
    """What a route answered. Raises ToolError if it is something else."""
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        said = shorten(str(error), _MOST_REPEATED)
        raise ToolError(
            f"the server answered something that this version does not know ({said}). What was asked may have been "
            "done. Tell the person that agent and server differ in version.",
            "unknown_answer",
        ) from None


def _plain(told: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(told)
    return found
