"""Obligations: what a workspace owes for a message that wants an answer, and the reads and statements about it.

Above: `owing`, which says when one begins and ends, and the hands of this slice. Below: handles, ticks, rules.
docs/obligations.md.
"""

from collections.abc import Generator, Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from molecule_core.ground.clock import SECOND
from molecule_core.ground.limits import Limits
from molecule_core.messages.handles import handle_of
from molecule_core.messages.model import OUTSIDE, OVERDUE, Shown
from molecule_core.messages.ticks import Statement
from molecule_core.org.model import Workspace
from molecule_core.store.database import Event, Read, Several, Step, T, WriteSet
from molecule_core.wire.events import MessageDrafted

SILENCE = "silence"
"""The kind of the timer that watches what a workspace owes; its key is the workspace."""
FORGOTTEN = "forgotten"
"""The tick of a message that waited for an answer in vain, and is too old to be kept."""
NO_REMINDER = 0
"""Instead of the time of a reminder: the first due time has passed, and none was possible."""


class Asked(Struct, frozen=True):
    """A message of an inbox as an answer needs to know it, in the order of the query. `source_id` None: a person's."""

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
        """What names it in an answer."""
        thread = (self.context_id, self.id, self.seq)
        return handle_of(self.org_id, self.source_id or "", self.workspace_id, *thread)


class Obligation(Struct, frozen=True):
    """One row of the table with what its message says, in the order the queries select it. Times in microseconds."""

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
        """Whether nobody has answered or declined."""
        return self.state == "open"

    @property
    def handle(self) -> str:
        """What names its message in an answer."""
        thread = (self.context_id, self.activity_id, self.seq)
        return handle_of(self.org_id, self.source_id or "", self.workspace_id, *thread)

    @property
    def reminded(self) -> bool:
        """Whether its agent was reminded and still has time."""
        return self.is_open and bool(self.reminded_at) and self.overdue_at is None

    @property
    def standing(self) -> str:
        """How it stands, in one word."""
        return standing_of(self.state, self.overdue_at, self.outside_at)

    @property
    def told_with(self) -> str | None:
        """The template and version of the instructions that its message came with."""
        return template_name(self.template, self.version)


def standing_of(state: str, overdue_at: int | None, outside_at: int | None) -> str:
    """How an obligation stands, in one word: answered, declined, overdue, answered_outside or open."""
    if state != "open":
        return state
    if overdue_at is not None:
        return OVERDUE
    return OUTSIDE if outside_at is not None else "open"


def template_name(template: str | None, version: int | None) -> str | None:
    """A template and its version as they are shown."""
    return None if template is None else f"{template}@{version}"


def reminded(workspace_id: str, rows: Iterable[Shown]) -> Generator[Step, Any, frozenset[str]]:
    """Which of these rows are handed over once more because nobody has answered."""
    again = [row for row in rows if (row.attempt or 1) > 1]
    if not again:
        return frozenset()
    found = yield Several([Read("obligation", {"workspace_id": workspace_id, "seq": row.seq}) for row in again])
    return frozenset(row.id for row, owed in zip(again, found, strict=True) if owed and Obligation(*owed[0]).reminded)


def due_at(seat: Workspace, limits: Limits, now: int) -> int | None:
    """When the answer to a message is due that is handed over now; None: nobody watches."""
    seconds = limits.reply_seconds if seat.reply_seconds is None else seat.reply_seconds
    return now + seconds * SECOND if seconds else None


# -- closing -----------------------------------------------------------------------------------------------------------


def owes_key(workspace_id: str, source_id: str | None) -> tuple[str, str, str]:
    """The key of a command that may change what a workspace owes to another one or to its user (None)."""
    return "owes", workspace_id, source_id or ""


def asked_by(workspace_id: str, seq: int) -> Generator[Step, Any, Asked | None]:
    """The message at a place of an inbox."""
    rows = yield Read("asked", {"workspace_id": workspace_id, "seq": seq})
    return Asked(*rows[0]) if rows else None


def obligation_at(workspace_id: str, seq: int) -> Generator[Step, Any, Obligation | None]:
    """What is owed for the message at a place of a log, or was."""
    rows = yield Read("obligation", {"workspace_id": workspace_id, "seq": seq})
    return Obligation(*rows[0]) if rows else None


def unopened(asked: Asked, now: int) -> Obligation:
    """What is owed for a message that is handed over at this moment."""
    return Obligation(
        workspace_id=asked.workspace_id,
        seq=asked.seq,
        activity_id=asked.id,
        org_id=asked.org_id,
        source_id=asked.source_id,
        state="open",
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
        inbound_no=asked.inbound_no,
        context_id=asked.context_id,
        summary=None,
        kind=asked.kind,
    )


class Facts(NamedTuple):
    """What one change writes and tells, and whom it wakes; `risen`: what others hear of it (store/followers.py)."""

    writes: list[Statement]
    events: list[Event]
    rings: tuple[str, ...] = ()
    risen: tuple[object, ...] = ()


class Answers(Struct, frozen=True):
    """What a workspace's message answers. `named`: the message that it says so of; `owed`: what it closes, if anything
    is open; with `progress` it closes nothing, and only says that somebody is at work on it. `opens`: what is written
    before, of a message that is handed over by being answered."""

    named: str | None = None
    owed: Obligation | None = None
    progress: bool = False
    by_handle: bool = False
    opens: Facts = Facts([], [])


def named_in(workspace_id: str, source_id: str | None, named: str) -> Generator[Step, Any, Asked | None]:
    """The message of an inbox that an answer names, if it came from there (None: a person)."""
    places = yield Read("place_of_activity", {"id": named, "workspace_id": workspace_id})
    asked = (yield from asked_by(workspace_id, places[0][0])) if places else None
    return asked if asked is not None and asked.source_id == source_id else None


def owed_to(
    workspace_id: str, source_id: str | None, named: str | None = None
) -> Generator[Step, Any, Obligation | None]:
    """What is open in a conversation: the named message, if it is one of it; else the newest."""
    row: dict[str, object] = {"workspace_id": workspace_id, "named": named}
    if source_id is None:
        rows = yield Read("owed_to_user", row)
    else:
        rows = yield Read("owed_to_peer", {**row, "source_id": source_id})
    found = Obligation(*rows[0]) if rows else None
    return found if found is not None and found.is_open else None


def joined(written: WriteSet[T], more: Facts) -> WriteSet[T]:
    """A write set with another change in the same transaction."""
    written.writes += more.writes
    written.events += more.events
    written.rings += more.rings
    written.facts += more.risen
    return written


def put_off(owed: Obligation, due_at: int | None, reminded_at: int | None) -> Statement:
    """An answer is due later than it was."""
    row = {"workspace_id": owed.workspace_id, "seq": owed.seq}
    return "put_off_obligation", {**row, "due_at": due_at, "reminded_at": reminded_at}


def progressed(owed: Obligation, due_at: int | None) -> list[Statement]:
    """An agent says that it is at work on it: the answer is due later. What is overdue stays so until it comes."""
    return [] if owed.due_at is None or due_at is None else [put_off(owed, due_at, owed.reminded_at)]


def dropped(owed: Obligation) -> Facts:
    """A person does not want it sent."""
    row = {"workspace_id": owed.workspace_id, "seq": owed.seq}
    return Facts([("drop_draft", row)], [drafted(owed, "discarded")])


def drafted(owed: Obligation, state: str) -> Event:
    """What became of a draft: kept, sent or discarded."""
    return event_of("MESSAGE_DRAFTED", owed, MessageDrafted(owed.activity_id, owed.seq, state))


def missed(workspace_id: str) -> Statement:
    """An agent that leaves messages without an answer is told in full again."""
    return "miss_seat", {"workspace_id": workspace_id}


def not_taken(workspace_id: str, seq: int) -> list[Statement]:
    """A message was handed over in vain: no answer is due before it is handed over again, and what was told with it may
    not be known."""
    return [("unwatch_obligation", {"workspace_id": workspace_id, "seq": seq}), missed(workspace_id)]


def given_up(workspace_id: str, seq: int) -> list[Statement]:
    """A message is a dead letter, which tells enough: nobody has had it who could answer. What was said in answer
    outside is kept, but nobody is reminded of it, unless it is asked for and handed over again."""
    row = {"workspace_id": workspace_id, "seq": seq}
    return [("forget_owed", row), ("rest_obligation", row)]


def event_of(name: str, owed: Obligation, payload: Struct) -> Event:
    """An event about the message that an answer is owed for."""
    return Event(name, owed.workspace_id, "message", owed.activity_id, 0, msgspec.json.encode(payload))
