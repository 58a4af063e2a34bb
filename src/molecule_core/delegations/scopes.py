"""Scopes of delegations: what each may do, which apply to a workspace, and what a new delegation may do.

A delegation with a scope has a row in `delegation_scopes`; all others cost nothing: whether a workspace has received
one is known in memory. The cache may know more delegations than are open or claimed, never fewer, so what it finds is
read.
"""

from collections.abc import Generator, Iterable, Sequence
from functools import partial, reduce
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.common.clock import Clock
from molecule_core.delegations.errors import ScopeExceeded
from molecule_core.delegations.model import Ancestor, Delegation, DelegationPhase, DelegationRequest, GuardRejection
from molecule_core.messages.model import MessageDraft
from molecule_core.org.model import Workspace
from molecule_core.store.cache_sync import BatchReader, SyncedCache
from molecule_core.store.database import ReadQuery, RequestBatch, StepRequest, Store, WriteSet
from molecule_core.store.queries import Params
from molecule_core.wire.schemas.delegation_scope import UNRESTRICTED, DelegationScope
from molecule_core.wire.schemas.delegations import DelegationStatus

MAY = "may"
"""The member of messages and requests that holds a scope, and the limit that a rejection by a scope names."""
APPROVAL_TOOL = "request_approval"
"""The tool that only the member `approvals` of a scope restricts."""
DELEGATE_TOOLS = ("delegate_task", "delegate_task_async")
ENDED = "a task that has ended, and whose scope has ended with it,"
SCOPE_REMEDY = "Do the task within its limits, or reply to your delegator and name what is missing."
"""What to do about a rejection by a scope."""
ALWAYS_ALLOWED_TOOLS = frozenset(
    (
        *("wait_for_message", "inbox_peek", "inbox_pop", "read_file", "get_runtime_identity", "get_workspace_info"),
        *("reply", "decline", "report_progress", "check_task_status", "upload_file", "update_agent_card", "list_peers"),
        *("cancel_task", "list_agents", "wait_agent", "interrupt_agent", "close_agent", "decide_approval"),
    )
)
"""Tools that no scope restricts: to read the task, to answer it, to read one's surroundings, to end one's own work
below it, and to decide what others may do. A file is seen by others only once a message names it."""


class HeldScope(NamedTuple):
    """The scope of a delegation that a workspace works on."""

    row: Delegation
    scope: DelegationScope


class ScopeDecision(NamedTuple):
    """What a new delegation may do (None: anything), and the latest deadline that its parents leave it (0: none)."""

    scope: DelegationScope | None
    latest_deadline: int = 0
    rejection: GuardRejection | None = None

    def deadline(self, at: int) -> int:
        """Return a deadline that is not after those of the parents."""
        return min(at, self.latest_deadline) if self.latest_deadline else at


_NO_SCOPE = ScopeDecision(None)


class ScopeCache(SyncedCache):
    """In-memory cache of the scopes of open delegations, by the workspace that received them."""

    KINDS = ("delegation_scope",)

    def __init__(self) -> None:
        self._by_workspace: dict[str, dict[str, DelegationScope]] = {}

    def is_restricted(self, workspace_id: str) -> bool:
        """Return whether a workspace may have received a delegation with a scope that has not ended."""
        return workspace_id in self._by_workspace

    def scopes_of(self, workspace_id: str) -> dict[str, DelegationScope]:
        """Return the scopes of the delegations that a workspace has received, by delegation."""
        return dict(self._by_workspace.get(workspace_id, {}))

    async def open(self, store: Store) -> None:
        """Load all scopes from the store."""
        await self.load_all(store.rows_of_each)

    async def load(self, read: BatchReader, kind: str, keys: list[str]) -> Iterable[str]:
        found = await read("open_scopes_of", [{"workspace_id": key} for key in keys])
        for key, rows in zip(keys, found, strict=True):
            self._by_workspace.pop(key, None)
            for delegation_id, may in rows:
                self._add(key, delegation_id, parse_scope(may))
        return ()

    async def load_all(self, read: BatchReader) -> None:
        self._by_workspace = {}
        for workspace_id, delegation_id, may in (await read("all_open_scopes", [{}]))[0]:
            self._add(workspace_id, delegation_id, parse_scope(may))

    def insert(self, row: Delegation, scope: DelegationScope) -> WriteSet[None]:
        """Return what stores the scope of a new delegation."""
        values = {
            "org_id": row.org_id,
            "delegation_id": row.id,
            "workspace_id": row.target_id,
            MAY: msgspec.json.encode(scope).decode(),
        }
        add = partial(self._add, row.target_id, row.id, scope)
        return WriteSet(None, [("insert_delegation_scope", values)], after_commit=add)

    def end(self, row: Delegation) -> WriteSet[None] | None:
        """Return what ends the scope of a delegation, if it has one."""
        if row.id not in self._by_workspace.get(row.target_id, ()):
            return None
        values = {"org_id": row.org_id, "delegation_id": row.id, "workspace_id": row.target_id}
        remove = partial(self._remove, row.target_id, row.id)
        return WriteSet(None, [("end_delegation_scope", values)], after_commit=remove)

    def _add(self, workspace_id: str, delegation_id: str, scope: DelegationScope) -> None:
        self._by_workspace.setdefault(workspace_id, {})[delegation_id] = scope

    def _remove(self, workspace_id: str, delegation_id: str) -> None:
        scopes = self._by_workspace.get(workspace_id, {})
        scopes.pop(delegation_id, None)
        if not scopes:
            self._by_workspace.pop(workspace_id, None)


class ScopeReader:
    """Reader of the scopes that apply to a workspace."""

    def __init__(self, store: Store, cache: ScopeCache, *, clock: Clock) -> None:
        self.is_restricted = cache.is_restricted
        """Returns whether a workspace may have received a delegation with a scope; needs no query."""
        self._store = store
        self._cache = cache
        self._clock = clock

    async def held_by(self, org_id: str, workspace_id: str) -> list[HeldScope]:
        """Return the scopes of the delegations that a workspace works on."""
        scopes = self._cache.scopes_of(workspace_id)
        queries: list[Params] = [{"org_id": org_id, "id": each} for each in scopes]
        found = await self._store.rows_of_each("delegation", queries) if queries else []
        return _list_held([Delegation.from_row(rows[0]) for rows in found if rows], scopes, self._clock.now())

    async def scope_of(self, org_id: str, delegation_id: str) -> DelegationScope | None:
        """Return the scope of a delegation, ended ones included; None: it has none."""
        rows = await self._store.rows("delegation_scope", {"org_id": org_id, "delegation_id": delegation_id})
        return parse_scope(rows[0][0]) if rows else None

    async def applying(self, org_id: str, workspace_id: str, named_id: str | None) -> list[HeldScope]:
        """Return the scopes under which a workspace acts: that of the task that it names, or of all that it works on.

        A task without a scope restricts nothing. Raises ScopeExceeded if the named task has ended and had a scope."""
        held = await self.held_by(org_id, workspace_id) if self.is_restricted(workspace_id) else []
        if named_id is None:
            return held
        if own := [each for each in held if each.row.id == named_id]:
            return own
        row = await self._find_named(org_id, named_id)
        if row is None or row.target_id != workspace_id:
            return held
        scope = await self.scope_of(row.org_id, row.id)
        if is_current(row, self._clock.now()):
            return [] if scope is None else [HeldScope(row, scope)]
        if scope is not None:
            raise ScopeExceeded(what=ENDED, remedy=SCOPE_REMEDY)
        return held

    async def _find_named(self, org_id: str, named_id: str) -> Delegation | None:
        """Return the delegation of this id, or that whose answer was returned by the message of this id."""
        found = await self._store.rows("delegation", {"org_id": org_id, "id": named_id})
        if not found:
            returned = await self._store.rows("delegation_of_message", {"org_id": org_id, "message_id": named_id})
            own = {"org_id": org_id, "id": returned[0][0]} if returned else None
            found = [] if own is None else await self._store.rows("delegation", own)
        return Delegation.from_row(found[0]) if found else None


def decide_scope(
    cache: ScopeCache, source: Workspace, request: DelegationRequest, lineage: Sequence[Ancestor], now: int
) -> Generator[StepRequest, Any, ScopeDecision]:
    """Return what a new delegation may do: at most what the delegation may do that its caller works on.

    A caller that names the delegation acts for that one. Otherwise it acts under all those with a scope that it works
    on, at once: which one it means is unknown. A person who retries a task acts for the task above it."""
    parent = lineage[0] if lineage else None
    if request.may is None and (parent is None or parent.may is None) and not cache.is_restricted(source.id):
        return _NO_SCOPE
    is_by_person = request.sender.user_id is not None
    is_named = parent is not None and (is_by_person or parent.id == request.cause_id)
    if parent is not None and not is_named and request.cause_id and (parent.may or cache.is_restricted(source.id)):
        is_named = yield from _is_returned_by(request.cause_id, parent.id, source.org_id)
    granted, delegators, deadlines = list[DelegationScope](), set[str](), list[int]()
    if parent is not None and parent.may is not None:
        is_over = not parent.open or parent.deadline_at <= now
        if is_over and is_named:
            return ScopeDecision(None, rejection=_rejection(ENDED))
        if not is_over:
            granted.append(parse_scope(parent.may))
            delegators.add(parent.source_id)
            deadlines.append(parent.deadline_at)
    if not is_named and not is_by_person and cache.is_restricted(source.id):
        for row, scope in (yield from _read_held(cache, source, now)):
            granted.append(scope)
            delegators.add(row.source_id)
            deadlines.append(row.deadline_at)
    requested = request.may if request.may is not None and not request.may.is_unrestricted else None
    if not granted:
        return ScopeDecision(requested)
    limit = reduce(DelegationScope.narrow, granted)
    excess = _delegation_excess(limit, request, delegators)
    if excess:
        return ScopeDecision(None, rejection=_rejection(", ".join(excess)))
    return ScopeDecision(limit.below().narrow(requested or UNRESTRICTED), min(deadlines))


def _is_returned_by(message_id: str, delegation_id: str, org_id: str) -> Generator[StepRequest, Any, bool]:
    """Return whether a message has returned an answer of a delegation, so that naming it names the delegation."""
    rows = yield ReadQuery("delegation_of_message", {"org_id": org_id, "message_id": message_id})
    return bool(rows) and rows[0][0] == delegation_id


def _delegation_excess(limit: DelegationScope, request: DelegationRequest, delegators: set[str]) -> list[str]:
    """Return what of a new delegation is outside the scope under which it is begun, in words."""
    if limit.depth == 0:
        return ["a further delegation"]
    if not any(limit.allows_tool(each) for each in DELEGATE_TOOLS):
        return [f"the tool {DELEGATE_TOOLS[0]}"]
    if request.target_id not in delegators and not limit.allows_peer(request.target_id):
        return [f"the peer {request.target_id}"]
    return limit.below().excess_of(request.may or UNRESTRICTED)


def check_duplicate(
    known: Delegation, request: DelegationRequest
) -> Generator[StepRequest, Any, GuardRejection | None]:
    """Return why an open delegation of the same task cannot answer a request: it may do more than was asked for."""
    if request.may is None or request.may.is_unrestricted:
        return None
    rows = yield ReadQuery("delegation_scope", {"org_id": known.org_id, "delegation_id": known.id})
    stored = parse_scope(rows[0][0]) if rows else UNRESTRICTED
    if stored.narrow(request.may) == stored:
        return None
    what = f"the open task {known.id}, which may do more than this request allows,"
    return _rejection(what, "Cancel that task first, or repeat the request without `may`.")


def _read_held(cache: ScopeCache, source: Workspace, now: int) -> Generator[StepRequest, Any, list[HeldScope]]:
    scopes = cache.scopes_of(source.id)
    found = yield RequestBatch([ReadQuery("delegation", {"org_id": source.org_id, "id": each}) for each in scopes])
    return _list_held([Delegation.from_row(rows[0]) for rows in found if rows], scopes, now)


def _list_held(rows: Sequence[Delegation], scopes: dict[str, DelegationScope], now: int) -> list[HeldScope]:
    """Return those that their workspace works on: open, and claimed or pushed to it."""
    return [HeldScope(row, scopes[row.id]) for row in rows if is_current(row, now) and _is_delivered(row)]


def is_current(row: Delegation, now: int) -> bool:
    """Return whether a delegation is open and its deadline has not passed, even if its timer has not fired yet."""
    return bool(row.open) and row.deadline_at > now


def _is_delivered(row: Delegation) -> bool:
    is_pushed = row.status is not DelegationStatus.PENDING and row.phase is DelegationPhase.SENDING
    return row.taken_at is not None or is_pushed or row.status is DelegationStatus.UNKNOWN


def with_scope(draft: MessageDraft, scope: DelegationScope | None) -> MessageDraft:
    """Return the message of a delegation with what it may do; what its sender wrote there is replaced."""
    if scope is None and MAY not in draft.message["metadata"]:
        return draft
    metadata = {name: value for name, value in draft.message["metadata"].items() if name != MAY}
    if scope is None:
        return replace(draft, message={**draft.message, "metadata": metadata})
    parts = [*draft.message["parts"], {"kind": "text", "text": describe_scope(scope)}]
    metadata[MAY] = msgspec.to_builtins(scope)
    return replace(draft, message={**draft.message, "parts": parts, "metadata": metadata})


def without_scope_text(parts: list[dict[str, Any]], scope: DelegationScope) -> list[dict[str, Any]]:
    """Return the parts of a delegation's message without the text that `with_scope` has added."""
    return parts[:-1] if parts and parts[-1].get("text") == describe_scope(scope) else parts


def describe_scope(scope: DelegationScope) -> str:
    """Return the text that lists for the target what a task may use, below the task."""
    lines = ["This task may use at most:"]
    if scope.tools is not None:
        lines.append(f"- tools: {', '.join(scope.tools) or 'none'}, and those that answer it")
    if scope.peers is not None:
        lines.append(f"- peers: {', '.join(scope.peers) or 'none'}, and its delegator")
    if scope.depth is not None:
        lines.append(f"- levels of delegations below it: {scope.depth}")
    if not scope.approvals:
        lines.append("- approvals: none")
    return "\n".join((*lines, "Anything else is refused. Do not try another way: answer, and name what is missing."))


def parse_scope(text: str) -> DelegationScope:
    """Decode a stored scope."""
    return msgspec.json.decode(text, type=DelegationScope)


def _rejection(what: str, remedy: str = SCOPE_REMEDY) -> GuardRejection:
    return GuardRejection(MAY, 0, 0, what, remedy)


def allows_tool(scope: DelegationScope, name: str) -> bool:
    """Return whether a tool of this name may be used under a scope."""
    return name in ALWAYS_ALLOWED_TOOLS or (scope.approvals if name == APPROVAL_TOOL else scope.allows_tool(name))


def combined(held: Sequence[HeldScope]) -> DelegationScope:
    """Return what all these scopes allow."""
    return reduce(DelegationScope.narrow, (each.scope for each in held), UNRESTRICTED)
