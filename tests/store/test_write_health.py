"""A store whose disk refuses writes: what the log says, and when."""

import logging

import apsw
import pytest

from molecule_core.common.errors import StoreUnavailable
from molecule_core.store.write_health import WriteHealth
from tests.requirements import requirement


def failure() -> StoreUnavailable:
    """Make the error of a group on a full disk."""
    error = StoreUnavailable()
    error.__cause__ = apsw.FullError("database or disk is full")
    return error


@requirement("O1")
def test_the_first_failure_is_logged_then_one_a_minute_and_the_recovery(caplog: pytest.LogCaptureFixture) -> None:
    health = WriteHealth()
    with caplog.at_level(logging.INFO):
        for at in (0, 1, 59, 60, 61, 119.9, 120):
            health.record_failure(failure(), at)
            assert health.is_failing
        health.record_success(130)
        health.record_success(131)

    said = [record.getMessage() for record in caplog.records]
    assert not health.is_failing
    assert [line.partition(":")[0] for line in said[:3]] == ["the store cannot be written"] * 3
    assert all("database or disk is full (FullError)" in line for line in said[:3])
    assert ["(2 more" in said[1], "(2 more" in said[2]] == [True, True]
    assert said[3:] == ["the store can be written again, after 130 s"]
