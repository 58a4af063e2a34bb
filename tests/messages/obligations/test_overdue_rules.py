"""What happens to an obligation whose time has come, as a table; and when an agent is seen to be at work."""

import pytest
from msgspec.structs import replace

from molecule_core.common.clock import SECOND
from molecule_core.common.limits import Limits
from molecule_core.messages.model import InboxClaim
from molecule_core.messages.obligations.model import (
    NO_REMINDER,
    InboundMessage,
    new_obligation,
    obligation_state,
    reply_due_at,
)
from molecule_core.messages.overdue_watchdog import NextStep, is_at_work, next_step
from molecule_core.messages.rules import stale_cutoff
from molecule_core.org.model import NO_HEARTBEAT, Heartbeat, NewWorkspace, WorkspaceStatus
from molecule_core.org.transitions import build_workspace
from tests.requirements import requirement

LIMITS = Limits()
NOW = 1_000_000 * SECOND
SEAT = replace(build_workspace(NewWorkspace(name="Ops"), "o", "w", "Ops", NOW, None), status=WorkspaceStatus.ONLINE)
OWED = new_obligation(InboundMessage("a", "o", "w", None, None, 1, 1, "request", "canvas_user"), NOW - 120 * SECOND)


@requirement("M28")
@pytest.mark.parametrize(
    ("reminded_at", "at_work", "may_remind", "expected"),
    [
        (None, False, True, NextStep.REMIND),
        (None, False, False, NextStep.WAIT),
        (None, True, True, NextStep.EXTEND),
        (None, True, False, NextStep.EXTEND),
        (NO_REMINDER, False, True, NextStep.OVERDUE),
        (NO_REMINDER, False, False, NextStep.OVERDUE),
        (NO_REMINDER, True, True, NextStep.EXTEND),
        (NOW - 1, False, True, NextStep.OVERDUE),
        (NOW - 1, False, False, NextStep.OVERDUE),
        (NOW - 1, True, False, NextStep.EXTEND),
    ],
)
def test_what_comes_next_is_as_the_table_says(
    reminded_at: int | None, at_work: bool, may_remind: bool, expected: NextStep
) -> None:
    owed = replace(OWED, reminded_at=reminded_at)
    assert next_step(owed, is_working=at_work, can_remind=may_remind) is expected


def pulse(age_seconds: int, **said: object) -> Heartbeat:
    """What an agent said so long ago."""
    return replace(NO_HEARTBEAT, heard_at=NOW - age_seconds * SECOND, **said)


@requirement("M28")
@pytest.mark.parametrize(
    ("heard", "age", "expected"),
    [
        (NO_HEARTBEAT, 120, False),
        (pulse(1), 120, False),
        (pulse(1, current_task="sorting"), 120, True),
        (pulse(1, active_tasks=2), 120, True),
        (pulse(LIMITS.silence_seconds, active_tasks=2), 120, False),
        (pulse(1, active_tasks=2), LIMITS.reply_work_seconds - 1, True),
        (pulse(1, active_tasks=2), LIMITS.reply_work_seconds, False),
    ],
)
def test_who_is_seen_to_work(heard: Heartbeat, age: int, expected: bool) -> None:
    owed = replace(OWED, handed_at=NOW - age * SECOND)
    assert is_at_work(owed, None, SEAT, heard, NOW, LIMITS) is expected


@requirement("M28")
@pytest.mark.parametrize(
    ("mode", "lease", "acked_at", "expected"),
    [("push", 5, None, True), ("push", 0, None, False), ("push", 5, NOW, False), ("poll", 5, None, False)],
)
def test_a_push_that_is_under_way_is_work(mode: str, lease: int, acked_at: int | None, expected: bool) -> None:
    held = InboxClaim(1, 1, NOW + lease * SECOND, acked_at)
    seat = replace(SEAT, delivery_mode=mode)
    assert is_at_work(OWED, held, seat, NO_HEARTBEAT, NOW, LIMITS) is expected


@requirement("M28")
def test_who_is_paused_has_no_time_to_answer_in() -> None:
    assert is_at_work(OWED, None, replace(SEAT, status=WorkspaceStatus.PAUSED), NO_HEARTBEAT, NOW, LIMITS)


@requirement("M28", "O2")
@pytest.mark.parametrize(("own", "expected"), [(None, LIMITS.reply_seconds), (5, 5), (0, None)])
def test_an_answer_is_due_after_the_workspaces_own_time_or_the_usual_one(own: int | None, expected: int | None) -> None:
    found = reply_due_at(replace(SEAT, reply_seconds=own), LIMITS, NOW)
    assert found == (None if expected is None else NOW + expected * SECOND)


@requirement("M26")
@pytest.mark.parametrize(
    ("state", "overdue_at", "outside_at", "expected"),
    [
        ("open", None, None, "open"),
        ("open", None, 1, "answered_outside"),
        ("open", 1, None, "overdue"),
        ("open", 1, 1, "overdue"),
        ("answered", 1, 1, "answered"),
        ("declined", 1, None, "declined"),
    ],
)
def test_how_an_obligation_stands_is_one_word(
    state: str, overdue_at: int | None, outside_at: int | None, expected: str
) -> None:
    assert obligation_state(state, overdue_at, outside_at) == expected


@requirement("P4")
@pytest.mark.parametrize(
    ("status", "heard", "limits", "seconds"),
    [
        (WorkspaceStatus.ONLINE, NO_HEARTBEAT, LIMITS, LIMITS.untaken_seconds),
        (WorkspaceStatus.ONLINE, pulse(1), LIMITS, LIMITS.untaken_seconds),
        (WorkspaceStatus.ONLINE, pulse(1, active_tasks=1), LIMITS, LIMITS.reply_work_seconds),
        (WorkspaceStatus.ONLINE, pulse(1, current_task="sorting"), LIMITS, LIMITS.reply_work_seconds),
        (WorkspaceStatus.ONLINE, pulse(LIMITS.silence_seconds, active_tasks=1), LIMITS, LIMITS.untaken_seconds),
        (WorkspaceStatus.PAUSED, pulse(1, active_tasks=1), LIMITS, LIMITS.untaken_seconds),
        (WorkspaceStatus.ONLINE, pulse(1, active_tasks=1), Limits(untaken_seconds=9_000), 9_000),
    ],
)
def test_mail_may_wait_longer_only_for_an_agent_that_is_at_work(
    status: WorkspaceStatus, heard: Heartbeat, limits: Limits, seconds: int
) -> None:
    assert stale_cutoff(replace(SEAT, status=status), heard, NOW, limits) == NOW - seconds * SECOND
