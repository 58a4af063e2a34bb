"""What a person's pause, resume and hibernate make of each status: the whole table, and what holds for every story."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.org.model import AgentSignal, Heartbeat, LifecycleAction, WorkspaceStatus
from molecule_core.org.rules import (
    LIFECYCLE_TRANSITIONS,
    lifecycle_error,
    next_status,
    status_after_register,
    status_after_resume,
)
from testing.org_trees import seat
from testing.step_counts import examples
from tests.requirements import requirement

# Rows: the status now. Columns: the act. A dot: nothing changes. A dash: refused, with words.
TABLE = """
                 pause   resume   hibernate
provisioning     paused  .        -
online           paused  .        hibernated
offline          paused  .        hibernated
degraded         paused  .        hibernated
paused           .       offline  -
hibernated       paused  offline  .
awaiting_agent   paused  .        hibernated
failed           paused  .        -
removed          -       -        -
"""


def printed() -> str:
    """The table as the product decides, in the same words."""
    lines = [" " * 17 + f"{'pause':<8}{'resume':<9}hibernate"]
    for status in WorkspaceStatus:
        cells = []
        for act, width in zip(LifecycleAction, (8, 9, 0), strict=True):
            after = LIFECYCLE_TRANSITIONS[status, act]
            cell = "-" if after is None else "." if after is status else after.value
            cells.append(f"{cell:<{width}}")
        lines.append(f"{status:<17}" + "".join(cells).rstrip())
    return "\n" + "\n".join(lines) + "\n"


@requirement("M2")
def test_the_table_is_total_and_is_what_the_product_decides() -> None:
    assert LIFECYCLE_TRANSITIONS.keys() == {(status, act) for status in WorkspaceStatus for act in LifecycleAction}
    assert printed() == TABLE


@pytest.mark.parametrize("act", LifecycleAction)
@pytest.mark.parametrize("status", WorkspaceStatus)
def test_what_is_refused_comes_with_words_and_nothing_else_does(status: WorkspaceStatus, act: LifecycleAction) -> None:
    assert bool(lifecycle_error(status, act)) == (LIFECYCLE_TRANSITIONS[status, act] is None)


@requirement("M2")
@examples(200)
@given(
    st.sampled_from(list(WorkspaceStatus)),
    st.lists(st.one_of(st.sampled_from(list(LifecycleAction)), st.sampled_from(list(AgentSignal)))),
)
def test_only_resuming_ends_a_pause_whatever_its_agent_says(
    status: WorkspaceStatus, story: list[LifecycleAction | AgentSignal]
) -> None:
    for what in story:
        before = status
        if isinstance(what, LifecycleAction):
            status = LIFECYCLE_TRANSITIONS[status, what] or status
        else:
            status = next_status(seat("w", status=status), what)
        if before is WorkspaceStatus.PAUSED and what is not LifecycleAction.RESUME:
            assert status is WorkspaceStatus.PAUSED
        assert (status is WorkspaceStatus.REMOVED) == (before is WorkspaceStatus.REMOVED)


@given(
    st.sampled_from([WorkspaceStatus.PAUSED, WorkspaceStatus.HIBERNATED]), st.booleans(), st.booleans(), st.floats(0, 1)
)
def test_who_is_resumed_stands_as_the_last_heartbeat_says(
    status: WorkspaceStatus, external: bool, silent: bool, rate: float
) -> None:
    resumed = status_after_resume(
        seat("w", status=status, external=external), Heartbeat(5, error_rate=rate), silent=silent
    )
    if silent:
        assert resumed is (WorkspaceStatus.AWAITING_AGENT if external else WorkspaceStatus.OFFLINE)
    else:
        assert resumed is (WorkspaceStatus.DEGRADED if rate >= 0.5 else WorkspaceStatus.ONLINE)


def test_who_never_had_an_agent_awaits_one_after_a_pause() -> None:
    assert (
        status_after_resume(seat("w", status=WorkspaceStatus.PAUSED), Heartbeat(0), silent=True)
        is WorkspaceStatus.AWAITING_AGENT
    )


@pytest.mark.parametrize("status", WorkspaceStatus)
def test_taking_a_seat_wakes_who_hibernates_and_never_who_is_paused(status: WorkspaceStatus) -> None:
    after = status_after_register(seat("w", status=status))
    assert after is (
        status
        if status in (WorkspaceStatus.PAUSED, WorkspaceStatus.REMOVED, WorkspaceStatus.ONLINE)
        else WorkspaceStatus.ONLINE
    )
