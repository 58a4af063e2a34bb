"""When a seat's token is refused for good, and who is told."""

import pytest

from molecule_core.agent.refusals import Refusals
from molecule_core.client.api import ApiError
from tests.clocks import FakeClock
from tests.requirements import requirement


@requirement("G6")
@pytest.mark.parametrize(
    ("taken", "is_fixed", "status", "minutes", "lost"),
    [
        (False, False, 401, 0, True),  # at the start nobody renews it
        (False, True, 403, 0, True),
        (True, True, 401, 0, True),  # it stands in the environment
        (True, False, 401, 1, False),  # somebody may be writing the file
        (True, False, 401, 6, True),
        (True, True, 403, 1, False),
        (True, True, 403, 6, True),
    ],
)
def test_a_token_is_lost_if_nobody_can_renew_it_or_nobody_has_for_long(
    taken: bool, is_fixed: bool, status: int, minutes: int, lost: bool, clock: FakeClock
) -> None:
    at_first, told = list[str](), list[str]()
    refusals = Refusals("w", clock=clock, is_fixed=is_fixed, refused=at_first.append, lost=told.append)
    if taken:
        refusals.taken()
    error = ApiError(status, {"error": "not its token"})
    refusals.refused(error)
    clock.at += minutes * 60_000_000
    if minutes:
        refusals.refused(error)
    assert (bool(told), bool(at_first)) == (lost, not taken)
    assert all("does not take the token" in each for each in told)
    refusals.taken()
    told.clear()
    if not is_fixed:
        refusals.refused(error)
        assert not told, "it begins anew"
