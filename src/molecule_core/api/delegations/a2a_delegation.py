"""Delegates tasks that arrive as A2A `message/send`, if the message itself requests it.

Called by `api/messages/send.py`, which parses the request; calls the writer and reader of delegations.
"""

import asyncio
from typing import Any

import msgspec

from molecule_core.api.delegations.scope_gate import delegation_header
from molecule_core.api.http.response import Response
from molecule_core.api.messages.result_waits import DelegationWait
from molecule_core.api.routing import Request, json_response
from molecule_core.approvals.model import Approval
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.errors import InvalidMessage
from molecule_core.common.limits import Limits
from molecule_core.delegations import rules
from molecule_core.delegations.acceptance_rules import parse_terms
from molecule_core.delegations.model import BeginResult, ClaimedResult, Delegation, DelegationRequest
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.scopes import MAY
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages.model import MessageDraft
from molecule_core.messages.rules import named_message_id, ttl_of
from molecule_core.views.a2a_tasks import approval_text
from molecule_core.wire.protocols.a2a import DELEGATION_FLAG, task_response
from molecule_core.wire.schemas.delegation_scope import DelegationScope

ACCEPT, ROUNDS = "accept", "rounds"
"""Members of a message's metadata: the checks of its answer, and how many answers that fail are returned."""
_INBOX = "inbox"


class A2ADelegation:
    """Delegations by A2A messages."""

    def __init__(
        self,
        writer: DelegationWriter,
        reader: DelegationReader,
        delegation_wait: DelegationWait,
        approvals: ApprovalReader,
        *,
        limits: Limits,
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._delegation_wait = delegation_wait
        self._approvals = approvals
        self._limits = limits

    async def send_delegation(self, request: Request, draft: MessageDraft, *, wait_seconds: int) -> Response:
        """Begin a delegation, and return an A2A task of the same id.

        Waits `wait_seconds` for its end, or until it needs an approval.
        """
        receipt, outcome = await self.begin_and_wait(request, draft, wait_seconds=wait_seconds, key=message_key(draft))
        row = outcome.row
        pending_approval = await self._approvals.find_for_task(row.org_id, row.id, row.target_id) if row.open else None
        answer = task_response(
            draft.rpc_id, self._a2a_task(outcome, receipt, pending_approval), is_settled=not row.open
        )
        return json_response(answer, 202 if row.open else 200)

    async def begin_and_wait(
        self, request: Request, draft: MessageDraft, *, wait_seconds: int, key: str | None
    ) -> tuple[BeginResult, ClaimedResult]:
        """Begin a delegation, and wait `wait_seconds` for its end, or until it needs an approval or an answer.

        `key`: the idempotency key."""
        receipt = await self._delegation_wait.begin(
            self._writer.begin(self._delegation_request(request, draft, wait_seconds, key))
        )
        outcome = ClaimedResult(receipt.row, "", "")
        if wait_seconds and outcome.row.open:
            outcome = await self._wait_for_result(request, outcome.row, wait_seconds, receipt.held_until)
        return receipt, outcome

    async def _wait_for_result(
        self, request: Request, row: Delegation, wait_seconds: int, held_until: int
    ) -> ClaimedResult:
        """Wait for the result, or until the work needs an approval, since how long a decision takes is unknown."""
        result_task = asyncio.ensure_future(
            self._delegation_wait.wait_for_result(request, row, wait_seconds, held_until)
        )
        approval_task = asyncio.ensure_future(
            self._approvals.wait_for_task(row.org_id, row.id, row.target_id, wait_seconds)
        )
        try:
            await asyncio.wait((result_task, approval_task), return_when=asyncio.FIRST_COMPLETED)
            if result_task.done() or approval_task.result() is None:
                return await result_task
        finally:
            for each in (result_task, approval_task):
                each.cancel()
            await asyncio.gather(result_task, approval_task, return_exceptions=True)
        return ClaimedResult(await self._reader.get_delegation(row.org_id, row.id), "", "")

    def _delegation_request(
        self, request: Request, draft: MessageDraft, wait_seconds: int, key: str | None
    ) -> DelegationRequest:
        source_id = draft.sender.workspace_id
        if source_id is None:
            raise InvalidMessage(reason="only a workspace can delegate. Send a message instead.")
        sent = draft.message["metadata"]
        # The message's kind replaces this flag, so that the target reads the same whichever way the task came.
        # control: server-words-removed
        metadata = {name: value for name, value in sent.items() if name not in (DELEGATION_FLAG, ACCEPT, ROUNDS)}
        terms = parse_terms(sent.get(ACCEPT), sent.get(ROUNDS), self._limits)
        return DelegationRequest(
            source_id=source_id,
            target_id=request.workspace.id,
            parts=draft.message["parts"],
            task=draft.text,
            sender=draft.sender,
            metadata=metadata,
            key=key,
            wait_seconds=wait_seconds,
            # control: delegation-deadline-passed
            deadline_seconds=ttl_of(draft, self._limits.delegation_most_seconds),
            cause_id=delegation_header(request) or named_message_id(metadata),
            context_id=draft.context_id,
            trace_parent=draft.trace_parent,
            checks=terms.checks,
            rounds=terms.rounds,
            may=_named_scope(metadata),
        )

    def _a2a_task(
        self, outcome: ClaimedResult, receipt: BeginResult, pending_approval: Approval | None
    ) -> dict[str, Any]:
        """Build the A2A task.

        `pending_approval`: the approval that its work waits for. The result is returned once, here or by the message in
        the inbox; a repeated request for an ended delegation returns it too.
        """
        row = outcome.row
        status: dict[str, Any] = {
            "state": rules.a2a_state(row, needs_approval=pending_approval is not None),
            "timestamp": to_rfc3339(row.updated_at),
        }
        if row.reason is not None:
            text = f"{row.error or row.reason.value} {rules.ADVICE[row.reason]}"
            message = {"kind": "message", "role": "agent", "messageId": row.result_id or row.id}
            status["message"] = {**message, "parts": [{"kind": "text", "text": text}]}
        if pending_approval is not None:
            message = {"kind": "message", "role": "agent", "messageId": f"{pending_approval.id}.{pending_approval.rev}"}
            status["message"] = {**message, "parts": [{"kind": "text", "text": approval_text(pending_approval)}]}
        about = {"delegation_id": row.id, "status": row.status.value, "phase": row.phase.value}
        extra: dict[str, Any] = (
            {"idempotent_hit": True} if receipt.is_duplicate else {}
        )  # control: idempotent-hit-answered
        extra |= (
            {}
            if pending_approval is None
            else {"approval": {"approval_id": pending_approval.id, "action": pending_approval.action}}
        )
        ended = {"delivered": outcome.delivered or _INBOX, "verified": rules.is_verified(row)}
        task: dict[str, Any] = {
            "kind": "task",
            "id": row.id,
            "contextId": row.context_id or row.id,
            "status": status,
            "metadata": {**about, **extra, **({} if row.open else ended)},
        }
        if (receipt.is_duplicate or outcome.text) and row.result is not None:
            part = {"kind": "text", "text": row.result}
            task["artifacts"] = [{"artifactId": row.result_id or row.id, "parts": [part]}]
        return task


def _named_scope(metadata: dict[str, Any]) -> DelegationScope | None:
    """Return what the sender of a message lets its task do. Raises InvalidMessage."""
    if metadata.get(MAY) is None:
        return None
    try:
        return msgspec.convert(metadata[MAY], DelegationScope)
    except msgspec.ValidationError as error:
        raise InvalidMessage(
            reason=f"metadata.may is not valid ({error}). Use tools, peers, depth, approvals."
        ) from None


def message_key(draft: MessageDraft) -> str | None:
    """Return the idempotency key of a message of A2A 0.3: the one of its request, else the client's id of it."""
    key = draft.dedupe_key or draft.message.get("messageId")
    return key if isinstance(key, str) else None
