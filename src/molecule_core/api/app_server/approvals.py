"""Sends approvals as server requests to app-server clients that follow a thread tree.

Answers go through the REST route for decisions, so the first decision wins. Called by `api/app_server/websocket.py`.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.access.model import CredentialKind, Role
from molecule_core.access.rules import role_includes
from molecule_core.api.app_server.items import PendingNotification
from molecule_core.api.app_server.methods import AppServerError, AppServerMethods, ClientResponse
from molecule_core.api.routing import Request
from molecule_core.wire.protocols import app_server as app
from molecule_core.wire.schemas.approvals import ApprovalItem

_PROMPT_EVENTS = frozenset(("APPROVAL_REQUESTED", "APPROVAL_ESCALATED", "APPROVAL_ANSWERED"))
_RESOLVED_EVENTS = frozenset(
    ("APPROVAL_APPROVED", "APPROVAL_DENIED", "APPROVAL_EXPIRED", "APPROVAL_WITHDRAWN", "APPROVAL_INFO_REQUESTED")
)
APPROVAL_EVENTS = _PROMPT_EVENTS | _RESOLVED_EVENTS
_ITEM_DECODER = msgspec.json.Decoder(ApprovalItem)
_DECISIONS = {"accept": "approve", "decline": "deny"}


class _ApprovalPrompt(NamedTuple):
    """Approval that a client was asked to decide."""

    request_id: str
    item: ApprovalItem


class ApprovalPrompts:
    """Approval requests of one client that are not resolved yet."""

    def __init__(self, http_request: Request, methods: AppServerMethods, send: Callable[[Struct], None]) -> None:
        self._request = http_request
        self._methods = methods
        self._send = send
        self._trees: dict[str, dict[str, str]] = {}
        self._prompts: dict[str, _ApprovalPrompt] = {}
        self.can_decide = http_request.caller.kind is CredentialKind.PERSON and role_includes(
            http_request.caller.role, Role.OPERATOR
        )
        """Whether the client may decide approvals at all."""

    def add_threads(self, root_id: str, threads: Iterable[tuple[str, str]]) -> None:
        """Add threads, each with its workspace, to a followed tree."""
        self._trees.setdefault(root_id, {}).update(threads)

    def remove_tree(self, root_id: str) -> None:
        """Stop following a tree."""
        self._trees.pop(root_id, None)

    async def prompt_pending(self) -> None:
        """Send the approvals that are pending already."""
        if not self.can_decide:
            return
        try:
            for item in await self._methods.list_pending_approvals(self._request):
                self._prompt(item)
        except AppServerError as error:
            self._send_warning(None, error.fault.message, error.fault.data)

    def handle_event(self, event: str, payload: bytes) -> list[PendingNotification]:
        """Send a new request for an approval, or return the notification that a request is resolved."""
        item = _ITEM_DECODER.decode(payload)
        if event in _PROMPT_EVENTS:
            self._prompt(item)
            return []
        prompt = self._prompts.pop(item.approval_id, None)
        resolved = {"requestId": prompt.request_id, "status": item.status} if prompt is not None else {}
        return [PendingNotification("serverRequest/resolved", resolved)] if resolved else []

    def _prompt(self, item: ApprovalItem) -> None:
        existing = self._prompts.get(item.approval_id)
        roots = self._roots_of(item)
        if not (self.can_decide and roots) or (existing and existing.item.revision >= item.revision):
            return
        prompt = self._prompts[item.approval_id] = _ApprovalPrompt(f"approval:{item.approval_id}:{item.seq}", item)
        self._send(
            app.AppServerRequest(prompt.request_id, "item/approval/requestApproval", _approval_params(item, roots))
        )

    def _roots_of(self, item: ApprovalItem) -> list[str]:
        """Return the followed trees that an approval belongs to.

        An approval with a thread belongs to the tree of that thread. One without belongs to all trees with a thread of
        its workspace, while a person must decide it."""
        if item.thread_id is not None:
            return [root for root, threads in self._trees.items() if item.thread_id in threads]
        workspaces = ((root, threads.values()) for root, threads in self._trees.items() if item.for_person)
        return [root for root, workspace_ids in workspaces if item.workspace_id in workspace_ids]

    async def handle_response(self, reply: ClientResponse) -> None:
        """Decide an approval as answered by the client. Invalid and rejected answers are reported to it as warnings."""
        prompt = next((each for each in self._prompts.values() if each.request_id == reply.id), None)
        if prompt is None or reply.result is None:
            return
        result = reply.result if isinstance(reply.result, dict) else {}
        decision, note = _DECISIONS.get(str(result.get("decision"))), result.get("note") or ""
        if decision is None:
            self._send_warning(
                prompt.request_id,
                "decision has an unknown value, and the approval is still pending. "
                f"Use one of: {', '.join(_DECISIONS)}.",
                None,
            )
            return
        item = prompt.item
        body = {"decision": decision, "revision": item.revision, "action_hash": item.action_hash, "note": note}
        try:
            await self._methods.decide_approval(self._request, item, body)
        except AppServerError as error:
            self._send_warning(prompt.request_id, error.fault.message, error.fault.data)

    def _send_warning(self, request_id: str | None, message: str, data: Any) -> None:
        self._send(app.AppServerNotification("warning", {"requestId": request_id, "message": message, "data": data}))


def _approval_params(item: ApprovalItem, roots: list[str]) -> app.ApprovalParams:
    return app.ApprovalParams(
        thread_id=item.thread_id,
        root_thread_ids=roots,
        workspace_id=item.workspace_id,
        requester_name=item.requester_name,
        approval_id=item.approval_id,
        action=item.action,
        reason=item.reason,
        details=item.details,
        cost=item.cost,
        risk=item.risk,
        revision=item.revision,
        expires_at=item.expires_at,
        available_decisions=list(_DECISIONS),
    )
