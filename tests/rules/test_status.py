"""The whole table of a workspace's status: what a heartbeat, or its absence, makes of each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.org.model import Heard, Pulse, Status
from molecule_core.org.rules import NEXT_STATUS, heard, next_status
from tests.requirements import requirement
from tests.rules.effort import examples
from tests.rules.forests import seat

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
    head = [*Heard, "silent+external"]
    lines = [" " * 17 + "".join(f"{what:<9}" for what in head).rstrip()]
    for status in Status:
        cells = []
        for what in head:
            external = what == "silent+external"
            now = seat("w", status=status, external=external)
            after = next_status(now, Heard.SILENT if external else Heard(what))
            cells.append("." if after is status else after.value)
        lines.append(f"{status:<17}" + "".join(f"{cell:<9}" for cell in cells).rstrip())
    return "\n".join(lines)


def test_the_table_has_a_cell_for_every_status_and_everything_heard() -> None:
    assert {row for row, _ in _cells()} == {status.value for status in Status}
    assert {column for _, column in _cells()} == {*(what.value for what in Heard), "silent+external"}


@requirement("M2")
@pytest.mark.parametrize(("cell", "after"), _cells().items())
def test_each_cell_of_the_table_is_what_the_product_decides(cell: tuple[str, str], after: str) -> None:
    status, what = cell
    external = what.endswith("+external")
    now = seat("w", status=Status(status), external=external)
    decided = next_status(now, Heard(what.removesuffix("+external")))
    assert decided is Status(after), _printed()


@pytest.mark.parametrize("what", [Heard.WELL, Heard.FAIR, Heard.FAILING])
@pytest.mark.parametrize("status", Status)
def test_an_external_agent_that_is_heard_is_treated_like_any_other(status: Status, what: Heard) -> None:
    own, external = seat("w", status=status), seat("w", status=status, external=True)
    assert next_status(own, what) is next_status(external, what)


def test_the_table_in_the_code_lists_changes_only_and_never_of_those_that_were_put_aside() -> None:
    assert all(before is not after for (before, _), after in NEXT_STATUS.items())
    assert not {before for before, _ in NEXT_STATUS} & {Status.PAUSED, Status.HIBERNATED, Status.REMOVED}
    assert set(NEXT_STATUS.values()) == {Status.ONLINE, Status.DEGRADED, Status.OFFLINE}


@examples(100)
@given(st.sampled_from(list(Status)), st.booleans(), st.lists(st.sampled_from(list(Heard)), max_size=8))
def test_no_run_of_heartbeats_moves_what_was_put_aside_nor_puts_anything_aside(
    status: Status, external: bool, story: list[Heard]
) -> None:
    aside = {Status.PAUSED, Status.HIBERNATED, Status.REMOVED}
    now = status
    for what in story:
        now = next_status(seat("w", status=now, external=external), what)
        assert (now in aside) == (status in aside)
    if status in aside:
        assert now is status


@given(st.sampled_from(list(Status)), st.booleans(), st.sampled_from(list(Heard)))
def test_hearing_the_same_twice_changes_nothing_more(status: Status, external: bool, what: Heard) -> None:
    once = next_status(seat("w", status=status, external=external), what)
    assert next_status(seat("w", status=once, external=external), what) is once


@requirement("M2")
@pytest.mark.parametrize(
    ("error_rate", "wedged", "what"),
    [
        (0.0, False, Heard.WELL),
        (0.0999, False, Heard.WELL),
        (0.1, False, Heard.FAIR),
        (0.4999, False, Heard.FAIR),
        (0.5, False, Heard.FAILING),
        (1.0, False, Heard.FAILING),
        (0.0, True, Heard.FAILING),
        (0.3, True, Heard.FAILING),
    ],
)
def test_a_heartbeat_says_how_an_agent_is(error_rate: float, wedged: bool, what: Heard) -> None:
    assert heard(Pulse(heard_at=1, error_rate=error_rate), wedged=wedged) is what
