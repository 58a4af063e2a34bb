"""Rejects calls that are outside what the caller's delegations may do (`may`).

Called by the approval gate before each handler of a tool's route, over HTTP or MCP; calls the reader of scopes. What
begins a delegation is decided by the writer, within its transaction. Calls of workspaces that have received no
delegation with a scope cost nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from molecule_core.access.model import CredentialKind
from molecule_core.api.routing import Request, Route
from molecule_core.common.text import is_valid_client_id
from molecule_core.delegations.errors import ScopeExceeded
from molecule_core.delegations.scopes import (
    ALWAYS_ALLOWED_TOOLS,
    APPROVAL_TOOL,
    DELEGATE_TOOLS,
    SCOPE_REMEDY,
    HeldScope,
    ScopeReader,
    allows_tool,
    combined,
)
from molecule_core.messages.rules import named_message_id
from molecule_core.wire.schemas.delegation_scope import DelegationScope

DELEGATION_HEADER = b"x-molecule-delegation"
"""The header that names the delegation for which a call is made."""
_BROADCAST_TOOL = "broadcast_message"
_ANSWERS = ("reply", "decline")
_MEMORY_PATHS = ("/workspaces/{id}/memory", "/workspaces/{id}/memory/{key}", "/workspaces/{id}/memories/{memory_id}")
_APPROVAL_ROUTE = ("POST", "/workspaces/{id}/approvals")
_READ_TOOL, _WRITE_TOOL = "recall_memory", "commit_memory"


class ScopeGate:
    """Gate that lets a call through if all that the caller works on may do it."""

    def __init__(self, scopes: ScopeReader) -> None:
        self._scopes = scopes

    def applies_to(self, request: Request) -> bool:
        """Return whether the caller may work on a delegation with a scope. Needs no query."""
        caller = request.caller
        return caller.kind is CredentialKind.WORKSPACE and self.may_restrict(caller.id, request.headers)

    def may_restrict(self, workspace_id: str, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a workspace may work on a delegation with a scope. Part of each request.

        A caller that names a delegation by the header may name one that has ended, and whose scope still counts."""
        return DELEGATION_HEADER in headers or self._scopes.is_restricted(workspace_id)

    async def check(self, request: Request, tools: Sequence[str], fields: Mapping[str, Any]) -> None:
        """Raise ScopeExceeded if a call is outside what the caller's delegations may do.

        `tools`: the tools that the call amounts to; `fields`: members of its body, or of its message's metadata."""
        if not self.applies_to(request) or any(each in (*_ANSWERS, *DELEGATE_TOOLS) for each in tools):
            return
        governed = [each for each in tools if each not in ALWAYS_ALLOWED_TOOLS]
        if not governed:
            return
        held = await self._scopes.applying(request.caller.org_id, request.caller.id, named_delegation(request, fields))
        if held and not self._is_to_delegator(request, held):
            scope = combined(held)
            _check_tools(scope, governed)
            _check_peers(scope, request, governed, fields)

    async def check_upload(self, request: Request) -> None:
        """Raise ScopeExceeded if files for another workspace are outside what the caller's delegations may do."""
        if self.applies_to(request) and request.workspace.id != request.caller.id:
            held = await self._scopes.applying(request.caller.org_id, request.caller.id, named_delegation(request, {}))
            if not self._is_to_delegator(request, held):
                _check_peer(combined(held), request.workspace.id)

    async def check_approval(self, request: Request, fields: Mapping[str, Any]) -> None:
        """Raise ScopeExceeded if the caller's delegations may not request approvals."""
        if self.applies_to(request):
            held = await self._scopes.applying(
                request.caller.org_id, request.caller.id, named_delegation(request, fields)
            )
            if not combined(held).approvals:
                raise ScopeExceeded(what="an approval", remedy=SCOPE_REMEDY)

    @staticmethod
    def _is_to_delegator(request: Request, held: Sequence[HeldScope]) -> bool:
        """Return whether a call writes to the workspace that delegated the work."""
        workspace = request.maybe_workspace
        return workspace is not None and any(each.row.source_id == workspace.id for each in held)


def _check_tools(scope: DelegationScope, tools: Sequence[str]) -> None:
    if not any(allows_tool(scope, each) for each in tools):
        raise ScopeExceeded(what=f"the tool {tools[0]}", remedy=SCOPE_REMEDY)


def _check_peers(scope: DelegationScope, request: Request, tools: Sequence[str], fields: Mapping[str, Any]) -> None:
    if _BROADCAST_TOOL in tools and scope.peers is not None:
        raise ScopeExceeded(what="a message to all workspaces", remedy=SCOPE_REMEDY)
    workspace, named = request.maybe_workspace, fields.get("workspace_id")
    for each in (None if workspace is None else workspace.id, named):
        if isinstance(each, str) and each != request.caller.id:
            _check_peer(scope, each)


def _check_peer(scope: DelegationScope, workspace_id: str) -> None:
    if not scope.allows_peer(workspace_id):
        raise ScopeExceeded(what=f"the peer {workspace_id}", remedy=SCOPE_REMEDY)


def named_delegation(request: Request, fields: Mapping[str, Any]) -> str | None:
    """Return the delegation for which a call says that it is made, by its header or by the message that it answers."""
    named = delegation_header(request) or named_message_id(fields)
    return None if named is None or "\x00" in named else named


def delegation_header(request: Request) -> str | None:
    """Return the delegation that the header names. A host sets it, so it counts before what its model names."""
    named = request.header(DELEGATION_HEADER)
    return named if named is not None and is_valid_client_id(named, request.limits.id_length) else None


def scope_tools(route: Route) -> tuple[str, ...]:
    """Return the tools to which a route amounts that approval rules do not concern."""
    if route.path in _MEMORY_PATHS:
        return (_READ_TOOL if route.method == "GET" else _WRITE_TOOL,)
    return (APPROVAL_TOOL,) if (route.method, route.path) == _APPROVAL_ROUTE else ()
