"""The platform's tools on the server itself: each runs through the table of routes in process, as whoever asked.

Above: the dispatcher (`wire/mcp.py`), by way of `edges/mcp.py`. Below: `App.ask`, and the walks of `wire/verbs.py`.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct, structs

from molecule_core.edges.app import Wish
from molecule_core.edges.mcp_outlets import Outlet, current
from molecule_core.edges.routes import Answer, Call
from molecule_core.ground.clock import Clock
from molecule_core.ground.ids import Ids, Randomness
from molecule_core.ground.settings import Settings
from molecule_core.org.reader import OrgReader
from molecule_core.wire import approving, collaborating, delegating, replytypes, verbs
from molecule_core.wire import tooltypes as types
from molecule_core.wire.jsonrpc import Message, object_of
from molecule_core.wire.mcp import Calling, Extra, Outcome
from molecule_core.wire.speaks import allowed
from molecule_core.wire.tooldocs import instructions
from molecule_core.wire.tools import TOOLS
from molecule_core.wire.toolspec import Local, Route, ToolError, ToolSpec

INSTRUCTIONS = instructions()
# Messages whose hand-over is remembered for agents that do not name its attempt.
_MOST_HELD = 10_000
Verb = Callable[["Doing", Any], Awaitable[dict[str, Any]]]
Ask = Callable[[Call, Wish], Awaitable[Answer]]


class Additions(Protocol):
    """What a test server has beside the product's tools."""

    specs: Sequence[ToolSpec]
    extra: Extra

    async def call(self, spec: ToolSpec, arguments: Struct, calling: Calling) -> Outcome:
        """Runs one of these tools."""

    def answered(self, message: Message) -> None:
        """A client has answered what it was asked."""


class Means(NamedTuple):
    """What the endpoint is given: time, ids, chance, settings, and, on a test server, more tools."""

    clock: Clock
    ids: Ids
    randomness: Randomness
    settings: Settings
    version: str
    additions: Additions | None


class Doing(NamedTuple):
    """One call of a tool: for which request, told how, under which name."""

    outlet: Outlet
    calling: Calling
    key: str

    @property
    def own(self) -> str:
        """The workspace that calls."""
        return self.outlet.workspace_id


class Inside:
    """Makes requests of the public API in the name of another request's caller. (A `Speaks`.)"""

    def __init__(self, ask: Ask, origin: Call, closing: Callable[[], bool]) -> None:
        self._ask = ask
        self._origin = origin
        self._closing = closing

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        """The decoded answer. Raises ToolError."""
        sent = {name.encode(): value.encode() for name, value in (headers or {}).items()}
        data = b"" if body is None else msgspec.json.encode(body)
        asked = urlencode(query or {}).encode()
        answer = await self._ask(self._origin, Wish(method, path, asked, data, sent))
        found = msgspec.json.decode(answer.body) if answer.body else None
        if answer.status >= 400:
            raise refused(found)
        if _held_for_nothing(found, query, path) and self._closing():
            raise ToolError("the server is being restarted. Call again in a few seconds.", "restarting")
        return found


def _held_for_nothing(found: Any, query: dict[str, Any] | None, path: str) -> bool:
    """Whether a request was held until there would be something, and let go without it."""
    if path.endswith("/agents/wait"):
        return bool(object_of(object_of(found).get("call")).get("status") == collaborating.GOES_ON)
    if path.endswith("/wait"):
        return not object_of(found).get("settled")
    if approving.waits(path, query):
        return not approving.has_ended(found)
    return found == [] and bool(query and query.get("wait"))


def refused(problem: Any) -> ToolError:
    """A refusal of a route, as a model reads it."""
    told = object_of(problem)
    if told.get("code") == approving.NEEDS_LEAVE:
        return approving.stopped(told)
    inner = object_of(told.get("error"))  # of JSON-RPC
    text = inner.get("message") or told.get("error") or "the server refused this"
    reasons = inner.get("data")
    reason = object_of(reasons[0]).get("reason", "") if isinstance(reasons, list) and reasons else ""
    if isinstance(told.get("hint"), str):
        text = f"{text} ({told['hint']})"
    if "retry_after" in told:
        text = f"{text}; try again in {told['retry_after']} seconds"
    return ToolError(str(text), str(told.get("code") or reason.lower() or "tool_failed"))


class ServerHost:
    """Has the tools, and runs them for the workspace whose request it is. (A `mcp.Host`.)"""

    name = "molecule"
    instructions = INSTRUCTIONS

    def __init__(self, ask: Ask, org: OrgReader, closing: Callable[[], bool], means: Means) -> None:
        self.version = means.version
        self.locals: Mapping[str, Verb] = {
            "reply": self._answer,
            "decline": self._decline,
            "reply_to_workspace": self._reply,
            "get_runtime_identity": self._identity,
            "wait_for_message": self._wait,
            "inbox_peek": self._peek,
            "inbox_pop": self._pop,
            "chat_history": self._history,
            **dict.fromkeys(delegating.NAMES, self._delegating),
            **dict.fromkeys(approving.NAMES, self._approving),
            **dict.fromkeys(collaborating.NAMES, self._collaborating),
        }
        self._ask = ask
        self._org = org
        self._closing = closing
        self._clock = means.clock
        self._ids = means.ids
        self._limits = means.settings.limits
        self._public_url = means.settings.url
        self._additions = means.additions
        self._tools = (*TOOLS, *(() if means.additions is None else means.additions.specs))
        self._held: OrderedDict[tuple[str, str, str], int] = OrderedDict()

    def tools(self) -> Sequence[ToolSpec]:
        """The tools, in the order in which they are listed."""
        return self._tools

    async def call(self, spec: ToolSpec, arguments: Struct, calling: Calling) -> Outcome:
        """Runs a tool in the name of the request that this task works on. Raises ToolError."""
        outlet = current()
        if outlet is None:
            raise LookupError("a tool runs for a request")
        if self._additions is not None and spec in self._additions.specs:
            return await self._additions.call(spec, arguments, calling)
        doing = Doing(outlet, calling, self._key_of(calling))
        named = spec.seat_of(arguments)
        if named not in ("", doing.own):
            raise ToolError(
                f"this connection is workspace {doing.own} and cannot act as {named}. Leave {spec.identity} out, or "
                "use the connection of that workspace.",
                "wrong_workspace",
            )
        if isinstance(spec.call, Local):
            return Outcome(await self.locals[spec.call.name](doing, arguments))
        return Outcome(await self._over_route(spec, spec.call, doing, arguments))

    async def _over_route(self, spec: ToolSpec, route: Route, doing: Doing, arguments: Struct) -> dict[str, Any]:
        request = spec.request(doing.own, arguments)
        headers = verbs.key_headers(doing.key) if route.keyed else {}
        inside = allowed(self._inside(doing), arguments, reads=True)
        answer = await inside.call(
            request.method, request.path, body=request.body, query=request.query, headers=headers
        )
        return spec.result(doing.own, answer)

    def _inside(self, doing: Doing) -> Inside:
        return Inside(self._ask, doing.outlet.origin, self._closing)

    def _key_of(self, calling: Calling) -> str:
        """What makes a repeated call harmless: the name that the agent's host gives it, or a new one."""
        return verbs.call_name(calling.meta) or self._ids.new()

    # -- verbs that are no single route --------------------------------------------------------------------------------

    async def _reply(self, doing: Doing, given: types.ReplyArguments) -> dict[str, Any]:
        given = structs.replace(given, attempt=given.attempt or self._attempt(doing, given.activity_id))
        return await verbs.reply(self._inside(doing), doing.own, given, doing.key)

    async def _answer(self, doing: Doing, given: replytypes.AnswerArguments) -> dict[str, Any]:
        return await verbs.answer(self._inside(doing), doing.own, given, doing.key)

    async def _decline(self, doing: Doing, given: replytypes.DeclineArguments) -> dict[str, Any]:
        return await verbs.decline(self._inside(doing), doing.own, given, doing.key)

    async def _identity(self, doing: Doing, _given: types.NoArguments) -> dict[str, Any]:
        seat = self._org.living(doing.own)
        told = types.SeatInfo(
            workspace_id=seat.id, platform_url=self._public_url, name=seat.name, status=seat.status.value
        )
        identity = types.Identity(runtime="molecule server", version=self.version, workspaces=[told])
        found: dict[str, Any] = msgspec.to_builtins(identity)
        return found

    async def _wait(self, doing: Doing, given: types.WaitArguments) -> dict[str, Any]:
        """Who gives up while it waits has taken nothing; a message that was taken in that very moment stays held until
        its lease ends, and then comes again."""
        inside, lease = self._inside(doing), min(self._limits.mcp_lease_seconds, self._limits.lease_seconds)
        message = await verbs.wait(
            inside, doing.own, given.timeout_secs, clock=self._clock, lease=lease, progress=doing.calling.progress
        )
        if message is None:
            return _plain(types.Waited(message=None, note="No message came. Call again to go on waiting."))
        self._hold(doing, message.activity_id, message.attempt)
        return _plain(types.Waited(message=message, waiting=await self._others(inside, doing.own)))

    async def _others(self, inside: Inside, own: str) -> int:
        """How many more are open; looking for them must not cost the message that was taken."""
        try:
            return max(0, len(await verbs.peek(inside, own, types.MOST_SHOWN)) - 1)
        except ToolError:
            return 0

    async def _peek(self, doing: Doing, given: types.PeekArguments) -> dict[str, Any]:
        return _plain(types.Peeked(messages=await verbs.peek(self._inside(doing), doing.own, given.limit)))

    async def _pop(self, doing: Doing, given: types.PopArguments) -> dict[str, Any]:
        given = structs.replace(given, attempt=given.attempt or self._attempt(doing, given.activity_id))
        return await verbs.pop(self._inside(doing), doing.own, given)

    async def _history(self, doing: Doing, given: types.HistoryArguments) -> dict[str, Any]:
        return await verbs.history(self._inside(doing), doing.own, given)

    async def _delegating(self, doing: Doing, given: Struct) -> dict[str, Any]:
        """The tools about delegations. Who gives up while it waits for a result has cancelled nothing."""
        seats = ((doing.own, self._inside(doing)),)
        meta, told = doing.calling.meta, delegating.progress_of(doing.calling.progress, doing.calling.meta)
        return await delegating.run(seats, given, verbs.call_name(meta), clock=self._clock, progress=told)

    async def _approving(self, doing: Doing, given: Struct) -> dict[str, Any]:
        """The tools about approvals. What an agent was shown is not kept here: it says itself what it decides about."""
        seats = ((doing.own, self._inside(doing)),)
        meta, told = doing.calling.meta, delegating.progress_of(doing.calling.progress, doing.calling.meta)
        return await approving.run(seats, given, verbs.call_name(meta), clock=self._clock, progress=told)

    async def _collaborating(self, doing: Doing, given: Struct) -> dict[str, Any]:
        """The tools about agents in threads, from the session thread of whoever asks. Who gives up while it waits has
        ended nothing but its wait."""
        seats = ((doing.own, self._inside(doing)),)
        meta, told = doing.calling.meta, delegating.progress_of(doing.calling.progress, doing.calling.meta)
        session = collaborating.session_in(meta)
        return await collaborating.run(seats, given, doing.key, clock=self._clock, session=session, progress=told)

    # -- what an agent holds -------------------------------------------------------------------------------------------

    def _hold(self, doing: Doing, activity_id: str, attempt: int) -> None:
        key = (doing.own, doing.outlet.holder, activity_id)
        self._held[key] = attempt
        self._held.move_to_end(key)
        if len(self._held) > _MOST_HELD:
            self._held.popitem(last=False)

    def _attempt(self, doing: Doing, activity_id: str) -> int:
        """The attempt under which this client was given a message; 0 if that is not known here."""
        return self._held.get((doing.own, doing.outlet.holder, activity_id), 0)


def _plain(told: Struct) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(told)
    return found
