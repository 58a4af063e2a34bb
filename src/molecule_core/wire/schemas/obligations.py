"""Obligations and results of replies as clients read them. Times are RFC 3339."""

from msgspec import Struct


class ReplyResponse(Struct):
    """The result of a reply by handle.

    `activity_id`: the row of the reply, empty if it had no text; `answers`: the answered message, which came from
    `peer_id` (empty: from the user). `state`: of the answered message, or `late`: its task had already ended, so the
    reply is stored without effect. `acknowledged`: it will not be delivered again."""

    status: str
    activity_id: str
    answers: str
    peer_id: str
    state: str
    acknowledged: bool


class DraftResponse(Struct):
    """State of a message after its draft was kept, sent or discarded.

    `state`: open, answered, declined, answered_outside or overdue; empty if no answer is due. `activity_id`: the
    reply that was made from the draft."""

    state: str
    activity_id: str = ""


class ObligationRow(Struct):
    """A message that a workspace has, or had, to answer. `seq`: its position in the log of that workspace.

    `source_id`: the sender, null for a person; `state`: open, answered, declined, answered_outside or overdue;
    `draft`: output of the agent that it did not send; `template` (id@version), `form`, `tokens`: of the instructions
    delivered with it; `handle`: the reply handle."""

    activity_id: str
    workspace_id: str
    workspace_name: str
    seq: int
    source_id: str | None
    source_name: str | None
    summary: str | None
    state: str
    handle: str
    handed_at: str
    due_at: str | None
    reminded_at: str | None
    overdue_at: str | None
    outside_at: str | None
    closed_at: str | None
    answer_id: str | None
    reason: str | None
    draft: str | None
    template: str | None
    form: str | None
    tokens: int | None


class ObligationPage(Struct):
    """A page of obligations, newest first. `before` of the next page: the last activity_id of this one."""

    obligations: list[ObligationRow]
    reached_end: bool
