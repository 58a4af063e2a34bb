"""A2A `message/send` as a way to delegate: only if the message says so itself.

Above: `edges/messages.py`, which reads the request. Below: the writer and the reader of delegations.
"""

import asyncio
from typing import Any

from molecule_core.approvals.model import Approval
from molecule_core.approvals.reader import ApprovalReader
from molecule_core.delegations import rules
from molecule_core.delegations.model import Begin, Delegation, Receipt, Taken
from molecule_core.edges.awaiting import Awaited, Awaiting
from molecule_core.edges.routes import Answer, Call, json_answer
from molecule_core.ground.clock import rfc3339
from molecule_core.ground.errors import InvalidMessage
from molecule_core.ground.limits import Limits
from molecule_core.ground.text import shorten
from molecule_core.messages.model import Draft
from molecule_core.messages.rules import life_of, named_cause
from molecule_core.wire.a2a import DELEGATION_EXTENSION, task_answer

EXTENSIONS = b"x-a2a-extensions"
"""The header in which a request names the extensions that it means."""
_INBOX = "inbox"
_ASKS = "delegation"
_MOST_ACTION = 200


def asks_to_delegate(metadata: dict[str, Any], extensions: str | None) -> bool:
    """Whether a message is meant as a delegation: by its metadata, or by the extensions that its request names."""
    if metadata.get(_ASKS) is True:
        return True
    return extensions is not None and DELEGATION_EXTENSION in (each.strip() for each in extensions.split(","))


class Delegated:
    """Delegates what came as a message."""

    def __init__(self, awaited: Awaited, approvals: ApprovalReader, *, limits: Limits) -> None:
        self._writer, self._reader, _ = awaited
        self._approvals = approvals
        self._awaiting = Awaiting(*awaited)
        self._limits = limits

    async def send(self, call: Call, draft: Draft, *, version: str | None, patience: int) -> Answer:
        """Begins it, waits so many seconds for its end, or until it needs an approval, and answers with an A2A task of
        the same id."""
        receipt = await self._awaiting.begun(self._writer.begin(self._wish(call, draft, patience)))
        found = Taken(receipt.row, "", "")
        if patience and found.row.open:
            found = await self._end(call, found.row, patience, receipt.held_until)
        row = found.row
        needs = await self._approvals.of_task(row.org_id, row.id, row.target_id) if row.open else None
        answer = task_answer(draft.rpc_id, self._task(found, receipt, needs), is_settled=not row.open)
        return json_answer(answer, 202 if version is None and row.open else 200)

    async def _end(self, call: Call, row: Delegation, patience: int, held_until: int) -> Taken:
        """What it has come to in that time, or as soon as its work waits for an approval: nobody knows how long."""
        ending = asyncio.ensure_future(self._awaiting.end(call, row, patience, held_until))
        needing = asyncio.ensure_future(self._approvals.wait_of_task(row.org_id, row.id, row.target_id, patience))
        try:
            await asyncio.wait((ending, needing), return_when=asyncio.FIRST_COMPLETED)
            if ending.done() or needing.result() is None:
                return await ending
        finally:
            for each in (ending, needing):
                each.cancel()
            await asyncio.gather(ending, needing, return_exceptions=True)
        return Taken(await self._reader.one(row.org_id, row.id), "", "")

    def _wish(self, call: Call, draft: Draft, patience: int) -> Begin:
        source_id = draft.sender.workspace_id
        if source_id is None:
            raise InvalidMessage(reason="a delegation is given by a workspace; a person writes a message")
        # What asks for a delegation is said by its kind then; its target reads the same whichever way it came.
        # control: server-words-removed
        metadata = {name: value for name, value in draft.message["metadata"].items() if name != _ASKS}
        return Begin(
            source_id=source_id,
            target_id=call.target.id,
            parts=draft.message["parts"],
            task=draft.text,
            sender=draft.sender,
            metadata=metadata,
            key=draft.dedupe_key or draft.message.get("messageId"),
            wait_seconds=patience,
            # control: delegation-deadline-passed
            deadline_seconds=life_of(draft, self._limits.delegation_most_seconds),
            cause_id=named_cause(metadata),
            context_id=draft.context_id,
            trace_parent=draft.trace_parent,
        )

    def _task(self, found: Taken, receipt: Receipt, needs: Approval | None) -> dict[str, Any]:
        """The task as A2A knows it. `needs`: the approval for which its work waits. Its result comes once, here or with
        the message in the inbox; who asks again for what has ended reads it here too."""
        row = found.row
        status: dict[str, Any] = {
            "state": rules.a2a_state(row, needs_leave=needs is not None),
            "timestamp": rfc3339(row.updated_at),
        }
        if row.reason is not None:
            text = f"{row.error or row.reason.value} {rules.ADVICE[row.reason]}"
            said = {"kind": "message", "role": "agent", "messageId": row.result_id or row.id}
            status["message"] = {**said, "parts": [{"kind": "text", "text": text}]}
        if needs is not None:
            said = {"kind": "message", "role": "agent", "messageId": f"{needs.id}.{needs.rev}"}
            status["message"] = {**said, "parts": [{"kind": "text", "text": _waits_for(needs)}]}
        about = {"delegation_id": row.id, "status": row.status.value, "phase": row.phase.value}
        more: dict[str, Any] = {"idempotent_hit": True} if receipt.hit else {}  # control: idempotent-hit-answered
        more |= {} if needs is None else {"approval": {"approval_id": needs.id, "action": needs.action}}
        task: dict[str, Any] = {
            "kind": "task",
            "id": row.id,
            "contextId": row.context_id or row.id,
            "status": status,
            "metadata": {**about, **more, **({} if row.open else {"delivered": found.delivered or _INBOX})},
        }
        if (receipt.hit or found.text) and row.result is not None:
            part = {"kind": "text", "text": row.result}
            task["artifacts"] = [{"artifactId": row.result_id or row.id, "parts": [part]}]
        return task


def _waits_for(needs: Approval) -> str:
    """What a task waits for, in words. What its worker wrote is named as such."""
    who = needs.holder_name or "a person"
    what = shorten(needs.action, _MOST_ACTION)
    return f"This task waits until {who} has decided on approval {needs.id}, which its worker has asked for: {what}"
