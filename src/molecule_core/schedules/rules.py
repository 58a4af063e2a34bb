"""Rules of schedules: what may be saved, planned times, misses, states. Pure functions."""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from molecule_core.common.clock import SECOND
from molecule_core.common.errors import CommunicationDenied, InvalidField, NotFound
from molecule_core.common.limits import Limits
from molecule_core.common.text import validate_name
from molecule_core.delegations.acceptance_rules import parse_terms
from molecule_core.delegations.errors import SelfDelegation
from molecule_core.org.model import Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.org.rules import may_talk
from molecule_core.schedules.cron import check_expression, load_zone, planned_times, shortest_interval
from molecule_core.schedules.model import (
    DuePlan,
    MissPolicy,
    OverlapPolicy,
    RunOutcome,
    Schedule,
    ScheduleDraft,
    ScheduledWork,
    ScheduleRun,
)
from molecule_core.wire.schemas.schedules import ScheduleBody, ScheduleState

# A server that was down for years counts no further; the row says "at least".
MAX_COUNTED_MISSES = 1000
STARTED = (RunOutcome.SENT, RunOutcome.DELEGATED)


def times_after(cron: str | None, time_zone: str, once_at: int | None, after: int) -> Iterator[int]:
    """Yield the planned times after a time."""
    if cron is not None:
        yield from planned_times(cron, load_zone(time_zone), after)
    elif once_at is not None and once_at > after:
        yield once_at


def next_time(schedule: Schedule, after: int) -> int | None:
    """Return the next planned time after a time, or None."""
    return next(times_after(schedule.cron, schedule.time_zone, schedule.once_at, after), None)


def state_of(schedule: Schedule) -> ScheduleState:
    """Return the state that clients see."""
    if schedule.paused:
        return "paused"
    return "ended" if schedule.next_at is None else "active"


def plan_due(schedule: Schedule, now: int, grace_seconds: int) -> DuePlan:
    """Decide about the planned times of a schedule that is due (`next_at` has passed).

    A time that is at most `grace_seconds` old runs. Older ones are missed; with `once`, one run replaces all of them,
    unless the next time is due now anyway."""
    due_at, oldest = schedule.next_at, now - grace_seconds * SECOND
    if due_at is None or due_at > now:
        return DuePlan(None, 0, None, due_at)
    if due_at >= oldest:
        return DuePlan(due_at, 0, None, next_time(schedule, due_at))
    missed, last, later = 0, due_at, due_at
    times = times_after(schedule.cron, schedule.time_zone, schedule.once_at, due_at)
    coming: int | None = later
    while coming is not None and coming < oldest and missed < MAX_COUNTED_MISSES:
        missed, last, coming = missed + 1, coming, next(times, None)
    if coming is not None and coming < oldest:
        coming = next_time(schedule, oldest - 1)
    if schedule.misses is MissPolicy.SKIP or (coming is not None and coming <= now):
        return DuePlan(None, missed, last, coming)
    return DuePlan(last, missed - 1, None, coming)


def missed_reason(missed: int) -> str:
    """Return why planned times did not run."""
    at_least = "at least " if missed >= MAX_COUNTED_MISSES else ""
    times = "1 planned time was" if missed == 1 else f"{at_least}{missed} planned times were"
    return f"{times} missed while no server was running"


def overlap_run(schedule: Schedule, planned_at: int, queued: int, most_queued: int, now: int) -> ScheduleRun:
    """Return the run of a time that is due while the run before it is not done."""
    outcome, reason = RunOutcome.SKIPPED, "the run before it is not done"
    if schedule.overlap is OverlapPolicy.QUEUE and queued < most_queued:
        outcome = RunOutcome.QUEUED
    elif schedule.overlap is OverlapPolicy.QUEUE:
        reason = f"{most_queued} runs are queued already"
    return build_run(schedule, planned_at, now, outcome, reason)


def build_run(
    schedule: Schedule,
    planned_at: int,
    now: int,
    outcome: RunOutcome,
    reason: str,
    *,
    work_id: str | None = None,
    missed: int = 0,
) -> ScheduleRun:
    """Build the row of a planned time."""
    return ScheduleRun(
        schedule_id=schedule.id,
        planned_at=planned_at,
        org_id=schedule.org_id,
        ran_at=now,
        outcome=outcome,
        reason=reason,
        work_id=work_id,
        missed=missed,
    )


# -- what may be saved -------------------------------------------------------------------------------------------------


def parse_draft(
    body: ScheduleBody, org: OrgReader, org_id: str, now: int, limits: Limits, *, known_once: int | None = None
) -> ScheduleDraft:
    """Return a schedule as it is to be saved. `known_once`: its instant so far, which may have passed.

    Raises InvalidField, InvalidName, InvalidMessage, NotFound, WorkspaceRemoved, CommunicationDenied,
    SelfDelegation."""
    target = _find_workspace(org, org_id, body.target_id)
    source = None if body.source_id is None else _find_workspace(org, org_id, body.source_id)
    once_at = parse_times(body.cron, body.time_zone, body.once, now, limits, known_once=known_once)
    _check_text(body.text, limits)
    terms = (body.accept, body.rounds, body.may, body.deadline_seconds)
    if body.action == "message" and any(each is not None for each in terms):
        raise InvalidField(
            reason="accept, rounds, may and deadline_seconds belong to a delegation. Set action to delegate."
        )
    if body.action == "delegate" and source is None:
        raise InvalidField(reason="a delegation needs source_id, the workspace that delegates. Set it.")
    parse_terms(body.accept, body.rounds, limits)
    if source is not None and not may_talk(org, source, target):
        raise CommunicationDenied
    if body.action == "delegate" and source is target:
        raise SelfDelegation
    work = ScheduledWork(
        action=body.action,
        text=body.text,
        accept=body.accept,
        rounds=body.rounds,
        may=body.may,
        deadline_seconds=body.deadline_seconds,
    )
    return ScheduleDraft(
        name=validate_name(body.name, limits.name_length),
        source_id=None if source is None else source.id,
        target_id=target.id,
        cron=None if body.cron is None else " ".join(body.cron.split()),
        time_zone=body.time_zone,
        once_at=once_at,
        work=work,
        misses=MissPolicy(body.misses),
        overlap=OverlapPolicy(body.overlap),
        paused=body.paused,
    )


def parse_times(
    cron: str | None, time_zone: str, once: str | None, now: int, limits: Limits, *, known_once: int | None = None
) -> int | None:
    """Check when a schedule runs, and return its only instant, if it has one. Raises InvalidField."""
    zone = load_zone(time_zone)
    if (cron is None) == (once is None):
        raise InvalidField(reason="a schedule has either cron or once. Set one of them.")
    if cron is not None:
        check_expression(cron, zone, now)
        shortest = limits.schedule_interval_seconds
        if (found := shortest_interval(cron, now)) < shortest:
            raise InvalidField(
                reason=f"cron comes due every {found} seconds, and the shortest interval is {shortest} seconds. "
                "Use a longer one."
            )
        return None
    try:
        at: datetime = msgspec.convert(once, Annotated[datetime, Meta(tz=True)])
    except msgspec.ValidationError:
        raise InvalidField(reason="once is not a valid time. Use a form such as 2026-11-21T22:41:07Z.") from None
    once_at = int(at.timestamp()) * SECOND
    if once_at <= now and once_at != known_once:
        raise InvalidField(reason="once has passed. Use a time to come.")
    return once_at


def _find_workspace(org: OrgReader, org_id: str, workspace_id: str) -> Workspace:
    workspace = org.active_workspace(workspace_id)
    if workspace.org_id != org_id:
        raise NotFound(what="workspace")
    return workspace


def _check_text(text: str, limits: Limits) -> None:
    if not text.strip():
        raise InvalidField(reason="text cannot be empty. Write what is to be sent.")
    if len(text.encode()) > limits.text_bytes:
        raise InvalidField(reason=f"text is larger than the limit of {limits.text_bytes} bytes. Shorten it.")
