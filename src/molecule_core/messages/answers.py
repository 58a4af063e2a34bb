"""What an answer is before it is sent: to whom it goes, in which words, and what a handle of another time is told.

Steps without decisions, for `replies`. Above: replies. Below: obligations, rules.
"""

from collections.abc import Generator
from typing import Any

from molecule_core.ground.errors import MoleculeError, StaleHandle
from molecule_core.messages import rules
from molecule_core.messages.model import INFORM, Draft, Line, Receipt, Sender
from molecule_core.messages.obligations import Asked, Obligation, owed_to
from molecule_core.store.database import Read, Step, T, WriteSet

Out = Line | Draft
"""An answer on its way: to the user, or to a peer."""


def out_of(asked: Asked, parts: list[dict[str, Any]], metadata: dict[str, Any], key: str | None) -> Out:
    """An answer, to whom its message came from."""
    return Line(parts, key, metadata) if asked.source_id is None else draft_to(asked, parts, metadata, key)


def draft_to(asked: Asked, parts: list[dict[str, Any]], metadata: dict[str, Any], key: str | None = None) -> Draft:
    """An answer to a workspace."""
    return Draft(
        sender=Sender(f"workspace:{asked.workspace_id}", asked.workspace_id, None, None),
        params={"metadata": {}},
        message={"kind": "message", "role": "agent", "parts": parts, "metadata": {**metadata, "intent": INFORM}},
        rpc_id=None,
        text=rules.text_of(parts),
        intent=INFORM,
        dedupe_key=key,
        context_id=asked.context_id,
    )


def draft_of(asked: Asked, text: str) -> Out:
    metadata = {"in_reply_to": asked.id, "draft": True}
    return out_of(asked, [{"kind": "text", "text": text}], metadata, f"draft:{asked.id}")


def first_of(asked: Asked, out: Out) -> Generator[Step, Any, Receipt | None]:
    """The first answer under the same key, whatever it said."""
    sender = f"workspace:{asked.workspace_id}"
    twins = yield Read("find_twin", {"sender": sender, "dedupe_key": out.dedupe_key})
    return Receipt(*twins[0][:3]) if twins else None


def receipt_of(owed: Obligation) -> Receipt | None:
    if owed.answer_id is None:
        return None
    return Receipt(owed.answer_id, owed.context_id or owed.answer_id, owed.closed_at or 0)


def stale(asked: Asked, owed: Obligation) -> Generator[Step, Any, MoleculeError]:
    """The refusal of a handle whose message is settled, which names the one that is open."""
    right = yield from owed_to(asked.workspace_id, asked.source_id)
    if right is None:
        advice = "Nothing else waits for an answer in this conversation; to say more, write without a handle."
        return StaleHandle(state=owed.state, advice=advice, handle=None)
    return StaleHandle(state=owed.state, advice=f"What waits for an answer is {right.handle}.", handle=right.handle)


def with_answer(written: WriteSet[Any], answer: T) -> WriteSet[T]:
    told = written.writes, written.events, written.rings, written.then
    return WriteSet(answer, *told, written.refusal, written.facts)
