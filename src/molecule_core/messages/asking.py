"""The rows that an approval leaves among messages: who is asked, and who is told what came of it.

Both always have room, and no chain stops them: what is asked was let in when it began. Above: the slice of approvals.
Below: entering, results.
"""

from collections.abc import Generator
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.ground.clock import Clock
from molecule_core.ground.text import shorten
from molecule_core.messages.entering import logged, with_its_delivery
from molecule_core.messages.facts import Answer, Explained
from molecule_core.messages.model import RECEIVE, SEND, SUMMARY_LENGTH, Activity, Receipt
from molecule_core.messages.obligations import Facts, Obligation, joined, obligation_at
from molecule_core.messages.owing import Owing
from molecule_core.messages.results import Logged, Results
from molecule_core.org.model import Workspace
from molecule_core.store.database import Step, Take, WriteSet
from molecule_core.wire.a2a import SEND as METHOD_SEND


class Letter(Struct, frozen=True, kw_only=True):
    """A message about an approval. `source_id` None: a person's, or the server's, who is named then. `metadata`: what
    programs read of it."""

    id: str
    kind: str
    intent: str
    source_id: str | None
    user_id: str | None
    user_name: str | None
    text: str
    metadata: dict[str, Any]


class Asking:
    """Makes these rows, and takes them back."""

    def __init__(self, owing: Owing, results: Results, *, clock: Clock) -> None:
        self._owing = owing
        self._results = results
        self._clock = clock

    def row(self, target: Workspace, letter: Letter) -> Generator[Step, Any, Logged]:
        """A message about an approval, in the inbox of a workspace."""
        who = {} if letter.user_id is None else {"user_id": letter.user_id, "username": letter.user_name}
        metadata = {"kind": letter.kind, "intent": letter.intent, **letter.metadata}
        message = {
            "kind": "message",
            "role": "user",
            "messageId": letter.id,
            "parts": [{"kind": "text", "text": letter.text}],
            "metadata": metadata,
        }
        params = {"message": message, "metadata": who}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": METHOD_SEND, "params": params})
        sender = f"workspace:{letter.source_id}" if letter.source_id else f"person:{letter.user_id or 'nobody'}"
        activity = Activity(
            id=letter.id,
            org_id=target.org_id,
            workspace_id=target.id,
            inbound_no=(yield Take("last_inbound", target.id)),
            seq=(yield Take("last_seq", target.id)),
            size=len(body),
            activity_type=RECEIVE,
            method=METHOD_SEND,
            kind=letter.kind,
            intent=letter.intent,
            source_id=letter.source_id,
            target_id=target.id,
            user_id=letter.user_id,
            sender=sender,
            context_id=letter.id,
            created_at=self._clock.now(),
            summary=shorten(letter.text, SUMMARY_LENGTH),
            request_body=body.decode(),
        )
        entered = with_its_delivery(logged(None, activity, "ACTIVITY_LOGGED"), target, activity)
        return Logged(activity.id, activity.seq, Facts(entered.writes, entered.events, entered.rings))

    def over(self, workspace: Workspace, seq: int, reason: str, *, answered: bool) -> Generator[Step, Any, Facts]:
        """The message at a place of an inbox is done with: `answered` by its workspace itself, or taken back for a
        reason. A push that is under way is left to its own end."""
        owed = yield from obligation_at(workspace.id, seq)
        if answered and owed is not None and owed.is_open:
            closed = self._owing.answered(owed, self._clock.now(), None)
            rest = yield from self._results.handled(workspace, seq)
            return Facts([*closed.writes, *rest.writes], [*closed.events, *rest.events], (*closed.rings, *rest.rings))
        if answered and owed is None:
            return (yield from self._results.handled(workspace, seq))
        _, facts = yield from self._results.over(workspace, seq, reason)
        return facts


def explained(
    owing: Owing, owed: Obligation, answer: Answer, now: int, *, opens: Facts | None = None
) -> Generator[Step, Any, WriteSet[Receipt]]:
    """The answer to a question about what its workspace wants leave for, by whatever way it came: it becomes no message
    of its own, but ends what is owed, stands in the workspace's own log, and rises. The caller has looked for its
    repetition before."""
    row = yield from _said(owed, answer, now)
    written = logged(Receipt(row.id, row.context_id or row.id, now), row, "ACTIVITY_LOGGED")
    if opens is not None:
        joined(written, opens)
    joined(written, owing.answered(owed, now, row.id))
    written.facts.append(Explained(owed.activity_id, owed.seq, answer.text, now))
    return written


def _said(owed: Obligation, answer: Answer, now: int) -> Generator[Step, Any, Activity]:
    metadata = {"in_reply_to": owed.activity_id}
    message = {
        "kind": "message",
        "role": "agent",
        "messageId": answer.id,
        "parts": answer.parts,
        "metadata": metadata,
    }
    params = {"message": message, "metadata": {}}
    body = msgspec.json.encode({"jsonrpc": "2.0", "id": None, "method": METHOD_SEND, "params": params})
    return Activity(
        id=answer.id,
        org_id=owed.org_id,
        workspace_id=owed.workspace_id,
        seq=(yield Take("last_seq", owed.workspace_id)),
        size=len(body),
        activity_type=SEND,
        method=METHOD_SEND,
        source_id=owed.workspace_id,
        target_id=owed.source_id,
        sender=answer.sender,
        dedupe_key=answer.dedupe_key,
        content_hash=answer.content_hash,
        context_id=answer.context_id or answer.id,
        created_at=now,
        summary=shorten(answer.text, SUMMARY_LENGTH),
        request_body=body.decode(),
    )


def approval_of(message_id: str) -> str:
    """The approval that a message about one belongs to: its id, and behind a dot a number."""
    return message_id.rpartition(".")[0]
