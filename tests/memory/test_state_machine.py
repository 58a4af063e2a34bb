"""Keys against a model of a few lines: puts with and without versions and ends, reads, removals, time, timers."""

from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from molecule_core.common.limits import Limits
from molecule_core.memory.model import KEY_EXPIRY_TIMER
from testing.engines import ENGINES, Engine
from testing.machines.memory import BATCH, MOST, STEPS_A_STORY, KeyMachine
from testing.machines.memory_store import world_on
from testing.step_counts import STEPS
from tests.requirements import requirement


@requirement("M36", "P2")
@pytest.mark.parametrize("engine", ENGINES)
def test_keys_do_what_their_model_does(engine: Engine, tmp_path: Any, postgres: str) -> None:
    with world_on(engine, tmp_path, postgres, Limits(memory_keys=MOST, retention_batch=BATCH)) as world:
        choices = settings(
            max_examples=max(1, STEPS // STEPS_A_STORY), stateful_step_count=STEPS_A_STORY, deadline=None
        )
        machine: Any = lambda: KeyMachine(world)  # noqa: E731 (Hypothesis wants a function or a class of no arguments)
        run_state_machine_as_test(machine, settings=choices)
        assert world.clock.now() > 0
        assert KEY_EXPIRY_TIMER
