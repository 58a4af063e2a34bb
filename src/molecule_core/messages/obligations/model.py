"""Obligations of a workspace to answer messages, and the reads of them.

See docs/explanation/obligations.md. When an obligation opens and closes is decided in ledger."""

from collections.abc import Generator, Iterable
from enum import StrEnum
from typing import Any

from msgspec import Struct

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import AmbiguousReply
from molecule_core.common.limits import Limits
from molecule_core.common.text import truncate_line
from molecule_core.messages.model import ActivityPageRow
from molecule_core.messages.obligations.reply_handles import make_handle
from molecule_core.org.model import Workspace
from molecule_core.store.database import ReadQuery, RequestBatch, StepRequest, WriteSet

# How many open requests an error for an ambiguous reply lists, and how much of each.
_MAX_LISTED, _LISTED_LENGTH = 20, 60
OVERDUE_TIMER = "silence"
"""Kind of the timer that watches open obligations; its key is the workspace id."""
NO_REMINDER = 0
"""Value of `reminded_at` when the first due time has passed and no reminder was possible."""


class ObligationState(StrEnum):
    """State of an obligation to answer.

    Stored are `open`, `answered` and `declined`; the others say more about an open one (`obligation_state`)."""

    OPEN = "open"
    ANSWERED = "answered"
    DECLINED = "declined"
    ANSWERED_OUTSIDE = "answered_outside"
    """The agent produced a text that it did not send: it is kept as a draft."""
    OVERDUE = "overdue"


class InboundMessage(Struct, frozen=True):
    """A message of an inbox as an answer needs it, in the column order of the query `inbox_message`.

    `source_id` is None for a person's message."""

    id: str
    org_id: str
    workspace_id: str
    source_id: str | None
    context_id: str | None
    seq: int
    inbound_no: int
    intent: str | None
    kind: str | None

    @property
    def handle(self) -> str:
        """Return the reply handle of the message."""
        handle_parts = (self.context_id, self.id, self.seq)
        return make_handle(self.org_id, self.source_id or "", self.workspace_id, *handle_parts)


class Obligation(Struct, frozen=True):
    """One row of the table with columns of its message, in the queries' order. Times are microseconds."""

    workspace_id: str
    seq: int
    activity_id: str
    org_id: str
    source_id: str | None
    state: str
    handed_at: int
    due_at: int | None
    reminded_at: int | None
    outside_at: int | None
    overdue_at: int | None
    closed_at: int | None
    answer_id: str | None
    by_handle: int
    reason: str | None
    draft: str | None
    template_org: str | None
    template: str | None
    version: int | None
    form: str | None
    tokens: int | None
    inbound_no: int
    context_id: str | None
    summary: str | None
    kind: str | None

    @property
    def is_open(self) -> bool:
        """Return whether the message is neither answered nor declined."""
        return self.state == ObligationState.OPEN

    @property
    def handle(self) -> str:
        """Return the reply handle of the message."""
        handle_parts = (self.context_id, self.activity_id, self.seq)
        return make_handle(self.org_id, self.source_id or "", self.workspace_id, *handle_parts)

    @property
    def is_reminded(self) -> bool:
        """Return whether the agent was reminded and still has time."""
        return self.is_open and bool(self.reminded_at) and self.overdue_at is None

    @property
    def display_state(self) -> str:
        """Return the state as one word."""
        return obligation_state(self.state, self.overdue_at, self.outside_at)

    @property
    def template_label(self) -> str | None:
        """Return the template and version of the message's instructions."""
        return template_label(self.template, self.version)


def obligation_state(state: str, overdue_at: int | None, outside_at: int | None) -> str:
    """Return the state of an obligation: answered, declined, overdue, answered_outside or open."""
    if state != ObligationState.OPEN:
        return state
    if overdue_at is not None:
        return ObligationState.OVERDUE
    return ObligationState.OPEN if outside_at is None else ObligationState.ANSWERED_OUTSIDE


def template_label(template: str | None, version: int | None) -> str | None:
    """Return a template and its version as they are displayed."""
    return None if template is None else f"{template}@{version}"


def find_reminded(workspace_id: str, rows: Iterable[ActivityPageRow]) -> Generator[StepRequest, Any, frozenset[str]]:
    """Return the ids of the rows that are redelivered as reminders."""
    redelivered = [row for row in rows if (row.attempt or 1) > 1]
    if not redelivered:
        return frozenset()
    found = yield RequestBatch(
        [ReadQuery("obligation", {"workspace_id": workspace_id, "seq": row.seq}) for row in redelivered]
    )
    return frozenset(
        row.id
        for row, obligation in zip(redelivered, found, strict=True)
        if obligation and Obligation(*obligation[0]).is_reminded
    )


def reply_due_at(workspace: Workspace, limits: Limits, now: int) -> int | None:
    """Return when the answer to a message delivered now is due; None if it is not watched."""
    seconds = limits.reply_seconds if workspace.reply_seconds is None else workspace.reply_seconds
    return now + seconds * SECOND if seconds else None


# -- closing -----------------------------------------------------------------------------------------------------------


def obligation_key(workspace_id: str, source_id: str | None) -> tuple[str, str, str]:
    """Return the key of commands that may change obligations to another workspace or to the user (None)."""
    return "owes", workspace_id, source_id or ""


def load_inbound(workspace_id: str, seq: int) -> Generator[StepRequest, Any, InboundMessage | None]:
    """Read the message at a position of an inbox."""
    rows = yield ReadQuery("inbox_message", {"workspace_id": workspace_id, "seq": seq})
    return InboundMessage(*rows[0]) if rows else None


def load_obligation(workspace_id: str, seq: int) -> Generator[StepRequest, Any, Obligation | None]:
    """Read the open or closed obligation at a position of a log."""
    rows = yield ReadQuery("obligation", {"workspace_id": workspace_id, "seq": seq})
    return Obligation(*rows[0]) if rows else None


def new_obligation(inbound: InboundMessage, now: int) -> Obligation:
    """Return the obligation of a message that is delivered now."""
    return Obligation(
        workspace_id=inbound.workspace_id,
        seq=inbound.seq,
        activity_id=inbound.id,
        org_id=inbound.org_id,
        source_id=inbound.source_id,
        state=ObligationState.OPEN,
        handed_at=now,
        due_at=None,
        reminded_at=None,
        outside_at=None,
        overdue_at=None,
        closed_at=None,
        answer_id=None,
        by_handle=0,
        reason=None,
        draft=None,
        template_org=None,
        template=None,
        version=None,
        form=None,
        tokens=None,
        inbound_no=inbound.inbound_no,
        context_id=inbound.context_id,
        summary=None,
        kind=inbound.kind,
    )


class AnswerTarget(Struct, frozen=True):
    """What an outgoing message answers.

    `named_id`: the message that it claims to answer. `obligation`: the open one that it closes, if any; with `progress`
    it closes nothing and only reports work. `opening_changes` open the obligation first, for a message
    answered without having been delivered."""

    named_id: str | None = None
    obligation: Obligation | None = None
    progress: bool = False
    by_handle: bool = False
    opening_changes: WriteSet[object] = WriteSet(None)


def find_named_message(
    workspace_id: str, source_id: str | None, named_id: str
) -> Generator[StepRequest, Any, InboundMessage | None]:
    """Return the inbox message that an answer names, if it came from `source_id` (None: a person)."""
    positions = yield ReadQuery("position_of_activity", {"id": named_id, "workspace_id": workspace_id})
    inbound = (yield from load_inbound(workspace_id, positions[0][0])) if positions else None
    return inbound if inbound is not None and inbound.source_id == source_id else None


def find_open_obligation(
    workspace_id: str, source_id: str | None, named_id: str | None = None
) -> Generator[StepRequest, Any, Obligation | None]:
    """Return the open obligation of a conversation: the named message's, if it belongs there, else the newest."""
    row: dict[str, object] = {"workspace_id": workspace_id, "named": named_id}
    if source_id is None:
        rows = yield ReadQuery("obligation_to_user", row)
    else:
        rows = yield ReadQuery("obligation_to_peer", {**row, "source_id": source_id})
    found = Obligation(*rows[0]) if rows else None
    return found if found is not None and found.is_open else None


class UnansweredRequest(Struct, frozen=True):
    """A message of a peer that waits for an answer, in the column order of `open_requests_of_peer`."""

    seq: int
    activity_id: str
    source_id: str
    context_id: str | None
    kind: str | None
    summary: str | None


def find_open_requests(workspace_id: str, source_id: str) -> Generator[StepRequest, Any, list[UnansweredRequest]]:
    """Return the oldest messages of a peer that wait for an answer."""
    row = {"workspace_id": workspace_id, "source_id": source_id, "most": _MAX_LISTED}
    return [UnansweredRequest(*each) for each in (yield ReadQuery("open_requests_of_peer", row))]


def ambiguous_reply(workspace: Workspace, requests: Iterable[UnansweredRequest]) -> AmbiguousReply:
    """Build the error for a message that does not name which of several messages it answers."""
    found = [
        {
            "reply_handle": make_handle(
                workspace.org_id, each.source_id, workspace.id, each.context_id, each.activity_id, each.seq
            ),
            "activity_id": each.activity_id,
            "kind": each.kind or "",
            "summary": truncate_line(each.summary or "", _LISTED_LENGTH),
        }
        for each in requests
    ]
    choices = ", ".join(f'{each["reply_handle"]} ("{each["summary"]}")' for each in found)
    return AmbiguousReply(count=len(found), choices=choices, open=found)
