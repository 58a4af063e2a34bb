"""Runs in processes of their own: what becomes of one that is given up."""

import asyncio

import pytest

from proofs.harness.children import in_a_child
from proofs.harness.settings import setting
from testing.waits import PROCESS_START_SECONDS


async def test_a_child_that_is_given_up_in_the_middle_of_what_it_says_holds_up_nobody() -> None:
    async with setting("sqlite", "", seed=1, size=1) as given, asyncio.timeout(PROCESS_START_SECONDS):
        with pytest.raises(TimeoutError):
            await in_a_child("tests.system.proofs.endless_child", given, most_seconds=1.0)
