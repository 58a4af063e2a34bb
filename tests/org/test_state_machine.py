"""Random stories of the tree: the org writer against a model of ten lines. Moves, teams, collapses and removals."""

from typing import Any

from hypothesis import settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from testing.machines.org_trees import TreeMachine
from testing.step_counts import examples
from tests.requirements import requirement


@requirement("M3", "M4")
def test_every_story_of_the_tree_ends_as_the_model_says() -> None:
    machine: Any = TreeMachine
    run_state_machine_as_test(machine, settings=settings(examples(40), stateful_step_count=25))
    # Which of them a short run meets is chance; that it meets none would be a mistake in the machine.
    assert TreeMachine.met & {"circle", "deep", "lost", "moved", "collapsed"}
