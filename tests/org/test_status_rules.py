"""The whole table of a workspace's status: what a heartbeat, or its absence, makes of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.org.model import AgentSignal, Heartbeat, WorkspaceStatus
from molecule_core.org.rules import SIGNAL_TRANSITIONS, classify_heartbeat, next_status
from testing.org_trees import seat
from testing.step_counts import examples
from tests.requirements import requirement

# Rows: the status now. Columns: what is heard; silence also for an external agent. A dot: nothing changes.
TABLE = """
                 well    fair    failing   silent   silent+external
provisioning     online  online  degraded  .        .
online           .       .       degraded  offline  awaiting_agent
offline          online  online  degraded  .        .
degraded         online  .       .         offline  awaiting_agent
paused           .       .       .         .        .
hibernated       .       .       .         .        .
awaiting_agent   online  online  degraded  .        .
failed           online  online  degraded  .        .
removed          .       .       .         .        .
"""


def _cells() -> dict[tuple[str, str], str]:
    head, *rows = (line.split() for line in TABLE.strip().splitlines())
    return {
        (row[0], what): row[0] if cell == "." else cell
        for row in rows
        for what, cell in zip(head, row[1:], strict=True)
    }


def _printed() -> str:
    """The table as the product decides, in the same words."""
    head = [*AgentSignal, "silent+external"]
    lines = [" " * 17 + "".join(f"{what:<9}" for what in head).rstrip()]
    for status in WorkspaceStatus:
        cells = []
        for what in head:
            external = what == "silent+external"
            now = seat("w", status=status, external=external)
            after = next_status(now, AgentSignal.SILENT if external else AgentSignal(what))
            cells.append("." if after is status else after.value)
        lines.append(f"{status:<17}" + "".join(f"{cell:<9}" for cell in cells).rstrip())
    return "\n".join(lines)


def test_the_table_has_a_cell_for_every_status_and_everything_heard() -> None:
    assert {row for row, _ in _cells()} == {status.value for status in WorkspaceStatus}
    assert {column for _, column in _cells()} == {*(what.value for what in AgentSignal), "silent+external"}


@requirement("M2")
@pytest.mark.parametrize(("cell", "after"), _cells().items())
def test_each_cell_of_the_table_is_what_the_product_decides(cell: tuple[str, str], after: str) -> None:
    status, what = cell
    external = what.endswith("+external")
    now = seat("w", status=WorkspaceStatus(status), external=external)
    decided = next_status(now, AgentSignal(what.removesuffix("+external")))
    assert decided is WorkspaceStatus(after), _printed()


@pytest.mark.parametrize("what", [AgentSignal.HEALTHY, AgentSignal.FAIR, AgentSignal.FAILING])
@pytest.mark.parametrize("status", WorkspaceStatus)
def test_an_external_agent_that_is_heard_is_treated_like_any_other(status: WorkspaceStatus, what: AgentSignal) -> None:
    own, external = seat("w", status=status), seat("w", status=status, external=True)
    assert next_status(own, what) is next_status(external, what)


def test_the_table_in_the_code_lists_changes_only_and_never_of_those_that_were_put_aside() -> None:
    assert all(before is not after for (before, _), after in SIGNAL_TRANSITIONS.items())
    assert not {before for before, _ in SIGNAL_TRANSITIONS} & {
        WorkspaceStatus.PAUSED,
        WorkspaceStatus.HIBERNATED,
        WorkspaceStatus.REMOVED,
    }
    assert set(SIGNAL_TRANSITIONS.values()) == {
        WorkspaceStatus.ONLINE,
        WorkspaceStatus.DEGRADED,
        WorkspaceStatus.OFFLINE,
    }


@examples(100)
@given(st.sampled_from(list(WorkspaceStatus)), st.booleans(), st.lists(st.sampled_from(list(AgentSignal)), max_size=8))
def test_no_run_of_heartbeats_moves_what_was_put_aside_nor_puts_anything_aside(
    status: WorkspaceStatus, external: bool, story: list[AgentSignal]
) -> None:
    aside = {WorkspaceStatus.PAUSED, WorkspaceStatus.HIBERNATED, WorkspaceStatus.REMOVED}
    now = status
    for what in story:
        now = next_status(seat("w", status=now, external=external), what)
        assert (now in aside) == (status in aside)
    if status in aside:
        assert now is status


@given(st.sampled_from(list(WorkspaceStatus)), st.booleans(), st.sampled_from(list(AgentSignal)))
def test_hearing_the_same_twice_changes_nothing_more(
    status: WorkspaceStatus, external: bool, what: AgentSignal
) -> None:
    once = next_status(seat("w", status=status, external=external), what)
    assert next_status(seat("w", status=once, external=external), what) is once


@requirement("M2")
@pytest.mark.parametrize(
    ("error_rate", "wedged", "what"),
    [
        (0.0, False, AgentSignal.HEALTHY),
        (0.0999, False, AgentSignal.HEALTHY),
        (0.1, False, AgentSignal.FAIR),
        (0.4999, False, AgentSignal.FAIR),
        (0.5, False, AgentSignal.FAILING),
        (1.0, False, AgentSignal.FAILING),
        (0.0, True, AgentSignal.FAILING),
        (0.3, True, AgentSignal.FAILING),
    ],
)
def test_a_heartbeat_says_how_an_agent_is(error_rate: float, wedged: bool, what: AgentSignal) -> None:
    assert classify_heartbeat(Heartbeat(heard_at=1, error_rate=error_rate), wedged=wedged) is what
