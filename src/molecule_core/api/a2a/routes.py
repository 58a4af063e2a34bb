"""Routes of A2A: one address per workspace for JSON-RPC in both lines, and REST below it.

A `message/send` that names no version, no task and no configuration is handled by `api/messages/send.py` as ever: older
clients read its shapes.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec

from molecule_core.access.model import Role
from molecule_core.api.a2a import cards
from molecule_core.api.a2a.cards import CardBuilder
from molecule_core.api.a2a.operations import A2ACall, A2AOperations, history_length
from molecule_core.api.a2a.streams import A2AStreams, StreamFormat, StreamRequest
from molecule_core.api.a2a.tool_approvals import add_request
from molecule_core.api.auth import Authenticator
from molecule_core.api.errors import JSON_RPC_ERRORS, error_mapping, problem_headers
from molecule_core.api.http.response import Response
from molecule_core.api.messages.send import MessageRoutes
from molecule_core.api.query_parameters import query_params, string_param
from molecule_core.api.rate_limits import SEND_RATE, RateClass
from molecule_core.api.routing import (
    ALL_CREDENTIALS,
    AccessPolicy,
    DeferredResponse,
    Request,
    Route,
    WorkspaceScope,
)
from molecule_core.common.errors import CursorNotFound, InvalidField, InvalidJson, JsonTooDeep, MoleculeError
from molecule_core.views.a2a_tasks import TaskCursor
from molecule_core.wire.protocols.a2a import SEND_METHOD
from molecule_core.wire.protocols.a2a_rpc import (
    A2A_MEDIA_TYPE,
    EXTENSIONS_HEADERS,
    INVALID_PARAMS,
    METHODS,
    OWN_DOMAIN,
    PARSE_ERROR,
    PUSH_NOT_SUPPORTED,
    TASK_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    VERSION_HEADER,
    VERSION_NOT_SUPPORTED,
    VERSION_PARAM,
    A2AError,
    A2AErrorKind,
    Operation,
    bool_param,
    check_content_type,
    find_operation,
    object_param,
    parse_extensions,
    parse_line,
    parse_request,
    request_id,
    rest_error,
    rpc_error,
    rpc_result,
    text_param,
    with_json_names,
)
from molecule_core.wire.protocols.a2a_shapes import A2ALine, A2AState, A2ATask, render_task

_LAST_EVENT_ID = b"last-event-id"
# A body with one of these may be more than a plain `message/send`, so it is parsed here.
_NEEDS_PARSING = re.compile(
    rb'"(?:configuration|taskId|SendMessage|SendStreamingMessage)"|"(?:tasks|agent)/|"message/stream"'
)
_OLD_METHOD = re.compile(rb'"(?:Get|List|Cancel|Subscribe|Create|Delete)[A-Za-z]+"')
_QUERY = query_params(
    string_param(VERSION_PARAM, "Version of A2A, as in the header."),
    *(string_param(name, "As in A2A.") for name in ("contextId", "status", "pageSize", "pageToken", "historyLength")),
    *(string_param(name, "As in A2A.") for name in ("statusTimestampAfter", "includeArtifacts")),
)
_TASK_ACTIONS: Mapping[tuple[str, str], Operation] = {
    ("GET", ""): Operation.GET,
    ("POST", "cancel"): Operation.CANCEL,
    ("GET", "subscribe"): Operation.SUBSCRIBE,
    ("POST", "subscribe"): Operation.SUBSCRIBE,
}
_QUEUED_MEMBERS = {"status": "queued", "delivery_mode": "poll", "method": SEND_METHOD}

OperationHandler = Callable[[A2ACall], Coroutine[Any, Any, Any]]
RestHandler = Callable[[Request], Coroutine[Any, Any, Response]]
_TALK = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.TALK, Role.OPERATOR)


class A2ARoutes:
    """Routes of A2A."""

    def __init__(
        self,
        operations: A2AOperations,
        streams: A2AStreams,
        card_builder: CardBuilder,
        message_routes: MessageRoutes,
        authenticator: Authenticator,
    ) -> None:
        self._operations = operations
        self._streams = streams
        self._cards = card_builder
        self._message_routes = message_routes
        self._authenticator = authenticator
        self._handlers: Mapping[Operation, OperationHandler] = {
            Operation.SEND: self._send,
            Operation.GET: self._get,
            Operation.LIST: self._list,
            Operation.CANCEL: self._cancel,
            Operation.EXTENDED_CARD: self._extended_card,
            Operation.CREATE_PUSH: self._create_push,
            Operation.GET_PUSH: self._get_push,
            Operation.LIST_PUSH: self._list_push,
            Operation.DELETE_PUSH: self._delete_push,
        }

    def routes(self) -> list[Route]:
        """Return the routes."""
        base = "/workspaces/{id}/a2a"
        rpc = Route(
            "POST",
            base,
            self.handle_rpc,
            _TALK,
            "Call A2A by JSON-RPC (message/send, SendMessage and all other methods)",
            rate_class=SEND_RATE,
            long_poll=True,
            may_accept=True,
            may_stream_events=True,
            query=_QUERY,
        )
        configs = f"{base}/tasks/{{task_id}}/pushNotificationConfigs"
        push_routes = [] if self._operations.push is None else self._push_routes(configs)
        return [rpc, *self._rest_routes(base), *push_routes]

    def _rest_routes(self, base: str) -> list[Route]:
        task = f"{base}/tasks/{{task_id}}"
        read, write = "Get a task, or stream it with :subscribe behind its id", "Cancel or stream a task"
        return [
            _rest_route("POST", f"{base}/message:send", self._rest(Operation.SEND), "Send a message", sends=True),
            _rest_route(
                "POST",
                f"{base}/message:stream",
                self._rest(Operation.STREAM),
                "Send a message and stream its task",
                sends=True,
                streams=True,
            ),
            _rest_route("GET", f"{base}/tasks", self._rest(Operation.LIST), "List tasks"),
            _rest_route("GET", task, self.handle_task, read, streams=True),
            _rest_route("POST", task, self.handle_task, f"{write}: :cancel or :subscribe behind its id", streams=True),
            _rest_route(
                "GET", f"{base}/extendedAgentCard", self._rest(Operation.EXTENDED_CARD), "Get the extended card"
            ),
        ]

    def _push_routes(self, configs: str) -> list[Route]:
        what, one = "push notification configuration", f"{configs}/{{config_id}}"
        return [
            _rest_route("POST", configs, self._rest(Operation.CREATE_PUSH), f"Create a {what}"),
            _rest_route("GET", configs, self._rest(Operation.LIST_PUSH), f"List {what}s"),
            _rest_route("GET", one, self._rest(Operation.GET_PUSH), f"Get a {what}"),
            _rest_route("DELETE", one, self._rest(Operation.DELETE_PUSH), f"Delete a {what}"),
        ]

    # -- JSON-RPC ------------------------------------------------------------------------------------------------------

    def handle_rpc(self, request: Request) -> Response | DeferredResponse | Coroutine[Any, Any, Response]:
        """Handle a JSON-RPC request of A2A 1.0 (header A2A-Version) or 0.3 (without it).

        Streams are server-sent events; the header Last-Event-ID resumes them.
        """
        version = _version_of(request)
        if version is None and not _NEEDS_PARSING.search(request.body) and not _OLD_METHOD.search(request.body):
            return self._message_routes.send_message(request)
        return self._handle_rpc(request, version)

    async def _handle_rpc(self, request: Request, version: str | None) -> Response:
        rpc_id: str | int | float | None = None
        self._operations.check_reach(request)
        try:
            if version is not None:
                check_content_type(request.header(b"content-type"))
            body = _parse_json(request)
            rpc_id = request_id(body)
            if version is None and _is_plain_send(body):
                return await _await_response(self._message_routes.send_message(request))
            rpc = parse_request(body)
            line = parse_line(version)
            operation = find_operation(rpc.method, line)
            call = A2ACall(
                request,
                line,
                operation,
                with_json_names(rpc.params) if line is A2ALine.V1 else rpc.params,
                parse_extensions([request.header(name) for name in EXTENSIONS_HEADERS]),
                rpc.id,
                version is None,
            )
            if operation in (Operation.STREAM, Operation.SUBSCRIBE):
                return await self._open_stream(call, is_rpc=True)
            result = await self._handlers[operation](call)
        except A2AError as error:
            return _json(rpc_error(rpc_id, error), _activated(request))
        except MoleculeError as error:
            return _json(rpc_error(rpc_id, _to_a2a_error(error)), (*_activated(request), *problem_headers(error)))
        envelope = rpc_result(rpc_id, result)
        if operation is Operation.SEND and line is A2ALine.V0_3 and _is_submitted(result):
            envelope |= {**_QUEUED_MEMBERS, "activity_id": result["id"]}
        return _json(envelope, _activated(request))

    # -- REST ----------------------------------------------------------------------------------------------------------

    def _rest(self, operation: Operation) -> RestHandler:
        """Return the handler of an operation in the REST binding."""

        async def handle(request: Request) -> Response:
            """Handle an operation of A2A over REST."""
            return await self._handle_rest(request, operation, {})

        handle.__doc__ = f"Do `{operation.value}` of A2A 1.0 over REST (header A2A-Version: 1.0)."
        return handle

    async def handle_task(self, request: Request) -> Response:
        """Read, cancel or stream a task of A2A 1.0 over REST."""
        task_id, _, action = request.path_param("task_id", "task").partition(":")
        operation = _TASK_ACTIONS.get((request.route.method, action))
        return await self._handle_rest(request, operation, {"id": task_id})

    async def _handle_rest(self, request: Request, operation: Operation | None, named: dict[str, Any]) -> Response:
        self._operations.check_reach(request)
        headers = _activated(request)
        try:
            # REST is offered in one line, so a request that names no version can only mean that one.
            line = parse_line(_version_of(request) or A2ALine.V1)
            if line is not A2ALine.V1:
                raise A2AError(VERSION_NOT_SUPPORTED, "REST is offered in A2A 1.0. Send the header A2A-Version: 1.0.")
            if operation is None:
                raise A2AError(A2AErrorKind(-32601, "METHOD_NOT_FOUND", 404, "NOT_FOUND"), "the operation is unknown.")
            params = {**with_json_names(self._rest_params(request)), **named}
            extensions = parse_extensions([request.header(name) for name in EXTENSIONS_HEADERS])
            call = A2ACall(request, line, operation, params, extensions)
            if operation in (Operation.STREAM, Operation.SUBSCRIBE):
                return await self._open_stream(call, is_rpc=False)
            return _json(await self._handlers[operation](call), headers, media_type=A2A_MEDIA_TYPE)
        except A2AError as error:
            return _json(rest_error(error), headers, error.kind.status, media_type=A2A_MEDIA_TYPE)
        except MoleculeError as error:
            found, status = _to_a2a_error(error), error_mapping(error).status
            headers = (*headers, *problem_headers(error))
            return _json(rest_error(found), headers, status, media_type=A2A_MEDIA_TYPE)

    def _rest_params(self, request: Request) -> dict[str, Any]:
        """Return the parameters of a request: of its body, query and path. Raises A2AError."""
        params: dict[str, Any] = {}
        if request.route.method == "POST" and request.body:
            check_content_type(request.header(b"content-type"))
            body = _parse_json(request)
            if not isinstance(body, dict):
                raise A2AError(INVALID_PARAMS, "the body is not an object. Send an object.")
            params = body
        elif request.query_string:
            params = {name: value for name, value in request.query_params().items() if name != VERSION_PARAM}
        if "task_id" in request.path_params:
            params = {**params, "taskId": request.path_param("task_id", "task")}
        if "config_id" in request.path_params:
            params = {**params, "id": request.path_param("config_id", "configuration")}
        return params

    # -- operations ----------------------------------------------------------------------------------------------------

    async def _send(self, call: A2ACall) -> dict[str, Any]:
        length = history_length(call.params)
        task = render_task(add_request(await self._operations.send(call), call.extensions), call.line, length)
        return task if call.line is A2ALine.V0_3 else {"task": task}

    async def _get(self, call: A2ACall) -> dict[str, Any]:
        length = history_length(call.params)
        return render_task(add_request(await self._operations.get(call), call.extensions), call.line, length)

    async def _cancel(self, call: A2ACall) -> dict[str, Any]:
        return render_task(await self._operations.cancel(call), call.line)

    async def _list(self, call: A2ACall) -> dict[str, Any]:
        length, has_artifacts = history_length(call.params), bool_param(call.params, "includeArtifacts") is True
        page = await self._operations.list_tasks(call)
        shown = [add_request(each, call.extensions) for each in page.tasks]
        tasks = [render_task(each, call.line, length, with_artifacts=has_artifacts) for each in shown]
        return {"tasks": tasks, "nextPageToken": page.next_token, "pageSize": len(tasks), "totalSize": page.total}

    async def _extended_card(self, call: A2ACall) -> dict[str, Any]:
        return self._cards.build(call.workspace, extended=True)

    async def _open_stream(self, call: A2ACall, *, is_rpc: bool) -> Response:
        """Return the response that streams a task. Raises A2AError and what sending raises."""
        request, resumed = call.request, None
        changes = self._streams.changes
        if call.operation is Operation.STREAM:
            task_id = (await self._operations.send(call, waits=False)).id
        else:
            task_id = text_param(call.params, "id", required=True) or ""
            resumed = _last_event(request, task_id)
        start = await changes.snapshot(call.workspace, call.caller_key, task_id)
        if start is None:
            raise A2AError(TASK_NOT_FOUND, "the task was not found.")
        if resumed is not None and not await changes.is_kept(call.workspace.org_id, resumed):
            resumed = None
        if resumed is not None:
            start = TaskCursor(start.task, resumed, resumed)
        elif call.operation is Operation.SUBSCRIBE and start.task.status.state.is_terminal:
            state = start.task.status.state
            raise A2AError(UNSUPPORTED_OPERATION, f"task {task_id} is {state}. Get the task instead.")
        wanted = StreamRequest(
            call.workspace,
            call.caller_key,
            start,
            StreamFormat(call.line, is_rpc, call.rpc_id, call.extensions),
            has_snapshot=resumed is None,
            ends_with_turn=call.operation is Operation.STREAM,
        )
        credential = self._authenticator.credential_hash(request.headers)

        async def revalidate() -> None:
            await self._authenticator.revalidate(request)

        return self._streams.open(wanted, credential, revalidate, _activated(request))

    # -- push notification configurations ------------------------------------------------------------------------------

    async def _push_task(self, call: A2ACall) -> A2ATask:
        """Return the task that a request about configurations names. Raises A2AError."""
        if self._operations.push is None:
            raise A2AError(PUSH_NOT_SUPPORTED, "this server sends no push notifications.")
        is_id = call.line is A2ALine.V0_3 and "taskId" not in call.params
        return await self._operations.find_task(
            call, text_param(call.params, "id" if is_id else "taskId", required=True)
        )

    async def _create_push(self, call: A2ACall) -> dict[str, Any]:
        task = await self._push_task(call)
        config = object_param(call.params, "pushNotificationConfig") if call.line is A2ALine.V0_3 else call.params
        created: dict[str, Any] = await self._push().create(call, task, config)
        return created

    async def _get_push(self, call: A2ACall) -> dict[str, Any]:
        task = await self._push_task(call)
        found: dict[str, Any] = await self._push().get(call, task, _config_id(call))
        return found

    async def _list_push(self, call: A2ACall) -> Any:
        configs = await self._push().list_all(call, await self._push_task(call)) if self._operations.push else []
        if self._operations.push is None:
            await self._push_task(call)
        return configs if call.line is A2ALine.V0_3 else {"configs": configs, "nextPageToken": ""}

    async def _delete_push(self, call: A2ACall) -> Any:
        task = await self._push_task(call)
        await self._push().delete(call, task, _config_id(call))
        return None if call.line is A2ALine.V0_3 else {}

    def _push(self) -> Any:
        return self._operations.push


def _rest_route(
    method: str, path: str, handler: RestHandler, summary: str, *, sends: bool = False, streams: bool = False
) -> Route:
    """Return a route of the REST binding."""
    return Route(
        method,
        path,
        handler,
        _TALK,
        f"{summary} (A2A)",
        rate_class=SEND_RATE if sends else RateClass.REQUEST,
        long_poll=sends,
        may_stream_events=streams,
        media_type=A2A_MEDIA_TYPE,
        query=_QUERY,
    )


def _config_id(call: A2ACall) -> str:
    """Return the configuration that a request names; without one, the only one that has no name."""
    name = "pushNotificationConfigId" if call.line is A2ALine.V0_3 else "id"
    return text_param(call.params, name) or "default"


def _version_of(request: Request) -> str | None:
    """Return the version that a request names, in its header or its query; None for none."""
    version = request.header(VERSION_HEADER)
    if version is None and request.query_string:
        version = request.query_params().get(VERSION_PARAM)
    return version or None


def _parse_json(request: Request) -> Any:
    try:
        return request.json()
    except (InvalidJson, JsonTooDeep) as error:
        raise A2AError(PARSE_ERROR, error.text) from None


def _is_plain_send(body: Any) -> bool:
    """Return whether a body is a `message/send` as older clients send it."""
    method = body.get("method", SEND_METHOD) if isinstance(body, dict) else None
    if not isinstance(method, str) or method not in METHODS:
        return True  # refused there as ever
    if method != SEND_METHOD or not isinstance(body, dict):
        return False
    params = body.get("params")
    if not isinstance(params, dict) or isinstance(params.get("configuration"), dict):
        return not isinstance(params, dict)
    message = params.get("message")
    return not (isinstance(message, dict) and isinstance(message.get("taskId"), str) and message["taskId"])


async def _await_response(result: Response | DeferredResponse | Coroutine[Any, Any, Response]) -> Response:
    """Return the response of a handler, whichever way it gives it."""
    if isinstance(result, Response):
        return result
    if isinstance(result, DeferredResponse):
        await asyncio.wait((result.future,))
        return result.to_response(result.future)
    return await result


def _last_event(request: Request, task_id: str) -> int | None:
    """Return the number of the event behind which a stream resumes; None if the header names none of this task."""
    named, _, number = (request.header(_LAST_EVENT_ID) or "").strip().rpartition(":")
    return int(number) if named == task_id and number.isascii() and number.isdigit() and len(number) < 19 else None


def _activated(request: Request) -> tuple[tuple[bytes, bytes], ...]:
    """Return the header that names the extensions which a request has activated."""
    named = parse_extensions([request.header(name) for name in EXTENSIONS_HEADERS])
    found = sorted(named & cards.known_extensions(request.workspace)) if named else []
    return ((b"a2a-extensions", ", ".join(found).encode()),) if found else ()


def _is_submitted(task: Any) -> bool:
    return isinstance(task, dict) and task["status"]["state"] == A2AState.SUBMITTED


def _to_a2a_error(error: MoleculeError) -> A2AError:
    """Return an error of Molecule as one of the protocol. Raises those that concern the transport."""
    if isinstance(error, CursorNotFound | InvalidField):
        return A2AError(INVALID_PARAMS, error.text)
    if not isinstance(error, JSON_RPC_ERRORS):
        raise error
    row = error_mapping(error)
    return A2AError(
        A2AErrorKind(row.rpc, row.code.upper(), row.status, "FAILED_PRECONDITION"), error.text, domain=OWN_DOMAIN
    )


def _json(
    value: Any, headers: tuple[tuple[bytes, bytes], ...], status: int = 200, *, media_type: str = "application/json"
) -> Response:
    return Response(msgspec.json.encode(value), status, headers, content_type=media_type.encode())
