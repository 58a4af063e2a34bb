"""Models of schedules. Times are microseconds."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from molecule_core.wire.schemas.delegation_scope import DelegationScope
from molecule_core.wire.schemas.schedules import ActionName

SCHEDULE = "schedule"
"""The kind of a schedule's timer, and of its journal entity. The timer's key is `organisation/schedule`."""


class MissPolicy(StrEnum):
    """What is done about planned times for which no server was up."""

    SKIP = "skip"
    ONCE = "once"


class OverlapPolicy(StrEnum):
    """What is done about a run that is due while the one before is not done."""

    SKIP = "skip"
    QUEUE = "queue"


class RunOutcome(StrEnum):
    """What came of a planned time."""

    SENT = "sent"
    DELEGATED = "delegated"
    QUEUED = "queued"
    """It starts when the run before it is done."""
    SKIPPED = "skipped"
    """It was due while the run before it was not done, or while the workspace that it acts for was paused."""
    MISSED = "missed"
    """No server was up."""
    FAILED = "failed"


class ScheduledWork(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a schedule does: the text of a message, or a task with the terms of a delegation."""

    action: ActionName
    text: str
    accept: list[dict[str, Any]] | None = None
    rounds: int | None = None
    may: DelegationScope | None = None
    deadline_seconds: int | None = None


class Schedule(Struct, frozen=True, kw_only=True):
    """A row of `schedules`, in column order.

    `source_id`: the workspace that it acts for; None: its author, a person. `work`: `ScheduledWork` as JSON. `next_at`:
    the next planned time; None: there is none. `pause_reason`: why the server paused it."""

    id: str
    org_id: str
    name: str
    source_id: str | None
    target_id: str
    author: str
    author_id: str | None
    author_name: str | None
    cron: str | None
    time_zone: str
    once_at: int | None
    work: str
    misses: MissPolicy
    overlap: OverlapPolicy
    paused: int
    pause_reason: str
    next_at: int | None
    rev: int
    created_at: int
    updated_at: int
    updated_by: str

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Schedule":
        """Build a schedule from a row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["misses"], columns["overlap"] = MissPolicy(columns["misses"]), OverlapPolicy(columns["overlap"])
        return cls(**columns)

    @property
    def key(self) -> str:
        """Return the key of its timer."""
        return f"{self.org_id}/{self.id}"

    def decode_work(self) -> ScheduledWork:
        """Return what it does."""
        return msgspec.json.decode(self.work, type=ScheduledWork)


class ScheduleAuthor(Struct, frozen=True):
    """The person or admin who saves a schedule."""

    key: str
    person_id: str | None
    name: str | None


class ScheduleDraft(Struct, frozen=True, kw_only=True):
    """A schedule as it is to be saved, checked."""

    name: str
    source_id: str | None
    target_id: str
    cron: str | None
    time_zone: str
    once_at: int | None
    work: ScheduledWork
    misses: MissPolicy
    overlap: OverlapPolicy
    paused: bool


class ScheduleRun(Struct, frozen=True, kw_only=True):
    """A row of `schedule_runs`, in column order: one planned time, and what was done."""

    schedule_id: str
    planned_at: int
    org_id: str
    ran_at: int
    outcome: RunOutcome
    reason: str = ""
    work_id: str | None = None
    missed: int = 0

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "ScheduleRun":
        """Build a run from a row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["outcome"] = RunOutcome(columns["outcome"])
        return cls(**columns)


class DuePlan(Struct, frozen=True):
    """What a due schedule does now. `run_at`: the planned time that runs, or None.

    `missed`: how many planned times were missed, the last one at `missed_at`; `next_at`: the planned time after that.
    """

    run_at: int | None
    missed: int
    missed_at: int | None
    next_at: int | None
