"""Leave for the server's own tools: what a workspace may do only with an approval, by a rule that people have set.

One place for every route that a tool takes, whether the tool is called over HTTP or through an MCP endpoint. Above: the
app, which asks before each handler. Below: the writer and reader of approvals.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from molecule_core.access.model import Kind as Credential
from molecule_core.approvals import rules
from molecule_core.approvals.model import Approval, Request, Status
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.edges.delegated import asks_to_delegate
from molecule_core.edges.routes import Call, Route
from molecule_core.ground.errors import MoleculeError, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import ApprovalNeeded
from molecule_core.wire import toolspec
from molecule_core.wire.approvals import Policy, Rule, plain
from molecule_core.wire.tools import TOOLS

HEADER = b"x-molecule-approval"
"""Names the approval that a call uses."""
_DELEGATE = ("delegate_task", "delegate_task_async")
_SEND = ("POST", "/workspaces/{}/a2a")
# The routes of tools that take more than one. Those that only read one's own mail need no leave: nobody could answer a
# question about an approval without it.
_LOCAL: Mapping[str, tuple[tuple[str, str], ...]] = {
    "delegate_task": (("POST", "/workspaces/{}/delegate"), ("POST", "/workspaces/{}/delegations/{}/retry")),
    "delegate_task_async": (("POST", "/workspaces/{}/delegate"), ("POST", "/workspaces/{}/delegations/{}/retry")),
    "check_task_status": (
        ("GET", "/workspaces/{}/delegations"),
        ("GET", "/delegations/{}"),
        ("POST", "/workspaces/{}/delegations/{}/wait"),
    ),
    "cancel_task": (("POST", "/workspaces/{}/delegations/{}/cancel"),),
    "report_progress": (("POST", "/delegations/{}/status"),),
    "reply": (("POST", "/workspaces/{}/reply"),),
    "decline": (("POST", "/workspaces/{}/decline"),),
    "reply_to_workspace": (_SEND, ("POST", "/workspaces/{}/notify")),
    "chat_history": (("GET", "/workspaces/{}/chat-history"),),
}
WITHOUT_LEAVE = ("wait_for_message", "inbox_peek", "inbox_pop", "get_runtime_identity")
"""Tools that no rule stops."""
_PARAMETER = re.compile(r"{\w+}")
# What a client makes anew for each call, and what says nothing of what is done.
_VOLATILE = frozenset(("messageId", "message_id", "idempotency_key", "jsonrpc"))
_BEGINNING = 500


class Wanted(NamedTuple):
    """A call that needs leave: by which rule, of which tool, and what is to be done."""

    rule: Rule
    tool: str
    details: dict[str, Any]
    cost: float | None

    @property
    def action(self) -> str:
        return rules.tool_action(self.tool)


class Leave:
    """Lets calls of workspaces through, or asks for an approval instead."""

    def __init__(self, writer: ApprovalWriter, reader: ApprovalReader, *, limits: Limits) -> None:
        self._writer = writer
        self._reader = reader
        self._limits = limits

    def concerns(self, call: Call) -> bool:
        """Whether a call may need leave: it is a workspace's, which has rules, and its route is a tool's."""
        caller = call.by
        if caller.kind is not Credential.WORKSPACE or not self._reader.policies(caller.id).rules:
            return False
        return bool(tools_of(call.route))

    async def check(self, call: Call) -> None:
        """Raises ApprovalNeeded if a call needs an approval that it does not name. The one that it names is used up by
        it. Raises NotFound, ApprovalUsed, ApprovalChanged, NotApproved."""
        wanted = await self._wanted(call)
        if wanted is None:
            return
        hashed = rules.action_hash(wanted.action, rules.canonical(wanted.details))
        named = call.header(HEADER)
        if named is not None:
            row = await self._reader.one(call.by.org_id, named.replace("\x00", ""))
            if row.workspace_id != call.by.id:
                raise NotFound(what="approval")
            await self._writer.use(row, hashed)
            return
        opened = await self._writer.request(self._request(call, wanted))
        if not opened.hit and opened.row.status is Status.APPROVED:  # by somebody's standing authority
            await self._writer.use(opened.row, hashed)
            return
        raise ApprovalNeeded(action=wanted.action, how=_how(opened.row), approval=plain(self._reader.item(opened.row)))

    def _request(self, call: Call, wanted: Wanted) -> Request:
        return Request(
            workspace_id=call.by.id,
            action=wanted.action,
            reason=wanted.rule.note,
            details=wanted.details,
            cost=wanted.cost,
            source="rule",
            tool=wanted.tool,
            risk=rules.risks(wanted.cost, used_before=not wanted.rule.first_time),
            policy=(Policy("rule", rules.rule_text(wanted.rule)),),
        )

    async def _wanted(self, call: Call) -> Wanted | None:
        found = self._reader.policies(call.by.id).rules
        details, body = self._details(call)
        cost = body.get("cost") if isinstance(body, dict) else None
        cost = float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None
        for tool in _meant(call, body):
            action = rules.tool_action(tool)
            is_known = any(each.first_time for each in found) and await self._reader.used_before(call.by.id, action)
            rule = rules.needs(found, action, cost, used_before=is_known)
            if rule is not None:
                return Wanted(rule, tool, details, cost)
        return None

    def _details(self, call: Call) -> tuple[dict[str, Any], Any]:
        """What a call is to do, the same for all calls that do the same; and its body as it is. One that is too large
        to be shown is told by its hash and its beginning. What is no JSON is refused by its own route."""
        try:
            body = call.json() if call.body else None
        except MoleculeError:
            body = None
        details: dict[str, Any] = {"path": dict(call.params)}
        if call.query_string:
            details["query"] = call.query()
        if body is not None:
            details["body"] = _steady(body)
        text = rules.canonical(details)
        if len(text.encode()) > self._limits.approval_bytes:
            hashed = hashlib.sha256(text.encode()).hexdigest()
            details = {"path": dict(call.params), "sha256": hashed, "beginning": text[:_BEGINNING]}
        return details, body


def tools_of(route: Route) -> tuple[str, ...]:
    """The tools whose calls take a route, in the order of the registry."""
    return _TOOLS_OF.get((route.method, _PARAMETER.sub("{}", route.path)), ())


def _meant(call: Call, body: Any) -> tuple[str, ...]:
    """The tools that a call may be of: a message that asks for work is work that is given."""
    names = tools_of(call.route)
    if "reply_to_workspace" in names and isinstance(body, dict):
        message = (body.get("params") or {}).get("message") if isinstance(body.get("params"), dict) else None
        metadata = message.get("metadata") if isinstance(message, dict) else None
        if asks_to_delegate(metadata if isinstance(metadata, dict) else {}, call.header(b"a2a-extensions")):
            return (*_DELEGATE, *names)
    return names


def _steady(value: Any, *, top: bool = True) -> Any:
    """A body without what its client makes anew each time."""
    if isinstance(value, list):
        return [_steady(each, top=False) for each in value]
    if not isinstance(value, dict):
        return value
    is_envelope = top and "jsonrpc" in value
    kept = {name: each for name, each in value.items() if name not in _VOLATILE and not (is_envelope and name == "id")}
    return {name: _steady(each, top=False) for name, each in kept.items()}


def _how(row: Approval) -> str:
    again = f"call again, in the same words, with the header X-Molecule-Approval: {row.id}"
    if row.status is Status.APPROVED:
        return f"It is approved: {again}."
    return f"It was asked for. Wait for the decision, which comes to your inbox; once it is approved, {again}."


def _routes() -> Iterator[tuple[str, tuple[str, str]]]:
    for spec in TOOLS:
        if isinstance(spec.call, toolspec.Route):
            yield spec.name, (spec.call.method, _PARAMETER.sub("{}", spec.call.path))
        else:
            yield from ((spec.name, each) for each in _LOCAL.get(spec.call.name, ()))


_TOOLS_OF: dict[tuple[str, str], tuple[str, ...]] = {}
for _name, _where in _routes():
    _TOOLS_OF[_where] = (*_TOOLS_OF.get(_where, ()), _name)
