"""Methods of the app-server protocol. Each calls the REST routes as the client, with their guards and rate limits."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from molecule_core.access.model import CredentialKind
from molecule_core.api.app_server.items import ThreadLogLine, thread_shape, to_camel_case, turns_from_lines
from molecule_core.api.application import InternalCall, InternalRequest, error_response
from molecule_core.api.http.response import Response
from molecule_core.api.routing import Request
from molecule_core.common.errors import InvalidField, MoleculeError, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import is_valid_client_id
from molecule_core.common.validation import validation_error_text
from molecule_core.wire.protocols import app_server as app
from molecule_core.wire.protocols import strict_json
from molecule_core.wire.schemas.approvals import ApprovalItem, ApprovalPage
from molecule_core.wire.schemas.threads import EntryPage, ThreadItem, ThreadPage, ThreadView, TurnResponse

T = TypeVar("T")
"""Makes an internal request as the caller of another one."""
PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR, SERVER_BUSY = (
    -32700,
    -32600,
    -32601,
    -32602,
    -32603,
    -32001,
)
"""JSON-RPC error codes."""
# A session cookie is accepted only with the custom header that our own pages send.
_SAME_ORIGIN_HEADERS = {b"x-molecule-client": b"appserver"}
_REST_FIELD_NAMES = {
    "developer_instructions": "developer",
    "client_user_message_id": "key",
    "expected_turn_id": "expected_turn_id",
}


class AppServerError(Exception):
    """Rejected request, as an error of the protocol."""

    def __init__(self, fault: app.AppServerErrorBody) -> None:
        super().__init__(fault.message)
        self.fault = fault


class ClientRequest(NamedTuple):
    """Request of a client. `id` is None for notifications."""

    id: int | str | None
    method: str
    params: Any


class ClientResponse(NamedTuple):
    """Client's answer to a request of the server. `result` is None for errors."""

    id: Any
    result: Any


class MethodResult(NamedTuple):
    """Result of a method, and the tree that the client follows or stops following because of it."""

    result: Any
    followed_tree: str | None = None
    unfollowed_tree: str | None = None


def parse_client_message(data: bytes, limits: Limits) -> ClientRequest | ClientResponse:
    """Parse a frame. Raises AppServerError."""
    try:
        value = strict_json.decode(data, max_depth=limits.json_depth)
    except MoleculeError as error:
        raise AppServerError(app.AppServerErrorBody(PARSE_ERROR, error.text)) from None
    if isinstance(value, dict) and "method" not in value and ("result" in value or "error" in value):
        return ClientResponse(value.get("id"), value.get("result"))
    id_, method = (value.get("id"), value.get("method")) if isinstance(value, dict) else (None, None)
    is_valid_id = id_ is None or (isinstance(id_, int | str) and not isinstance(id_, bool))
    if not isinstance(method, str) or not is_valid_id:
        raise AppServerError(
            app.AppServerErrorBody(
                INVALID_REQUEST, "the request is not valid. Send an object with id (text or number), method and params."
            )
        )
    return ClientRequest(id_, method, value.get("params") or {})


def parse_params(params: Any, shape: type[T]) -> T:
    """Decode the parameters of a method; null members count as missing. Raises AppServerError."""
    try:
        params = _without_nulls(params)
        return msgspec.convert(params, shape)
    except msgspec.ValidationError as error:
        raise AppServerError(
            app.AppServerErrorBody(
                INVALID_PARAMS, validation_error_text(error, value=params, shape=shape, subject="params")
            )
        ) from None


def _without_nulls(value: Any) -> Any:
    """Return a value without the null members of its objects, at any depth."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


class AppServerMethods:
    """All methods except `initialize`, which belongs to the connection."""

    def __init__(self, call_internally: InternalCall) -> None:
        self._call_internally = call_internally
        self._methods: dict[str, tuple[type[Struct], Callable[[Request, Any], Awaitable[MethodResult]]]] = {
            "account/read": (app.AccountReadParams, self._read_account),
            "thread/start": (app.ThreadStartParams, self._start_thread),
            "thread/resume": (app.ThreadResumeParams, self._resume_thread),
            "thread/fork": (app.ThreadForkParams, self._fork_thread),
            "thread/subscribe": (app.ThreadParams, self._subscribe),
            "thread/unsubscribe": (app.ThreadParams, self._unsubscribe),
            "thread/list": (app.ThreadListParams, self._list_threads),
            "thread/read": (app.ThreadReadParams, self._read_thread),
            "thread/compact/start": (app.ThreadParams, self._compact_thread),
            "thread/close": (app.ThreadCloseParams, self._close_thread),
            "thread/archive": (app.ThreadCloseParams, self._close_thread),
            "turn/start": (app.TurnStartParams, self._start_turn),
            "turn/steer": (app.TurnSteerParams, self._steer_turn),
            "turn/interrupt": (app.TurnInterruptParams, self._interrupt_turn),
        }
        self.following_methods = frozenset(("thread/start", "thread/resume", "thread/fork", "thread/subscribe"))
        """Methods after which the client follows a tree."""

    async def call_method(self, http_request: Request, request: ClientRequest) -> MethodResult:
        """Run a method. Raises AppServerError."""
        method_entry = self._methods.get(request.method)
        if method_entry is None:
            raise AppServerError(
                app.AppServerErrorBody(
                    METHOD_NOT_FOUND, f"the server has no such method. Use initialize, {', '.join(self._methods)}."
                )
            )
        shape, method_function = method_entry
        return await method_function(http_request, parse_params(request.params, shape))

    async def tree_root_of(self, http_request: Request, thread_id: str) -> str:
        """Return the root of a thread that the caller may see. Raises AppServerError."""
        return (await self._get_thread(http_request, thread_id)).root_id

    async def list_pending_approvals(self, http_request: Request) -> list[ApprovalItem]:
        """Return the pending approvals, oldest first. Raises AppServerError."""
        approvals, after = list[ApprovalItem](), None
        while True:
            page = await self._call_rest(http_request, ApprovalPage, "GET", "/approvals/pending", after=after)
            approvals += page.approvals
            if page.reached_end or not page.approvals:
                return approvals
            after = page.approvals[-1].approval_id

    async def decide_approval(self, http_request: Request, item: ApprovalItem, body: dict[str, Any]) -> None:
        """Decide an approval. Raises AppServerError."""
        path = f"/workspaces/{item.workspace_id}/approvals/{item.approval_id}/decide"
        await self._call_rest(http_request, ApprovalItem, "POST", path, body)

    async def _read_account(self, _http_request: Request, _params: app.AccountReadParams) -> MethodResult:
        return MethodResult(app.AccountResponse())

    # -- threads -------------------------------------------------------------------------------------------------------

    async def _start_thread(self, http_request: Request, params: app.ThreadStartParams) -> MethodResult:
        path = f"/workspaces/{_workspace_id(http_request, params.workspace_id)}/threads"
        item = await self._call_rest(http_request, ThreadItem, "POST", path, _rest_body(params))
        return MethodResult({"thread": thread_shape(item), **_settings_of(item)}, item.root_id)

    async def _resume_thread(self, http_request: Request, params: app.ThreadResumeParams) -> MethodResult:
        thread = await self._call_rest(
            http_request,
            ThreadView,
            "POST",
            f"{_thread_path(http_request, params.thread_id)}/resume",
            _rest_body(params),
        )
        return MethodResult(_thread_with_layers(thread), thread.root_id)

    async def _fork_thread(self, http_request: Request, params: app.ThreadForkParams) -> MethodResult:
        thread = await self._call_rest(
            http_request, ThreadView, "POST", f"{_thread_path(http_request, params.thread_id)}/fork", _rest_body(params)
        )
        return MethodResult(_thread_with_layers(thread), thread.root_id)

    async def _subscribe(self, http_request: Request, params: app.ThreadParams) -> MethodResult:
        thread = await self._get_thread(http_request, params.thread_id)
        return MethodResult({"thread": thread_shape(thread)}, thread.root_id)

    async def _unsubscribe(self, http_request: Request, params: app.ThreadParams) -> MethodResult:
        return MethodResult(
            {"status": "unsubscribed"}, unfollowed_tree=await self.tree_root_of(http_request, params.thread_id)
        )

    async def _list_threads(self, http_request: Request, params: app.ThreadListParams) -> MethodResult:
        query: dict[str, Any] = {
            "limit": params.limit,
            "before": params.cursor,
            "state": params.state,
            "parent": params.parent_thread_id,
            "ancestor": params.ancestor_thread_id,
        }
        path = f"/workspaces/{_workspace_id(http_request, params.workspace_id)}/threads"
        page = await self._call_rest(http_request, ThreadPage, "GET", path, **query)
        after = None if page.reached_end else page.threads[-1].thread_id
        return MethodResult({"data": [thread_shape(each) for each in page.threads], "nextCursor": after})

    async def _read_thread(self, http_request: Request, params: app.ThreadReadParams) -> MethodResult:
        thread, turns, after = await self._get_thread(http_request, params.thread_id), list[app.AppTurn](), None
        if params.include_turns:
            path = f"{_thread_path(http_request, params.thread_id)}/items"
            page = await self._call_rest(http_request, EntryPage, "GET", path, after=params.after, limit=params.limit)
            log_lines = [ThreadLogLine.from_entry(thread.thread_id, each) for each in page.items]
            turns, after = turns_from_lines(log_lines), None if page.reached_end else log_lines[-1].ordinal
        return MethodResult({**_thread_with_layers(thread), "thread": thread_shape(thread, turns), "nextAfter": after})

    async def _compact_thread(self, http_request: Request, params: app.ThreadParams) -> MethodResult:
        result = await self._call_rest(
            http_request, TurnResponse, "POST", f"{_thread_path(http_request, params.thread_id)}/compact"
        )
        return MethodResult({"turnId": result.turn_id})

    async def _close_thread(self, http_request: Request, params: app.ThreadCloseParams) -> MethodResult:
        item = await self._call_rest(
            http_request,
            ThreadItem,
            "POST",
            f"{_thread_path(http_request, params.thread_id)}/close",
            _rest_body(params),
        )
        return MethodResult({"thread": thread_shape(item)})

    async def _get_thread(self, http_request: Request, thread_id: str) -> ThreadView:
        return await self._call_rest(http_request, ThreadView, "GET", _thread_path(http_request, thread_id))

    # -- turns ---------------------------------------------------------------------------------------------------------

    async def _start_turn(self, http_request: Request, params: app.TurnStartParams) -> MethodResult:
        result = await self._call_rest(
            http_request,
            TurnResponse,
            "POST",
            f"{_thread_path(http_request, params.thread_id)}/turns",
            _rest_body(params),
        )
        turn = app.AppTurn(id=result.turn_id, status=to_camel_case(result.status))  # type: ignore[arg-type]
        return MethodResult({"turn": turn, "joined": result.joined})

    async def _steer_turn(self, http_request: Request, params: app.TurnSteerParams) -> MethodResult:
        body = {**_rest_body(params), "mode": "steer"}
        result = await self._call_rest(
            http_request, TurnResponse, "POST", f"{_thread_path(http_request, params.thread_id)}/turns", body
        )
        return MethodResult({"turnId": result.turn_id})

    async def _interrupt_turn(self, http_request: Request, params: app.TurnInterruptParams) -> MethodResult:
        running = (await self._get_thread(http_request, params.thread_id)).turn_id
        if running != params.turn_id:
            now = "no turn is running" if running is None else f"the running turn is {running}"
            raise AppServerError(
                app.AppServerErrorBody(
                    INVALID_REQUEST, f"{now}, not {params.turn_id[:100]}. Send the turn id of turn/started."
                )
            )
        body = {} if params.descendants is None else {"descendants": params.descendants}
        await self._call_rest(
            http_request, ThreadItem, "POST", f"{_thread_path(http_request, params.thread_id)}/interrupt", body
        )
        return MethodResult({})

    # -- helpers -------------------------------------------------------------------------------------------------------

    async def _call_rest(
        self,
        http_request: Request,
        shape: type[T],
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        **query: Any,
    ) -> T:
        query_string = urlencode({name: value for name, value in query.items() if value is not None}).encode()
        encoded_body = b"" if body is None else msgspec.json.encode(body)
        response = await self._call_internally(
            http_request, InternalRequest(method, path, query_string, encoded_body, _credential_headers(http_request))
        )
        if response.status >= 400:
            raise AppServerError(response_fault(response))
        return msgspec.json.decode(response.body, type=shape)


def response_fault(response: Response) -> app.AppServerErrorBody:
    """Convert an error response of REST to an error of the protocol."""
    problem = msgspec.json.decode(response.body)
    code = {400: INVALID_PARAMS, 422: INVALID_PARAMS, 429: SERVER_BUSY, 503: SERVER_BUSY}.get(
        response.status, INVALID_REQUEST
    )
    return app.AppServerErrorBody(INTERNAL_ERROR if response.status == 500 else code, problem["error"], problem)


def _thread_path(http_request: Request, thread_id: str) -> str:
    return f"/threads/{_checked_path_id(http_request, thread_id, 'thread')}"


def _workspace_id(http_request: Request, workspace_id: str | None) -> str:
    """Return the given workspace, or else the agent's own. Raises AppServerError."""
    if workspace_id is None and http_request.caller.kind is CredentialKind.WORKSPACE:
        workspace_id = http_request.caller.id
    if workspace_id is None:
        raise AppServerError(response_fault(error_response(InvalidField(reason="workspaceId is missing. Add it."))))
    return _checked_path_id(http_request, workspace_id, "workspace")


def _checked_path_id(http_request: Request, name: str, what: str) -> str:
    """Return an id that is safe in a path. Raises AppServerError (not found) for any other."""
    if not is_valid_client_id(name, http_request.limits.id_length):
        raise AppServerError(response_fault(error_response(NotFound(what=what))))
    return name


def _credential_headers(http_request: Request) -> dict[bytes, bytes]:
    """Return the headers that authenticate a session cookie. A bearer token is forwarded anyway."""
    if b"authorization" in http_request.headers:
        return {}
    page = {
        name: http_request.headers[name] for name in (b"cookie", b"origin", b"host") if name in http_request.headers
    }
    return page | _SAME_ORIGIN_HEADERS


def _rest_body(params: Struct) -> dict[str, Any]:
    """Return the given parameters under their REST names."""
    members = {
        name: getattr(params, name) for name in params.__struct_fields__ if name not in ("thread_id", "workspace_id")
    }
    return {_REST_FIELD_NAMES.get(name, name): value for name, value in members.items() if value is not None}


def _settings_of(item: ThreadItem) -> dict[str, Any]:
    sources = [{"type": item.base.provenance.type, "source": item.base.provenance.source}]
    return {"model": item.model, "reasoningEffort": item.effort, "instructionSources": sources}


def _thread_with_layers(thread: ThreadView) -> dict[str, Any]:
    """Return a thread with all its instructions."""
    layers = {"baseInstructions": thread.base_instructions, "layers": thread.layers}
    return {"thread": thread_shape(thread), **_settings_of(thread), **layers}
