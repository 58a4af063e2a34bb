"""What is owed for messages, and what came of answers, as clients read it. Times are RFC 3339."""

from msgspec import Struct


class ReplyResponse(Struct):
    """What came of an answer by handle. `activity_id`: the answer's own row, empty if nothing was said; `answers`: the
    message that it answers, which came from `peer_id` (empty: from the user); `state`: how that one stands now, or
    `late`: it was a task that had ended before, so that this is kept and has no effect; `acknowledged`: whether it is
    handled, so that it does not come again."""

    status: str
    activity_id: str
    answers: str
    peer_id: str
    state: str
    acknowledged: bool


class DraftResponse(Struct):
    """How a message stands after its draft was kept, sent or discarded: open, answered, declined, answered_outside or
    overdue; empty if it wants no answer. `activity_id`: the answer that the draft became."""

    state: str
    activity_id: str = ""


class ObligationRow(Struct):
    """A message that a workspace owes an answer for, or owed. `seq`: its place in the log of that workspace.

    `source_id`: who asked, null for a person; `state`: open, answered, declined, answered_outside or overdue; `draft`:
    what its agent said and did not send; `template` (id@version), `form`, `tokens`: of the instructions that it came
    with; `handle`: what answers it."""

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
    """A page of obligations, newest first; `before` of the next page is the last activity_id of this one."""

    obligations: list[ObligationRow]
    reached_end: bool
