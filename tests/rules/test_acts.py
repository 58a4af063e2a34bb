"""What a person's pause, resume and hibernate make of each status: the whole table, and what holds for every story."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.org.model import Act, Heard, Pulse, Status
from molecule_core.org.rules import AFTER_ACT, next_status, status_of_resumed, status_of_seated, why_not
from tests.requirements import requirement
from tests.rules.effort import examples
from tests.rules.forests import seat

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
    for status in Status:
        cells = []
        for act, width in zip(Act, (8, 9, 0), strict=True):
            after = AFTER_ACT[status, act]
            cell = "-" if after is None else "." if after is status else after.value
            cells.append(f"{cell:<{width}}")
        lines.append(f"{status:<17}" + "".join(cells).rstrip())
    return "\n" + "\n".join(lines) + "\n"


@requirement("M2")
def test_the_table_is_total_and_is_what_the_product_decides() -> None:
    assert AFTER_ACT.keys() == {(status, act) for status in Status for act in Act}
    assert printed() == TABLE


@pytest.mark.parametrize("act", Act)
@pytest.mark.parametrize("status", Status)
def test_what_is_refused_comes_with_words_and_nothing_else_does(status: Status, act: Act) -> None:
    assert bool(why_not(status, act)) == (AFTER_ACT[status, act] is None)


@requirement("M2")
@examples(200)
@given(st.sampled_from(list(Status)), st.lists(st.one_of(st.sampled_from(list(Act)), st.sampled_from(list(Heard)))))
def test_only_resuming_ends_a_pause_whatever_its_agent_says(status: Status, story: list[Act | Heard]) -> None:
    for what in story:
        before = status
        if isinstance(what, Act):
            status = AFTER_ACT[status, what] or status
        else:
            status = next_status(seat("w", status=status), what)
        if before is Status.PAUSED and what is not Act.RESUME:
            assert status is Status.PAUSED
        assert (status is Status.REMOVED) == (before is Status.REMOVED)


@given(st.sampled_from([Status.PAUSED, Status.HIBERNATED]), st.booleans(), st.booleans(), st.floats(0, 1))
def test_who_is_resumed_stands_as_the_last_heartbeat_says(
    status: Status, external: bool, silent: bool, rate: float
) -> None:
    resumed = status_of_resumed(seat("w", status=status, external=external), Pulse(5, error_rate=rate), silent=silent)
    if silent:
        assert resumed is (Status.AWAITING_AGENT if external else Status.OFFLINE)
    else:
        assert resumed is (Status.DEGRADED if rate >= 0.5 else Status.ONLINE)


def test_who_never_had_an_agent_awaits_one_after_a_pause() -> None:
    assert status_of_resumed(seat("w", status=Status.PAUSED), Pulse(0), silent=True) is Status.AWAITING_AGENT


@pytest.mark.parametrize("status", Status)
def test_taking_a_seat_wakes_who_hibernates_and_never_who_is_paused(status: Status) -> None:
    after = status_of_seated(seat("w", status=status))
    assert after is (status if status in (Status.PAUSED, Status.REMOVED, Status.ONLINE) else Status.ONLINE)
