"""Leave for the server's own tools: what a workspace may do only with an approval, by a rule that people have set.

One place for every route that a tool takes, whether the tool is called over HTTP or through an MCP endpoint. Above: the
app, which asks before each handler. Below: the writers and readers of approvals and of delegations, and what was sent.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from molecule_core.access.model import Kind as Credential
from molecule_core.approvals import rules
from molecule_core.approvals.model import Approval, Request, Status
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.approvals.writer import ApprovalWriter
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.edges.delegated import EXTENSIONS, asks_to_delegate
from molecule_core.edges.messages import checked_key
from molecule_core.edges.routes import Call, Route
from molecule_core.edges.sight import Sight
from molecule_core.ground.errors import MoleculeError, NotFound
from molecule_core.ground.limits import Limits
from molecule_core.ground.refusals import ApprovalNeeded
from molecule_core.ground.text import is_client_id
from molecule_core.messages.reader import MessageReader
from molecule_core.messages.rules import declines, may_end_work
from molecule_core.wire import toolspec
from molecule_core.wire.approvals import Policy, Rule, plain
from molecule_core.wire.tools import TOOLS

HEADER = b"x-molecule-approval"
"""Names the approval that a call uses."""
_DELEGATE = ("delegate_task", "delegate_task_async")
_SEND = ("POST", "/workspaces/{}/a2a")
_NOTIFY = ("POST", "/workspaces/{}/notify")
_DRAFT = ("POST", "/workspaces/{}/messages/{}/draft")
_GIVE = ("POST", "/workspaces/{}/delegate")
_END = ("POST", "/workspaces/{}/delegations/{}/update")
_ENDS: Mapping[Any, str] = {"completed": "reply", "failed": "decline"}
"""What it is to say of work that one was given that it has ended so."""
_BY_HANDLE = (("POST", "/workspaces/{}/reply"), ("POST", "/workspaces/{}/decline"))
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
_TO_THREADS = ("interrupt", "close", "resume")
_CALLS = frozenset(("POST", f"/threads/{{}}/agents/{verb}") for verb in _AGENT_VERBS.values())
# The routes of tools that take more than one. Those that only read one's own mail need no leave: nobody could answer a
# question about an approval without it.
_LOCAL: Mapping[str, tuple[tuple[str, str], ...]] = {
    "delegate_task": (_GIVE, ("POST", "/workspaces/{}/delegations/{}/retry")),
    "delegate_task_async": (_GIVE, ("POST", "/workspaces/{}/delegations/{}/retry")),
    "check_task_status": (
        ("GET", "/workspaces/{}/delegations"),
        ("GET", "/delegations/{}"),
        ("POST", "/workspaces/{}/delegations/{}/wait"),
    ),
    "cancel_task": (("POST", "/workspaces/{}/delegations/{}/cancel"),),
    "report_progress": (("POST", "/delegations/{}/status"), ("POST", "/workspaces/{}/delegations/{}/status")),
    "reply": (("POST", "/workspaces/{}/reply"), _DRAFT, _END),
    "decline": (("POST", "/workspaces/{}/decline"), _END),
    "reply_to_workspace": (_SEND, _NOTIFY),
    "chat_history": (("GET", "/workspaces/{}/chat-history"),),
    "list_agents": (("GET", "/threads/{}/agents"),),
    **{
        name: (
            ("POST", f"/threads/{{}}/agents/{verb}"),
            *((("POST", f"/threads/{{}}/{verb}"),) if verb in _TO_THREADS else ()),
        )
        for name, verb in _AGENT_VERBS.items()
    },
}
WITHOUT_LEAVE = ("wait_for_message", "inbox_peek", "inbox_pop", "get_runtime_identity")
"""Tools that no rule stops."""
_PARAMETER = re.compile(r"{\w+}")
# What a client makes anew for each call, and what says nothing of what is done; deeper inside it is somebody's data.
_NAMES = frozenset(("messageId", "message_id"))
_VOLATILE = _NAMES | {"idempotency_key", "jsonrpc", "call_id"}
# By these the same body is something else: work that is given, or what another version of A2A makes of it.
_ACTING = (b"a2a-version", EXTENSIONS)
_BEGINNING = 500


class Wanted(NamedTuple):
    """A call that needs leave: by which rule, of which tool, and what is to be done. `key`: what tells its
    repetitions; `gives`: of a call that gives work, the same as its handler calls it; `sends`: of one that sends a
    message."""

    rule: Rule
    tool: str
    details: dict[str, Any]
    key: str | None
    gives: str | None
    sends: str | None

    @property
    def action(self) -> str:
        return rules.tool_action(self.tool)


class Leave:
    """Lets calls of workspaces through, or asks for an approval instead."""

    def __init__(
        self,
        writer: ApprovalWriter,
        reader: ApprovalReader,
        delegations: DelegationWriter,
        delegated: DelegationReader,
        messages: MessageReader,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._delegations = delegations
        self._delegated = delegated
        self._messages = messages
        self._sight = Sight(delegated)
        self._limits = limits

    def concerns(self, call: Call) -> bool:
        """Whether a call may need leave: it is a workspace's, which has rules, and its route is a tool's."""
        caller = call.by
        if caller.kind is not Credential.WORKSPACE or not self._reader.policies(caller.id).rules:
            return False
        return bool(tools_of(call.route))

    async def is_needed(self, call: Call, tool: str) -> bool:
        """Whether the caller is a workspace that needs leave for a tool: for routes that do more than the tool does,
        and do that part of it not at all then."""
        return call.by.kind is Credential.WORKSPACE and await self._rule(call, tool) is not None

    async def check(self, call: Call) -> None:
        """Raises ApprovalNeeded if a call needs an approval that it does not name. The one that it names is used up by
        it; the repetition of a call that went through needs none, since its handler does nothing by it. Raises
        NotFound, ApprovalUsed, ApprovalChanged, NotApproved, InvalidField."""
        wanted = await self._wanted(call)
        if wanted is None:
            return
        # Of a message that is there already it does not matter what it was when it came, nor what has become of it.
        if wanted.sends is not None and await self._messages.is_sent(call.by.id, wanted.sends):
            return
        hashed = rules.action_hash(wanted.action, rules.canonical(wanted.details))
        named = call.header(HEADER)
        if await self._is_repeated(call, wanted, hashed):
            return
        is_new = wanted.gives is not None
        if named is not None:
            row = await self._reader.one(call.by.org_id, named.replace("\x00", ""))
            if row.workspace_id != call.by.id:
                raise NotFound(what="approval")
            await self._writer.use(row, hashed, wanted.key, is_new=is_new)
            return
        opened = await self._writer.request(self._request(call, wanted))
        if not opened.hit and opened.row.status is Status.APPROVED:  # by somebody's standing authority
            await self._writer.use(opened.row, hashed, wanted.key, is_new=is_new)
            return
        raise ApprovalNeeded(action=wanted.action, how=_how(opened.row), approval=plain(self._reader.item(opened.row)))

    async def _is_repeated(self, call: Call, wanted: Wanted, hashed: str) -> bool:
        """Whether a call went through before and its handler still knows by its key what it did. A delegation that has
        failed has given its key back: under it another one would begin, for which nobody has given leave."""
        if wanted.key is None or not await self._writer.went_through(call.by.id, wanted.key, hashed):
            return False
        if wanted.gives is None:
            return True
        is_id = is_client_id(wanted.gives, self._limits.id_length)  # under anything else no handler begins
        return is_id and await self._delegations.knows(call.by.org_id, call.by.id, wanted.gives)

    def _request(self, call: Call, wanted: Wanted) -> Request:
        return Request(
            workspace_id=call.by.id,
            action=wanted.action,
            reason=wanted.rule.note,
            details=wanted.details,
            source="rule",
            tool=wanted.tool,
            risk=rules.risks(None, used_before=not wanted.rule.first_time),
            policy=(Policy("rule", rules.rule_text(wanted.rule)),),
        )

    async def _wanted(self, call: Call) -> Wanted | None:
        """The first tool that a call may be of and for which it needs leave."""
        details, body = self._details(call)
        for tool in await self._meant(call, body):
            rule = await self._rule(call, tool)
            if rule is not None:
                what, name = _name(call, body, self._limits)
                gives = name if (is_work := _gives_work(call, body)) else None
                # By the handle of a message it is answered once, whatever the answer is called.
                is_message = _place(call.route) == _SEND and not is_work and not _names_handle(_metadata(body))
                return Wanted(rule, tool, details, _key(what, name), gives, name if is_message else None)
        return None

    async def _rule(self, call: Call, tool: str) -> Rule | None:
        """The rule by which a workspace needs leave for a tool. What such a call costs nobody knows: what its caller
        says of that is no bound to anything."""
        found, action = self._reader.policies(call.by.id).rules, rules.tool_action(tool)
        is_known = any(each.first_time for each in found) and await self._reader.used_before(call.by.id, action)
        return rules.needs(found, action, None, used_before=is_known)

    async def _meant(self, call: Call, body: Any) -> tuple[str, ...]:
        """The tools that a call may be of: a message that asks for work is work that is given, what is kept unsent is a
        reply only where it is sent at once, and the end of work is one where it is said to who gave it. What names the
        handle of a message answers that. Raises NotFound."""
        names, place = tools_of(call.route), _place(call.route)
        if place == _DRAFT and not call.target.send_drafts:
            return ()
        if place == _END:
            return await self._end_meant(call, body)
        if place == _SEND:
            before = _DELEGATE if _gives_work(call, body) else await self._answers(call, _metadata(body))
            return (*before, *names)
        return ("reply", *names) if place == _NOTIFY and _names_handle(body) else names

    async def _answers(self, call: Call, said: dict[str, Any]) -> tuple[str, ...]:
        """The tools that do the same as a message to a peer: by the handle that it names, or because it ends the work
        that this peer has given, whether it names that or not. Only work is declined by a word in metadata: of any
        other message that is an answer."""
        if not _names_handle(said):
            ends = may_end_work(said) and await self._delegated.works_for(call.by.id, call.target.id)
            if not ends:
                return ()
        return ("decline", "reply") if declines(said) else ("reply",)

    async def _end_meant(self, call: Call, body: Any) -> tuple[str, ...]:
        """The tool that the end of work is of: none where one has noted the work oneself, since nobody is told, and
        none where another one works on it, which its handler refuses."""
        row, status = await self._sight.party(call), body.get("status") if isinstance(body, dict) else None
        is_own = row.recorded or row.target_id != call.by.id
        return () if is_own or status not in tuple(_ENDS) else (_ENDS[status],)

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
        acting = {name.decode(): call.header(name) for name in _ACTING if name in call.headers}
        if acting and _place(call.route) == _SEND:
            details["headers"] = acting
        text = rules.canonical(details)
        if len(text.encode()) > self._limits.approval_bytes:
            hashed = hashlib.sha256(text.encode()).hexdigest()
            details = {"path": dict(call.params), "sha256": hashed, "beginning": text[:_BEGINNING]}
        return details, body


def tools_of(route: Route) -> tuple[str, ...]:
    """The tools whose calls take a route, in the order of the registry."""
    return _TOOLS_OF.get(_place(route), ())


def _place(route: Route) -> tuple[str, str]:
    return route.method, _PARAMETER.sub("{}", route.path)


def _names_handle(said: Any) -> bool:
    return isinstance(said, dict) and isinstance(said.get("reply_handle"), str)


def _gives_work(call: Call, body: Any) -> bool:
    """Whether the handler of a call begins a delegation under the key of that call."""
    if _place(call.route) != _SEND:
        return _place(call.route) == _GIVE
    return asks_to_delegate(_metadata(body), call.header(EXTENSIONS))


def _message(body: Any) -> dict[str, Any]:
    """The message in a body of A2A, whatever else that may be."""
    params = body.get("params") if isinstance(body, dict) else None
    message = params.get("message") if isinstance(params, dict) else None
    return message if isinstance(message, dict) else {}


def _metadata(body: Any) -> dict[str, Any]:
    found = _message(body).get("metadata")
    return found if isinstance(found, dict) else {}


def _name(call: Call, body: Any, limits: Limits) -> tuple[str, str | None]:
    """What the handler of a call tells its repetitions by, so that it does nothing by them, and of which kind that is;
    None: it does not. Raises InvalidField."""
    place, own = _place(call.route), body if isinstance(body, dict) else {}
    if (once := _once(call, own)) is not None:
        return once[0], _text(once[1])
    if place not in _KEYED:
        return "", None
    if (key := checked_key(call, limits)) is not None:
        return "key", _text(key)
    if place == _GIVE:
        return "key", _text(own.get("idempotency_key"))
    return "message", _text(_message(body).get("messageId")) if place == _SEND and _is_free(call) else None


def _once(call: Call, body: dict[str, Any]) -> tuple[str, Any] | None:
    """What a call does once only, whatever key it has: the answer by a handle, the end of work, a call of a thread."""
    place = _place(call.route)
    if place in _BY_HANDLE and not body.get("progress"):
        return "handle", body.get("handle")
    if place == _END:
        return "end", call.params["delegation_id"]
    return ("call", body.get("call_id")) if place in _CALLS else None


def _text(name: Any) -> str | None:
    return name if isinstance(name, str) and name else None


def _key(what: str, name: str | None) -> str | None:
    """A name among the keys of approvals: of one length, and none that a client could give its request."""
    return None if name is None else f"{what}/{hashlib.sha256(name.encode()).hexdigest()}"


def _is_free(call: Call) -> bool:
    return b"a2a-version" not in call.headers


def _steady(body: Any) -> Any:
    """A body without what its client makes anew each time."""
    if not isinstance(body, dict):
        return body
    dropped = _VOLATILE | ({"id"} if "jsonrpc" in body else set())
    kept = {name: each for name, each in body.items() if name not in dropped}
    if message := _message(body):
        named = {name: each for name, each in message.items() if name not in _NAMES}
        kept["params"] = {**kept["params"], "message": named}
    return kept


def _how(row: Approval) -> str:
    again = f"call again, in the same words, with the header X-Molecule-Approval: {row.id}"
    if row.status is Status.APPROVED:
        return f"It is approved: {again}."
    return f"It was asked for. Wait for the decision, which comes to your inbox; once it is approved, {again}."


def _routes_of(spec: toolspec.ToolSpec) -> tuple[tuple[str, str], ...]:
    if isinstance(spec.call, toolspec.Route):
        return ((spec.call.method, _PARAMETER.sub("{}", spec.call.path)),)
    return _LOCAL.get(spec.call.name, ())


_TOOLS_OF: dict[tuple[str, str], tuple[str, ...]] = {}
for _spec in TOOLS:
    for _where in _routes_of(_spec):
        _TOOLS_OF[_where] = (*_TOOLS_OF.get(_where, ()), _spec.name)
_KEYED = frozenset(
    (_SEND, _GIVE, *(where for spec in TOOLS for where in _routes_of(spec) if getattr(spec.call, "keyed", False)))
)
"""The routes whose handlers remember what they did under a key."""
