"""The methods of the app-server dialect. Each is a request of the REST routes, made in the client's name: the same
guards, rates, decisions and refusals, and no second truth.

Above: `edges/appserver.py`. Below: the app, which answers.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from molecule_core.access.model import Kind
from molecule_core.edges.app import Wish, refusal
from molecule_core.edges.appserver_items import LogLine, thread_of, turns_in
from molecule_core.edges.routes import Answer, Call
from molecule_core.ground.errors import InvalidField, MoleculeError, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import is_client_id
from molecule_core.wire import appserver as app
from molecule_core.wire import strictjson
from molecule_core.wire.approvals import ApprovalItem, ApprovalPage
from molecule_core.wire.threads import EntryPage, ThreadItem, ThreadPage, ThreadView, TurnTaken

T = TypeVar("T")
Asks = Callable[[Call, Wish], Awaitable[Answer]]
"""Makes a request in the name of a caller."""
PARSE, INVALID, UNKNOWN, PARAMS, INTERNAL, BUSY = -32700, -32600, -32601, -32602, -32603, -32001
"""Codes of refusals: no JSON, not now, no such method, not these params, our mistake, ask again later."""
# Of the client's own page, whose cookie lets in only requests that say so.
_OWN_PAGE = {b"x-molecule-client": b"appserver"}
_NAMES = {
    "developer_instructions": "developer",
    "client_user_message_id": "key",
    "expected_turn_id": "expected_turn_id",
}


class Refused(Exception):
    """A request that is refused, as the dialect says it."""

    def __init__(self, fault: app.Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Request(NamedTuple):
    """What a client asks. `id` is None for what wants no answer."""

    id: int | str | None
    method: str
    params: Any


class Reply(NamedTuple):
    """What a client answers to a request of ours. `result` is None if it does not."""

    id: Any
    result: Any


class Done(NamedTuple):
    """What came of a request. `follows`, `leaves`: the tree that its client follows from now on, or does not."""

    result: Any
    follows: str | None = None
    leaves: str | None = None


def request_of(data: bytes, limits: Limits) -> Request | Reply:
    """A request in a frame, or an answer. Raises Refused."""
    try:
        value = strictjson.decode(data, max_depth=limits.json_depth)
    except MoleculeError as error:
        raise Refused(app.Fault(PARSE, f"{error.text} Send one JSON object in each text frame.")) from None
    if isinstance(value, dict) and "method" not in value and ("result" in value or "error" in value):
        return Reply(value.get("id"), value.get("result"))
    name, method = (value.get("id"), value.get("method")) if isinstance(value, dict) else (None, None)
    known = name is None or (isinstance(name, int | str) and not isinstance(name, bool))
    if not isinstance(method, str) or not known:
        raise Refused(app.Fault(INVALID, "a request is an object with id (text or number), method and params"))
    return Request(name, method, value.get("params") or {})


def params_of(params: Any, shape: type[T]) -> T:
    """What a method takes. Raises Refused."""
    try:
        if isinstance(params, dict):
            params = {name: value for name, value in params.items() if value is not None}
        return msgspec.convert(params, shape)
    except msgspec.ValidationError as error:
        raise Refused(app.Fault(PARAMS, f"params: {str(error)[:300]}; docs/app-server.md says what is taken")) from None


class Dialect:
    """All methods but `initialize`, which is about the connection."""

    def __init__(self, asks: Asks) -> None:
        self._asks = asks
        self._methods: dict[str, tuple[type[Struct], Callable[[Call, Any], Awaitable[Done]]]] = {
            "thread/start": (app.StartParams, self._start),
            "thread/resume": (app.ResumeParams, self._resume),
            "thread/fork": (app.ForkParams, self._fork),
            "thread/subscribe": (app.ThreadParams, self._subscribe),
            "thread/unsubscribe": (app.ThreadParams, self._unsubscribe),
            "thread/list": (app.ListParams, self._list),
            "thread/read": (app.ReadParams, self._read),
            "thread/compact/start": (app.ThreadParams, self._compact),
            "thread/close": (app.CloseParams, self._close),
            "thread/archive": (app.CloseParams, self._close),
            "turn/start": (app.TurnStartParams, self._turn),
            "turn/steer": (app.SteerParams, self._steer),
            "turn/interrupt": (app.InterruptParams, self._interrupt),
        }
        self.following = frozenset(("thread/start", "thread/resume", "thread/fork", "thread/subscribe"))
        """Methods whose client follows a tree then."""

    async def do(self, call: Call, request: Request) -> Done:
        """What a request asks. Raises Refused."""
        known = self._methods.get(request.method)
        if known is None:
            raise Refused(app.Fault(UNKNOWN, f"no such method; there are initialize, {', '.join(self._methods)}"))
        shape, act = known
        return await act(call, params_of(request.params, shape))

    async def root_of(self, call: Call, thread_id: str) -> str:
        """The tree of a thread that the caller may see. Raises Refused."""
        return (await self._seen(call, thread_id)).root_id

    async def waiting_approvals(self, call: Call) -> list[ApprovalItem]:
        """Approvals that are not decided, oldest first. Raises Refused."""
        found, after = list[ApprovalItem](), None
        while True:
            page = await self._ask(call, ApprovalPage, "GET", "/approvals/pending", after=after)
            found += page.approvals
            if page.reached_end or not page.approvals:
                return found
            after = page.approvals[-1].approval_id

    async def decide(self, call: Call, item: ApprovalItem, body: dict[str, Any]) -> None:
        """Decides about an approval. Raises Refused."""
        path = f"/workspaces/{item.workspace_id}/approvals/{item.approval_id}/decide"
        await self._ask(call, ApprovalItem, "POST", path, body)

    # -- threads -------------------------------------------------------------------------------------------------------

    async def _start(self, call: Call, given: app.StartParams) -> Done:
        path = f"/workspaces/{_workspace(call, given.workspace_id)}/threads"
        item = await self._ask(call, ThreadItem, "POST", path, _body(given))
        return Done({"thread": thread_of(item), **_settings(item)}, item.root_id)

    async def _resume(self, call: Call, given: app.ResumeParams) -> Done:
        view = await self._ask(call, ThreadView, "POST", f"{_thread(call, given.thread_id)}/resume", _body(given))
        return Done(_shown(view), view.root_id)

    async def _fork(self, call: Call, given: app.ForkParams) -> Done:
        view = await self._ask(call, ThreadView, "POST", f"{_thread(call, given.thread_id)}/fork", _body(given))
        return Done(_shown(view), view.root_id)

    async def _subscribe(self, call: Call, given: app.ThreadParams) -> Done:
        view = await self._seen(call, given.thread_id)
        return Done({"thread": thread_of(view)}, view.root_id)

    async def _unsubscribe(self, call: Call, given: app.ThreadParams) -> Done:
        return Done({"status": "unsubscribed"}, leaves=await self.root_of(call, given.thread_id))

    async def _list(self, call: Call, given: app.ListParams) -> Done:
        query: dict[str, Any] = {
            "limit": given.limit,
            "before": given.cursor,
            "state": given.state,
            "parent": given.parent_thread_id,
            "ancestor": given.ancestor_thread_id,
        }
        path = f"/workspaces/{_workspace(call, given.workspace_id)}/threads"
        page = await self._ask(call, ThreadPage, "GET", path, **query)
        after = None if page.reached_end else page.threads[-1].thread_id
        return Done({"data": [thread_of(each) for each in page.threads], "nextCursor": after})

    async def _read(self, call: Call, given: app.ReadParams) -> Done:
        view, turns, after = await self._seen(call, given.thread_id), list[app.Turn](), None
        if given.include_turns:
            path = f"{_thread(call, given.thread_id)}/items"
            page = await self._ask(call, EntryPage, "GET", path, after=given.after, limit=given.limit)
            lines = [LogLine.of(view.thread_id, each) for each in page.items]
            turns, after = turns_in(lines), None if page.reached_end else lines[-1].ordinal
        return Done({**_shown(view), "thread": thread_of(view, turns), "nextAfter": after})

    async def _compact(self, call: Call, given: app.ThreadParams) -> Done:
        taken = await self._ask(call, TurnTaken, "POST", f"{_thread(call, given.thread_id)}/compact")
        return Done({"turnId": taken.turn_id})

    async def _close(self, call: Call, given: app.CloseParams) -> Done:
        item = await self._ask(call, ThreadItem, "POST", f"{_thread(call, given.thread_id)}/close", _body(given))
        return Done({"thread": thread_of(item)})

    async def _seen(self, call: Call, thread_id: str) -> ThreadView:
        return await self._ask(call, ThreadView, "GET", _thread(call, thread_id))

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _turn(self, call: Call, given: app.TurnStartParams) -> Done:
        taken = await self._ask(call, TurnTaken, "POST", f"{_thread(call, given.thread_id)}/turns", _body(given))
        return Done({"turn": app.Turn(id=taken.turn_id, status="inProgress"), "joined": taken.joined})

    async def _steer(self, call: Call, given: app.SteerParams) -> Done:
        body = {**_body(given), "mode": "steer"}
        taken = await self._ask(call, TurnTaken, "POST", f"{_thread(call, given.thread_id)}/turns", body)
        return Done({"turnId": taken.turn_id})

    async def _interrupt(self, call: Call, given: app.InterruptParams) -> Done:
        running = (await self._seen(call, given.thread_id)).turn_id
        if running != given.turn_id:
            now = "no turn runs" if running is None else f"turn {running} runs"
            raise Refused(app.Fault(INVALID, f"{now} now, not {given.turn_id[:100]}; name the turn of turn/started"))
        body = {} if given.descendants is None else {"descendants": given.descendants}
        await self._ask(call, ThreadItem, "POST", f"{_thread(call, given.thread_id)}/interrupt", body)
        return Done({})

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def _ask(
        self, call: Call, gives: type[T], method: str, path: str, body: dict[str, Any] | None = None, **query: Any
    ) -> T:
        asked = urlencode({name: value for name, value in query.items() if value is not None}).encode()
        said = b"" if body is None else msgspec.json.encode(body)
        answer = await self._asks(call, Wish(method, path, asked, said, _credential(call)))
        if answer.status >= 400:
            raise Refused(fault_of(answer))
        return msgspec.json.decode(answer.body, type=gives)


def fault_of(answer: Answer) -> app.Fault:
    """A refusal of REST in the dialect."""
    problem = msgspec.json.decode(answer.body)
    code = {400: PARAMS, 422: PARAMS, 429: BUSY, 503: BUSY}.get(answer.status, INVALID)
    return app.Fault(INTERNAL if answer.status == 500 else code, problem["error"], problem)


def _thread(call: Call, thread_id: str) -> str:
    return f"/threads/{_plain(call, thread_id, 'thread')}"


def _workspace(call: Call, given: str | None) -> str:
    """The workspace that is meant: an agent's own, unless it names one."""
    if given is None and call.by.kind is Kind.WORKSPACE:
        given = call.by.id
    if given is None:
        raise Refused(fault_of(refusal(InvalidField(reason="workspaceId is missing; name the workspace"))))
    return _plain(call, given, "workspace")


def _plain(call: Call, name: str, what: str) -> str:
    """An id that may stand in a path. What cannot be one is not there."""
    if not is_client_id(name, call.limits.id_length):
        raise Refused(fault_of(refusal(NotFound(what=what))))
    return name


def _credential(call: Call) -> dict[bytes, bytes]:
    """What the client was let in with, if that is not a token, which goes along by itself."""
    if b"authorization" in call.headers:
        return {}
    page = {name: call.headers[name] for name in (b"cookie", b"origin", b"host") if name in call.headers}
    return page | _OWN_PAGE


def _body(given: Struct) -> dict[str, Any]:
    """What was given, as REST calls it."""
    members = {
        name: getattr(given, name) for name in given.__struct_fields__ if name not in ("thread_id", "workspace_id")
    }
    return {_NAMES.get(name, name): value for name, value in members.items() if value is not None}


def _settings(item: ThreadItem) -> dict[str, Any]:
    sources = [{"type": item.base.provenance.type, "source": item.base.provenance.source}]
    return {"model": item.model, "reasoningEffort": item.effort, "instructionSources": sources}


def _shown(view: ThreadView) -> dict[str, Any]:
    """A thread with all its instructions."""
    layers = {"baseInstructions": view.base_instructions, "layers": view.layers}
    return {"thread": thread_of(view), **_settings(view), **layers}
