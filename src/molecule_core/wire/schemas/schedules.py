"""Schedules, as clients see them. Times are RFC 3339; those of runs have the offset of the schedule's time zone."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from molecule_core.wire.schemas.delegation_scope import DelegationScope

ActionName = Literal["message", "delegate"]
MissesName = Literal["skip", "once"]
OverlapName = Literal["skip", "queue"]
ScheduleState = Literal["active", "paused", "ended"]


class ScheduleBody(Struct, forbid_unknown_fields=True, kw_only=True):
    """A schedule: one of `cron` and `once`, and what it does.

    `source_id`: the workspace that it acts for; null: the person who saves it, who can send messages only. `misses`: a
    run that no server was up for. `overlap`: a run that is due while the one before is not done. `accept`, `rounds`,
    `may` and `deadline_seconds` belong to a delegation."""

    name: str
    target_id: str
    source_id: str | None = None
    cron: str | None = None
    time_zone: str = "UTC"
    once: str | None = None
    action: ActionName = "message"
    text: str
    accept: list[dict[str, Any]] | None = None
    rounds: int | None = None
    may: DelegationScope | None = None
    deadline_seconds: Annotated[int, Meta(ge=1, lt=1 << 31)] | None = None
    misses: MissesName = "skip"
    overlap: OverlapName = "skip"
    paused: bool = False


class PauseScheduleBody(Struct, forbid_unknown_fields=True):
    """Whether a schedule is paused."""

    paused: bool


class SchedulePreviewBody(Struct, forbid_unknown_fields=True):
    """When a schedule would run."""

    cron: str | None = None
    time_zone: str = "UTC"
    once: str | None = None
    count: Annotated[int, Meta(ge=1, le=50)] = 5


class ScheduleTimes(Struct, frozen=True):
    """Planned times, soonest first."""

    next_runs: list[str]


class ScheduleRunView(Struct, frozen=True):
    """A run. `outcome`: sent, delegated, queued, skipped, missed or failed; `reason`: why it was not started.

    `work_id`: the message or delegation. `missed`: planned times before it for which no server was up."""

    planned_at: str
    ran_at: str
    outcome: str
    reason: str
    work_id: str | None
    missed: int


class ScheduleView(Struct, frozen=True, kw_only=True):
    """A schedule, its next runs and its last one.

    `state`: `ended`: its only run is over. `pause_reason`: why the server paused it; empty if a person did."""

    schedule_id: str
    name: str
    source_id: str | None
    target_id: str
    cron: str | None
    time_zone: str
    once: str | None
    action: ActionName
    text: str
    accept: list[dict[str, Any]] | None
    rounds: int | None
    may: DelegationScope | None
    deadline_seconds: int | None
    misses: MissesName
    overlap: OverlapName
    state: ScheduleState
    pause_reason: str
    next_runs: list[str]
    last_run: ScheduleRunView | None
    author: str
    created_at: str
    updated_at: str


class ScheduleList(Struct, frozen=True):
    """The schedules of an organisation, by name."""

    schedules: list[ScheduleView]


class ScheduleRunPage(Struct, frozen=True):
    """Runs of a schedule, newest first. `before`: the value for the next page, or null."""

    runs: list[ScheduleRunView]
    before: str | None


class ScheduleChangedPayload(Struct, frozen=True):
    """A schedule was created, changed, paused or resumed. `reason`: why the server paused it."""

    schedule_id: str
    name: str
    state: ScheduleState
    reason: str = ""


class ScheduleDeletedPayload(Struct, frozen=True):
    """A schedule was deleted."""

    schedule_id: str
    name: str


class ScheduleRanPayload(Struct, frozen=True):
    """A planned time of a schedule came. `run`: what was done."""

    schedule_id: str
    name: str
    run: ScheduleRunView
