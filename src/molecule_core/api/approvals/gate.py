"""Leave for the server's own tools: what a workspace may do only with an approval, by a rule that people have set.

One place for every route that a tool takes, whether the tool is called over HTTP or through an MCP endpoint. Above: the
app, which asks before each handler. Below: the writers and readers of approvals and of delegations, and what was sent.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from molecule_core.access.model import CredentialKind as Credential
from molecule_core.api.delegations.a2a_delegation import EXTENSIONS_HEADER, is_delegation_request
from molecule_core.api.delegations.access import DelegationAccess
from molecule_core.api.http.routing import Request, Route
from molecule_core.api.messages.send import idempotency_key_of
from molecule_core.approvals import rules
from molecule_core.approvals.model import Approval, ApprovalRequest, ApprovalStatus
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.common.errors import ApprovalRequired, MoleculeError, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import is_valid_client_id
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.rules import can_end_work, is_decline
from molecule_core.tools import spec
from molecule_core.tools.registry import TOOLS
from molecule_core.wire.schemas.approvals import ApprovalRule, PolicyReason, approval_as_dict

APPROVAL_HEADER = b"x-molecule-approval"
"""Names the approval that a call uses."""
_DELEGATE_TOOLS = ("delegate_task", "delegate_task_async")
_SEND_ROUTE = ("POST", "/workspaces/{}/a2a")
_NOTIFY_ROUTE = ("POST", "/workspaces/{}/notify")
_DRAFT_ROUTE = ("POST", "/workspaces/{}/messages/{}/draft")
_DELEGATE_ROUTE = ("POST", "/workspaces/{}/delegate")
_UPDATE_ROUTE = ("POST", "/workspaces/{}/delegations/{}/update")
_TOOL_OF_STATUS: Mapping[Any, str] = {"completed": "reply", "failed": "decline"}
"""What it is to say of work that one was given that it has ended so."""
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
# What is done to a thread that is named itself, and so to an agent too, or to all below it.
_THREAD_VERBS = ("interrupt", "close", "resume")
_COLLAB_ROUTES = frozenset(("POST", f"/threads/{{}}/agents/{verb}") for verb in _AGENT_VERBS.values())
# The routes of tools that take more than one. Those that only read one's own mail need no leave: nobody could answer a
# question about an approval without it.
_LOCAL_TOOL_ROUTES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "delegate_task": (_DELEGATE_ROUTE, ("POST", "/workspaces/{}/delegations/{}/retry")),
    "delegate_task_async": (_DELEGATE_ROUTE, ("POST", "/workspaces/{}/delegations/{}/retry")),
    "check_task_status": (
        ("GET", "/workspaces/{}/delegations"),
        ("GET", "/delegations/{}"),
        ("POST", "/workspaces/{}/delegations/{}/wait"),
    ),
    "cancel_task": (("POST", "/workspaces/{}/delegations/{}/cancel"),),
    "report_progress": (("POST", "/delegations/{}/status"), ("POST", "/workspaces/{}/delegations/{}/status")),
    "reply": (("POST", "/workspaces/{}/reply"), _DRAFT_ROUTE, _UPDATE_ROUTE),
    "decline": (("POST", "/workspaces/{}/decline"), _UPDATE_ROUTE),
    "reply_to_workspace": (_SEND_ROUTE, _NOTIFY_ROUTE),
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
UNGATED_TOOLS = ("wait_for_message", "inbox_peek", "inbox_pop", "get_runtime_identity")
"""Tools that no rule stops."""
_PARAMETER = re.compile(r"{\w+}")
# What a client makes anew for each call, and what says nothing of what is done; deeper inside it is somebody's data.
_MESSAGE_ID_FIELDS = frozenset(("messageId", "message_id"))
_VOLATILE_FIELDS = _MESSAGE_ID_FIELDS | {"idempotency_key", "jsonrpc", "call_id"}
# By these the same body is something else: work that is given, or what another version of A2A makes of it.
_SIGNIFICANT_HEADERS = (b"a2a-version", EXTENSIONS_HEADER)
_EXCERPT_LENGTH = 500


class GatedCall(NamedTuple):
    """A call that needs leave: by which rule, of which tool, and what is to be done. `key`: what tells its
    repetitions; `gives`: of a call that gives work, the same as its handler calls it; `sends`: of one that sends a
    message."""

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
    """Lets calls of workspaces through, or asks for an approval instead."""

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
        self._limits = limits

    def applies_to(self, request: Request) -> bool:
        """Whether a call may need leave: it is a workspace's, which has rules, and its route is a tool's."""
        caller = request.caller
        if caller.kind is not Credential.WORKSPACE or not self._reader.policies_of(caller.id).rules:
            return False
        return bool(tools_of_route(request.route))

    async def requires_approval(self, request: Request, tool: str) -> bool:
        """Whether the caller is a workspace that needs leave for a tool: for routes that do more than the tool does,
        and do that part of it not at all then."""
        return request.caller.kind is Credential.WORKSPACE and await self._matching_rule(request, tool) is not None

    async def check(self, request: Request) -> None:
        """Raises ApprovalNeeded if a call needs an approval that it does not name. The one that it names is used up by
        it; the repetition of a call that went through needs none, since its handler does nothing by it. Raises
        NotFound, ApprovalUsed, ApprovalChanged, NotApproved, InvalidField."""
        gated = await self._gated_call(request)
        if gated is None:
            return
        # Of a message that is there already it does not matter what it was when it came, nor what has become of it.
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
        result = await self._writer.request(self._approval_request(request, gated))
        if not result.is_duplicate and result.row.status is ApprovalStatus.APPROVED:  # by somebody's standing authority
            await self._writer.use(result.row, digest, gated.key, is_new=is_new)
            return
        raise ApprovalRequired(
            action=gated.action,
            how=_next_step_text(result.row),
            approval=approval_as_dict(self._reader.to_item(result.row)),
        )

    async def _is_repetition(self, request: Request, gated: GatedCall, digest: str) -> bool:
        """Whether a call went through before and its handler still knows by its key what it did. A delegation that has
        failed has given its key back: under it another one would begin, for which nobody has given leave."""
        if gated.key is None or not await self._writer.was_used_for(request.caller.id, gated.key, digest):
            return False
        if gated.delegation_key is None:
            return True
        is_id = is_valid_client_id(
            gated.delegation_key, self._limits.id_length
        )  # under anything else no handler begins
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
        """The first tool that a call may be of and for which it needs leave."""
        details, body = self._action_details(request)
        for tool in await self._candidate_tools(request, body):
            rule = await self._matching_rule(request, tool)
            if rule is not None:
                kind, name = _idempotency_name(request, body, self._limits)
                delegation_key = name if (is_work := _is_delegation(request, body)) else None
                # By the handle of a message it is answered once, whatever the answer is called.
                is_message = (
                    _route_key(request.route) == _SEND_ROUTE
                    and not is_work
                    and not _has_reply_handle(_metadata_of(body))
                )
                return GatedCall(
                    rule, tool, details, _approval_key(kind, name), delegation_key, name if is_message else None
                )
        return None

    async def _matching_rule(self, request: Request, tool: str) -> ApprovalRule | None:
        """The rule by which a workspace needs leave for a tool. What such a call costs nobody knows: what its caller
        says of that is no bound to anything."""
        found, action = self._reader.policies_of(request.caller.id).rules, rules.tool_action(tool)
        is_known = any(each.first_time for each in found) and await self._reader.was_used_before(
            request.caller.id, action
        )
        return rules.matching_rule(found, action, None, used_before=is_known)

    async def _candidate_tools(self, request: Request, body: Any) -> tuple[str, ...]:
        """The tools that a call may be of: a message that asks for work is work that is given, what is kept unsent is a
        reply only where it is sent at once, and the end of work is one where it is said to who gave it. What names the
        handle of a message answers that. Raises NotFound."""
        names, route_key = tools_of_route(request.route), _route_key(request.route)
        if route_key == _DRAFT_ROUTE and not request.workspace.send_drafts:
            return ()
        if route_key == _UPDATE_ROUTE:
            return await self._update_tools(request, body)
        if route_key == _SEND_ROUTE:
            before = (
                _DELEGATE_TOOLS
                if _is_delegation(request, body)
                else await self._reply_tools(request, _metadata_of(body))
            )
            return (*before, *names)
        return ("reply", *names) if route_key == _NOTIFY_ROUTE and _has_reply_handle(body) else names

    async def _reply_tools(self, request: Request, fields: dict[str, Any]) -> tuple[str, ...]:
        """The tools that do the same as a message to a peer: by the handle that it names, or because it ends the work
        that this peer has given, whether it names that or not. Only work is declined by a word in metadata: of any
        other message that is an answer."""
        if not _has_reply_handle(fields):
            ends = can_end_work(fields) and await self._delegation_reader.has_open_between(
                request.caller.id, request.workspace.id
            )
            if not ends:
                return ()
        return ("decline", "reply") if is_decline(fields) else ("reply",)

    async def _update_tools(self, request: Request, body: Any) -> tuple[str, ...]:
        """The tool that the end of work is of: none where one has noted the work oneself, since nobody is told, and
        none where another one works on it, which its handler refuses."""
        row, status = await self._access.find_as_party(request), body.get("status") if isinstance(body, dict) else None
        is_own = row.recorded or row.target_id != request.caller.id
        return () if is_own or status not in tuple(_TOOL_OF_STATUS) else (_TOOL_OF_STATUS[status],)

    def _action_details(self, request: Request) -> tuple[dict[str, Any], Any]:
        """What a call is to do, the same for all calls that do the same; and its body as it is. One that is too large
        to be shown is told by its hash and its beginning. What is no JSON is refused by its own route."""
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
        if headers and _route_key(request.route) == _SEND_ROUTE:
            details["headers"] = headers
        text = rules.canonical_json(details)
        if len(text.encode()) > self._limits.approval_bytes:
            digest = hashlib.sha256(text.encode()).hexdigest()
            details = {"path": dict(request.path_params), "sha256": digest, "beginning": text[:_EXCERPT_LENGTH]}
        return details, body


def tools_of_route(route: Route) -> tuple[str, ...]:
    """The tools whose calls take a route, in the order of the registry."""
    return _TOOLS_OF.get(_route_key(route), ())


def _route_key(route: Route) -> tuple[str, str]:
    return route.method, _PARAMETER.sub("{}", route.path)


def _has_reply_handle(fields: Any) -> bool:
    return isinstance(fields, dict) and isinstance(fields.get("reply_handle"), str)


def _is_delegation(request: Request, body: Any) -> bool:
    """Whether the handler of a call begins a delegation under the key of that call."""
    if _route_key(request.route) != _SEND_ROUTE:
        return _route_key(request.route) == _DELEGATE_ROUTE
    return is_delegation_request(_metadata_of(body), request.header(EXTENSIONS_HEADER))


def _message_of(body: Any) -> dict[str, Any]:
    """The message in a body of A2A, whatever else that may be."""
    params = body.get("params") if isinstance(body, dict) else None
    message = params.get("message") if isinstance(params, dict) else None
    return message if isinstance(message, dict) else {}


def _metadata_of(body: Any) -> dict[str, Any]:
    found = _message_of(body).get("metadata")
    return found if isinstance(found, dict) else {}


def _idempotency_name(request: Request, body: Any, limits: Limits) -> tuple[str, str | None]:
    """What the handler of a call tells its repetitions by, so that it does nothing by them, and of which kind that is;
    None: it does not. Raises InvalidField."""
    route_key, own = _route_key(request.route), body if isinstance(body, dict) else {}
    if (single_use := _single_use_name(request, own)) is not None:
        return single_use[0], _text_or_none(single_use[1])
    if route_key not in _IDEMPOTENT_ROUTES:
        return "", None
    if (key := idempotency_key_of(request, limits)) is not None:
        return "key", _text_or_none(key)
    if route_key == _DELEGATE_ROUTE:
        return "key", _text_or_none(own.get("idempotency_key"))
    return "message", _text_or_none(_message_of(body).get("messageId")) if route_key == _SEND_ROUTE and _is_unversioned(
        request
    ) else None


def _single_use_name(request: Request, body: dict[str, Any]) -> tuple[str, Any] | None:
    """What a call does once only, whatever key it has: the answer by a handle, the end of work, a call of a thread."""
    route_key = _route_key(request.route)
    if route_key in _HANDLE_ROUTES and not body.get("progress"):
        return "handle", body.get("handle")
    if route_key == _UPDATE_ROUTE:
        return "end", request.path_params["delegation_id"]
    return ("call", body.get("call_id")) if route_key in _COLLAB_ROUTES else None


def _text_or_none(name: Any) -> str | None:
    return name if isinstance(name, str) and name else None


def _approval_key(kind: str, name: str | None) -> str | None:
    """A name among the keys of approvals: of one length, and none that a client could give its request."""
    return None if name is None else f"{kind}/{hashlib.sha256(name.encode()).hexdigest()}"


def _is_unversioned(request: Request) -> bool:
    return b"a2a-version" not in request.headers


def _stable_body(body: Any) -> Any:
    """A body without what its client makes anew each time."""
    if not isinstance(body, dict):
        return body
    dropped = _VOLATILE_FIELDS | ({"id"} if "jsonrpc" in body else set())
    stable = {name: each for name, each in body.items() if name not in dropped}
    if message := _message_of(body):
        named = {name: each for name, each in message.items() if name not in _MESSAGE_ID_FIELDS}
        stable["params"] = {**stable["params"], "message": named}
    return stable


def _next_step_text(row: Approval) -> str:
    repeat_hint = f"call again, in the same words, with the header X-Molecule-Approval: {row.id}"
    if row.status is ApprovalStatus.APPROVED:
        return f"It is approved: {repeat_hint}."
    return f"It was asked for. Wait for the decision, which comes to your inbox; once it is approved, {repeat_hint}."


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
        _SEND_ROUTE,
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
