"""Requires approvals for calls of the server's own tools, by the rules that people have set for a workspace.

One place for every route that a tool uses, over HTTP or MCP.

Called by the application before each handler; calls the writers and readers of approvals and delegations, and the
reader of messages.
"""

import asyncio
import hashlib
import re
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import to_builtins

from molecule_core.access.model import CredentialKind as Credential
from molecule_core.api.delegations.access import DelegationAccess
from molecule_core.api.delegations.scope_gate import ScopeGate, scope_tools
from molecule_core.api.http.response import Response
from molecule_core.api.messages.send import idempotency_key_of
from molecule_core.api.routing import DeferredResponse, Request, Route
from molecule_core.approvals import rules
from molecule_core.approvals.errors import ApprovalRequired
from molecule_core.approvals.model import Approval, ApprovalRequest
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.common import crash_points
from molecule_core.common.errors import MoleculeError, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import is_valid_client_id
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages.files.uploads import UploadContent
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.rules import can_end_work, is_decline
from molecule_core.tools import spec
from molecule_core.tools.registry import TOOLS
from molecule_core.wire.protocols.a2a import is_delegation_request
from molecule_core.wire.protocols.a2a_rpc import (
    EXTENSIONS_HEADERS,
    METHODS,
    VERSION_HEADER,
    Operation,
    parse_extensions,
)
from molecule_core.wire.schemas.approvals import ApprovalRule, ApprovalStatus, PolicyReason, approval_as_dict

APPROVAL_HEADER = b"x-molecule-approval"
"""The header that names the approval which a call uses."""
_DELEGATE_TOOLS = ("delegate_task", "delegate_task_async")
_SEND_ROUTE = ("POST", "/workspaces/{}/a2a")
_REST_SEND_ROUTES = (("POST", "/workspaces/{}/a2a/message:send"), ("POST", "/workspaces/{}/a2a/message:stream"))
_SEND_ROUTES = (_SEND_ROUTE, *_REST_SEND_ROUTES)
"""The routes of A2A that send messages. Over JSON-RPC, the same route has all other methods too."""
_TASK_ROUTE = ("POST", "/workspaces/{}/a2a/tasks/{}")
_TOOL_OF_OPERATION: Mapping[Operation, tuple[str, ...]] = {
    Operation.GET: ("check_task_status",),
    Operation.LIST: ("check_task_status",),
    Operation.SUBSCRIBE: ("check_task_status",),
    Operation.CANCEL: ("cancel_task",),
}
"""Which tools the operations of A2A amount to that send nothing."""
_NOTIFY_ROUTE = ("POST", "/workspaces/{}/notify")
_DRAFT_ROUTE = ("POST", "/workspaces/{}/messages/{}/draft")
_DELEGATE_ROUTE = ("POST", "/workspaces/{}/delegate")
_UPDATE_ROUTE = ("POST", "/workspaces/{}/delegations/{}/update")
_TOOL_OF_STATUS: Mapping[Any, str] = {"completed": "reply", "failed": "decline"}
"""Which tool the end of received work amounts to, by its status."""
_HANDLE_ROUTES = (("POST", "/workspaces/{}/reply"), ("POST", "/workspaces/{}/decline"))
_AGENT_VERBS = {
    "spawn_agent": "spawn",
    "send_message": "send",
    "followup_task": "followup",
    "wait_agent": "wait",
    "interrupt_agent": "interrupt",
    "close_agent": "close",
    "resume_agent": "resume",
}
# Actions on a thread named by its own id, which may be an agent's or have agents below it.
_THREAD_VERBS = ("interrupt", "close", "resume")
_COLLAB_ROUTES = frozenset(("POST", f"/threads/{{}}/agents/{verb}") for verb in _AGENT_VERBS.values())
# The routes of tools that use more than one. Tools that only read the own inbox need no approval: without them an agent
# could not answer a question about an approval.
_LOCAL_TOOL_ROUTES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "delegate_task": (_DELEGATE_ROUTE, ("POST", "/workspaces/{}/delegations/{}/retry")),
    "delegate_task_async": (_DELEGATE_ROUTE, ("POST", "/workspaces/{}/delegations/{}/retry")),
    "check_task_status": (
        ("GET", "/workspaces/{}/delegations"),
        ("GET", "/delegations/{}"),
        ("POST", "/workspaces/{}/delegations/{}/wait"),
        ("GET", "/workspaces/{}/a2a/tasks"),
        ("GET", "/workspaces/{}/a2a/tasks/{}"),
    ),
    "cancel_task": (("POST", "/workspaces/{}/delegations/{}/cancel"), _TASK_ROUTE),
    "report_progress": (("POST", "/delegations/{}/status"), ("POST", "/workspaces/{}/delegations/{}/status")),
    "reply": (("POST", "/workspaces/{}/reply"), _DRAFT_ROUTE, _UPDATE_ROUTE),
    "decline": (("POST", "/workspaces/{}/decline"), _UPDATE_ROUTE),
    "reply_to_workspace": (*_SEND_ROUTES, _NOTIFY_ROUTE),
    "chat_history": (("GET", "/workspaces/{}/chat-history"),),
    "list_agents": (("GET", "/threads/{}/agents"),),
    **{
        name: (
            ("POST", f"/threads/{{}}/agents/{verb}"),
            *((("POST", f"/threads/{{}}/{verb}"),) if verb in _THREAD_VERBS else ()),
        )
        for name, verb in _AGENT_VERBS.items()
    },
}
UNGATED_TOOLS = (
    *("wait_for_message", "inbox_peek", "inbox_pop", "get_runtime_identity"),
    # a file is seen by others only when a message names it, and that message is gated
    *("read_file", "upload_file"),
)
"""Tools that no rule gates."""
_PARAMETER = re.compile(r"{\w+}")
# What a client generates for each call, and what does not describe the action. Fields deeper inside are user data.
_MESSAGE_ID_FIELDS = frozenset(("messageId", "message_id"))
_VOLATILE_FIELDS = _MESSAGE_ID_FIELDS | {"idempotency_key", "jsonrpc", "call_id"}
# By these headers the same body means something else: a delegation, or a message of another A2A version.
_SIGNIFICANT_HEADERS = (VERSION_HEADER, *EXTENSIONS_HEADERS)
_EXCERPT_LENGTH = 500


class GatedCall(NamedTuple):
    """A call that needs an approval: the rule, the tool, and the action's details.

    `key`: identifies repetitions; `delegation_key`: of a call that begins a delegation, the key that its handler uses;
    `message_key`: of a call that sends a message, the same.
    """

    rule: ApprovalRule
    tool: str
    details: dict[str, Any]
    key: str | None
    delegation_key: str | None
    message_key: str | None

    @property
    def action(self) -> str:
        return rules.tool_action(self.tool)


class ApprovalGate:
    """Gate that lets calls of workspaces through, or requests an approval instead."""

    def __init__(
        self,
        writer: ApprovalWriter,
        reader: ApprovalReader,
        delegation_writer: DelegationWriter,
        delegation_reader: DelegationReader,
        message_reader: MessageReader,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._delegation_writer = delegation_writer
        self._delegation_reader = delegation_reader
        self._message_reader = message_reader
        self._access = DelegationAccess(delegation_reader)
        self._scopes = ScopeGate(delegation_reader.scopes)
        self._limits = limits

    def call_handler(self, request: Request) -> Response | DeferredResponse | Coroutine[Any, Any, Response]:
        """Call the handler, after the checks if a workspace that has rules or scopes calls a route of a tool."""
        crash_points.mark_reached("request.admitted")
        caller = request.caller
        if (
            caller.kind is Credential.WORKSPACE
            and (self._reader.policies_of(caller.id).rules or self._scopes.may_restrict(caller.id, request.headers))
            and gated_tools_of(request.route)
        ):
            return self._check_and_call(request)
        return request.route.handler(request)

    async def _check_and_call(self, request: Request) -> Response:
        await self._check(request)
        result = request.route.handler(request)
        if isinstance(result, DeferredResponse):
            await asyncio.wait((result.future,))
            return result.to_response(result.future)
        return result if isinstance(result, Response) else await result

    async def requires_approval(self, request: Request, tool: str) -> bool:
        """Return whether the caller is a workspace that needs an approval for a tool.

        For routes that do more than the tool does, and that leave that part out then.
        """
        return request.caller.kind is Credential.WORKSPACE and await self._matching_rule(request, tool) is not None

    async def check_upload(self, request: Request, files: Sequence[UploadContent]) -> None:
        """Raise ApprovalRequired if an upload to another workspace needs an approval that it does not name.

        The files reach that workspace at once, so an upload is a message to it. It is checked when all bytes are here:
        the approval is for these files. Raises NotFound, ApprovalUsed, ApprovalMismatch, NotApproved.
        """
        if request.caller.kind is not Credential.WORKSPACE or request.caller.id == request.workspace.id:
            return
        await self._scopes.check_upload(request)
        details = {"path": dict(request.path_params), "files": [to_builtins(each) for each in files]}
        for tool in _TOOLS_OF[_SEND_ROUTE]:
            rule = await self._matching_rule(request, tool)
            if rule is not None:
                return await self._check_gated(request, GatedCall(rule, tool, details, None, None, None))

    async def _check(self, request: Request) -> None:
        """Raise ApprovalRequired if a call needs an approval that it does not name.

        The approval that it names is used up. The repetition of a call that passed needs none, since its handler does
        nothing again.

        Raises NotFound, ApprovalUsed, ApprovalMismatch, NotApproved, InvalidField, ScopeExceeded.
        """
        gated = await self._gated_call(request)
        if gated is not None:
            await self._check_gated(request, gated)

    async def _check_gated(self, request: Request, gated: GatedCall) -> None:
        # A message that was already sent passes whatever its kind was and its state is now: nothing is sent again.
        if gated.message_key is not None and await self._message_reader.has_sent(request.caller.id, gated.message_key):
            return
        digest = rules.action_hash(gated.action, rules.canonical_json(gated.details))
        named = request.header(APPROVAL_HEADER)
        if await self._is_repetition(request, gated, digest):
            return
        is_new = gated.delegation_key is not None
        if named is not None:
            row = await self._reader.get_approval(request.caller.org_id, named.replace("\x00", ""))
            if row.workspace_id != request.caller.id:
                raise NotFound(what="approval")
            await self._writer.use(row, digest, gated.key, is_new=is_new)
            return
        await self._scopes.check_approval(request, {})
        result = await self._writer.request(self._approval_request(request, gated))
        if not result.is_duplicate and result.row.status is ApprovalStatus.APPROVED:  # by standing authority
            await self._writer.use(result.row, digest, gated.key, is_new=is_new)
            return
        raise ApprovalRequired(
            action=gated.action,
            how=_next_step_text(result.row),
            approval=approval_as_dict(self._reader.to_item(result.row)),
        )

    async def _is_repetition(self, request: Request, gated: GatedCall, digest: str) -> bool:
        """Return whether a call passed before and its handler still recognizes its key.

        A failed delegation has released its key: under it, another one would begin without an approval.
        """
        if gated.key is None or not await self._writer.was_used_for(request.caller.id, gated.key, digest):
            return False
        if gated.delegation_key is None:
            return True
        is_id = is_valid_client_id(
            gated.delegation_key, self._limits.id_length
        )  # handlers begin nothing under anything else
        return is_id and await self._delegation_writer.is_key_known(
            request.caller.org_id, request.caller.id, gated.delegation_key
        )

    def _approval_request(self, request: Request, gated: GatedCall) -> ApprovalRequest:
        return ApprovalRequest(
            workspace_id=request.caller.id,
            action=gated.action,
            reason=gated.rule.note,
            details=gated.details,
            source="rule",
            tool=gated.tool,
            risk=rules.risk_notes(None, used_before=not gated.rule.first_time),
            policy=(PolicyReason("rule", rules.rule_text(gated.rule)),),
        )

    async def _gated_call(self, request: Request) -> GatedCall | None:
        """Return the call with the first of its tools that needs an approval, or None."""
        details, body = self._action_details(request)
        tools = await self._candidate_tools(request, body)
        named = _metadata_of(body) or (body if isinstance(body, dict) else {})
        await self._scopes.check(request, (*tools, *scope_tools(request.route)), named)
        for tool in tools:
            rule = await self._matching_rule(request, tool)
            if rule is not None:
                kind, name = _idempotency_name(request, body, self._limits)
                delegation_key = name if (is_work := _is_delegation(request, body)) else None
                # A message is answered by its handle once, whatever id the answer has.
                is_message = (
                    _route_key(request.route) in _SEND_ROUTES
                    and not is_work
                    and not _has_reply_handle(_metadata_of(body))
                )
                return GatedCall(
                    rule, tool, details, _approval_key(kind, name), delegation_key, name if is_message else None
                )
        return None

    async def _matching_rule(self, request: Request, tool: str) -> ApprovalRule | None:
        """Return the rule by which a workspace needs an approval for a tool.

        The cost of the call is unknown: what its caller claims would bound nothing.
        """
        found, action = self._reader.policies_of(request.caller.id).rules, rules.tool_action(tool)
        is_known = any(each.first_time for each in found) and await self._reader.was_used_before(
            request.caller.id, action
        )
        return rules.matching_rule(found, action, None, used_before=is_known)

    async def _candidate_tools(self, request: Request, body: Any) -> tuple[str, ...]:
        """Return the tools that a call amounts to. Raises NotFound.

        A message that asks for work is a delegation; a draft is a reply only where it is sent at once; the end of work
        is a reply or a refusal where the delegating workspace is notified. A message that names a handle is a reply.
        """
        names, route_key = tools_of_route(request.route), _route_key(request.route)
        if route_key == _DRAFT_ROUTE and not (request.workspace.send_drafts and _is_sent(body)):
            return ()
        if route_key == _UPDATE_ROUTE:
            return await self._update_tools(request, body)
        if (others := _other_operation_tools(request, body)) is not None:
            return others
        if route_key in _SEND_ROUTES:
            implied = (
                _DELEGATE_TOOLS
                if _is_delegation(request, body)
                else await self._reply_tools(request, _metadata_of(body))
            )
            return (*implied, *names)
        return ("reply", *names) if route_key == _NOTIFY_ROUTE and _has_reply_handle(body) else names

    async def _reply_tools(self, request: Request, fields: dict[str, Any]) -> tuple[str, ...]:
        """Return the tools that a message to a peer also amounts to.

        By the handle that it names, or because it ends work that this peer delegated, whether it names that or not.
        Only work is declined by a word in metadata; for any other message that word is an answer.
        """
        if not _has_reply_handle(fields):
            ends = can_end_work(fields) and await self._delegation_reader.has_open_between(
                request.caller.id, request.workspace.id
            )
            if not ends:
                return ()
        return ("decline", "reply") if is_decline(fields) else ("reply",)

    async def _update_tools(self, request: Request, body: Any) -> tuple[str, ...]:
        """Return the tool that the end of work amounts to.

        None for work that the workspace recorded itself, since no message is sent, and for work of another worker,
        which the handler rejects.
        """
        row, status = await self._access.find_as_party(request), body.get("status") if isinstance(body, dict) else None
        is_exempt = row.recorded or row.target_id != request.caller.id
        return () if is_exempt or status not in tuple(_TOOL_OF_STATUS) else (_TOOL_OF_STATUS[status],)

    def _action_details(self, request: Request) -> tuple[dict[str, Any], Any]:
        """Return what a call does, equal for all calls that do the same, and its parsed body.

        Details that are too large to be shown are replaced by their hash and beginning. Invalid JSON is rejected by the
        route itself.
        """
        try:
            body = request.json() if request.body else None
        except MoleculeError:
            body = None
        details: dict[str, Any] = {"path": dict(request.path_params)}
        if request.query_string:
            details["query"] = request.query_params()
        if body is not None:
            details["body"] = _stable_body(body)
        headers = {name.decode(): request.header(name) for name in _SIGNIFICANT_HEADERS if name in request.headers}
        if headers and _route_key(request.route) in _SEND_ROUTES:
            details["headers"] = headers
        canonical = rules.canonical_json(details)
        if len(canonical.encode()) > self._limits.approval_bytes:
            digest = hashlib.sha256(canonical.encode()).hexdigest()
            details = {"path": dict(request.path_params), "sha256": digest, "beginning": canonical[:_EXCERPT_LENGTH]}
        return details, body


def tools_of_route(route: Route) -> tuple[str, ...]:
    """Return the tools whose calls use a route, in the order of the registry."""
    return _TOOLS_OF.get(_route_key(route), ())


def gated_tools_of(route: Route) -> tuple[str, ...]:
    """Return the tools whose rules and scopes concern a route, those included that no tool uses."""
    return tools_of_route(route) or scope_tools(route)


def _route_key(route: Route) -> tuple[str, str]:
    return route.method, _PARAMETER.sub("{}", route.path)


def _has_reply_handle(fields: Any) -> bool:
    return isinstance(fields, dict) and isinstance(fields.get("reply_handle"), str)


def _is_sent(draft: Any) -> bool:
    """Return whether a draft is to be sent at once."""
    return isinstance(draft, dict) and draft.get("send") is True


def _other_operation_tools(request: Request, body: Any) -> tuple[str, ...] | None:
    """Return the tools that a call of A2A amounts to which sends no message; None for any other call."""
    if _route_key(request.route) == _TASK_ROUTE and request.path_params["task_id"].endswith(":subscribe"):
        return _TOOL_OF_OPERATION[Operation.SUBSCRIBE]
    if _route_key(request.route) != _SEND_ROUTE or not isinstance(body, dict):
        return None
    found = METHODS.get(body["method"]) if isinstance(body.get("method"), str) else None
    if found is None or found[1] in (Operation.SEND, Operation.STREAM):
        return None
    return _TOOL_OF_OPERATION.get(found[1], ())


def _is_delegation(request: Request, body: Any) -> bool:
    """Return whether the handler of a call begins a delegation under the key of that call."""
    if _route_key(request.route) not in _SEND_ROUTES:
        return _route_key(request.route) == _DELEGATE_ROUTE
    named = parse_extensions([request.header(name) for name in EXTENSIONS_HEADERS])
    return is_delegation_request(_metadata_of(body), ",".join(named))


def _message_of(body: Any) -> dict[str, Any]:
    """Return the message in an A2A body, or an empty object if there is none."""
    params = body.get("params", body) if isinstance(body, dict) else None
    message = params.get("message") if isinstance(params, dict) else None
    return message if isinstance(message, dict) else {}


def _metadata_of(body: Any) -> dict[str, Any]:
    found = _message_of(body).get("metadata")
    return found if isinstance(found, dict) else {}


def _idempotency_name(request: Request, body: Any, limits: Limits) -> tuple[str, str | None]:
    """Return the name by which the handler recognizes a repetition, and its kind; the name is None if it does not.

    Raises InvalidField.
    """
    route_key, fields = _route_key(request.route), body if isinstance(body, dict) else {}
    if (single_use := _single_use_name(request, fields)) is not None:
        return single_use[0], _text_or_none(single_use[1])
    if route_key not in _IDEMPOTENT_ROUTES:
        return "", None
    if (key := idempotency_key_of(request, limits)) is not None:
        return "key", _text_or_none(key)
    if route_key == _DELEGATE_ROUTE:
        return "key", _text_or_none(fields.get("idempotency_key"))
    return "message", _text_or_none(_message_of(body).get("messageId")) if route_key == _SEND_ROUTE and _is_unversioned(
        request
    ) else None


def _single_use_name(request: Request, body: dict[str, Any]) -> tuple[str, Any] | None:
    """Return what a call does only once, whatever its key: a reply by a handle, the end of work, a call of a thread."""
    route_key = _route_key(request.route)
    if route_key in _HANDLE_ROUTES and not body.get("progress"):
        return "handle", body.get("handle")
    if route_key == _UPDATE_ROUTE:
        return "end", request.path_params["delegation_id"]
    return ("call", body.get("call_id")) if route_key in _COLLAB_ROUTES else None


def _text_or_none(name: Any) -> str | None:
    return name if isinstance(name, str) and name else None


def _approval_key(kind: str, name: str | None) -> str | None:
    """Return a name as a key of approvals: of one length, and none that a client could choose for a request."""
    return None if name is None else f"{kind}/{hashlib.sha256(name.encode()).hexdigest()}"


def _is_unversioned(request: Request) -> bool:
    return b"a2a-version" not in request.headers


def _stable_body(body: Any) -> Any:
    """Return a body without what its client generates for each call."""
    if not isinstance(body, dict):
        return body
    dropped = _VOLATILE_FIELDS | ({"id"} if "jsonrpc" in body else set())
    stable = {name: each for name, each in body.items() if name not in dropped}
    if message := _message_of(body):
        named = {name: each for name, each in message.items() if name not in _MESSAGE_ID_FIELDS}
        params = stable.get("params")
        if isinstance(params, dict):
            stable["params"] = {**params, "message": named}
        else:
            stable["message"] = named
    return stable


def _next_step_text(row: Approval) -> str:
    header = f"the header X-Molecule-Approval: {row.id}"
    if row.status is ApprovalStatus.APPROVED:
        return f"Repeat the same call with {header}; it is approved."
    return f"Wait for the decision in your inbox; once it is approved, repeat the same call with {header}."


def _routes_of_tool(tool_spec: spec.ToolSpec) -> tuple[tuple[str, str], ...]:
    if isinstance(tool_spec.call, spec.RouteCall):
        return ((tool_spec.call.method, _PARAMETER.sub("{}", tool_spec.call.path)),)
    return _LOCAL_TOOL_ROUTES.get(tool_spec.call.name, ())


_TOOLS_OF: dict[tuple[str, str], tuple[str, ...]] = {}
for _spec in TOOLS:
    for _tool_route in _routes_of_tool(_spec):
        _TOOLS_OF[_tool_route] = (*_TOOLS_OF.get(_tool_route, ()), _spec.name)
_IDEMPOTENT_ROUTES = frozenset(
    (
        *_SEND_ROUTES,
        _DELEGATE_ROUTE,
        *(
            where
            for tool_spec in TOOLS
            for where in _routes_of_tool(tool_spec)
            if getattr(tool_spec.call, "keyed", False)
        ),
    )
)
"""The routes whose handlers remember what they did under a key."""
