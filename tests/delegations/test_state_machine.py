"""Delegations against a model of a few lines: whatever is begun, taken, said, cancelled, sent and waited for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from molecule_core.store.queries import Query
from testing.engines import ENGINES
from testing.machines.delegation_store import Stage, stage_on
from testing.machines.delegations import STEPS_A_STORY, DelegationMachine
from testing.step_counts import STEPS
from tests.requirements import requirement


@pytest.fixture(scope="module", params=ENGINES)
def stage(request: pytest.FixtureRequest, postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One stage for all stories; each has an organisation of its own."""
    with stage_on(request.param, tmp_path_factory.mktemp("stage"), postgres) as ready:
        yield ready


def _play(stage: Stage, steps: int) -> None:
    told = settings(max_examples=max(1, steps // STEPS_A_STORY), stateful_step_count=STEPS_A_STORY, deadline=None)
    machine: Any = lambda: DelegationMachine(stage)  # noqa: E731 (Hypothesis wants a function of no arguments)
    run_state_machine_as_test(machine, settings=told)


@requirement("D14")
def test_what_is_begun_below_work_that_has_been_taken_back_goes_on(stage: Stage) -> None:
    machine = DelegationMachine(stage)
    acts: list[Any] = [
        lambda: machine.begin(pushed=False, task="a", key=None, long=False),
        lambda: machine.claim(1),
        lambda: machine.cancel(0),
        lambda: machine.wait(1),
        lambda: machine.begin_below(0),
        lambda: machine.wait(61),
    ]
    for act in acts:
        act()
        machine.the_store_says_what_the_model_says()
    assert [each.end for each in machine.work] == [("cancelled", "cancelled"), None]


@requirement("D1", "D7", "D9", "D11", "D14")
def test_delegations_do_what_their_model_does(stage: Stage) -> None:
    before = stage.world.stories
    _play(stage, STEPS)
    assert stage.world.stories >= before + max(1, STEPS // STEPS_A_STORY)


def _story(stage: Stage) -> list[tuple[str, str | None] | None]:
    """One story by hand, which comes by everything that the controls below change; what its delegations came to."""
    machine = DelegationMachine(stage)
    acts: list[Any] = [
        lambda: machine.begin(pushed=False, task="a", key="k", long=True),
        lambda: machine.claim(3),
        lambda: machine.begin_below(0),
        lambda: machine.say(1, "no"),
        machine.fire,
        lambda: machine.begin(pushed=False, task="a", key="k", long=True),
        lambda: machine.claim(3),
        lambda: machine.say(0, "reply"),
        lambda: machine.wait_for_it(0, "take"),
        lambda: machine.wait_for_it(0, "take"),
        lambda: machine.begin(pushed=True, task="b", key=None, long=False),
        lambda: machine.send(3),
        lambda: machine.settle(0, "words"),
    ]
    for act in acts:
        act()
        machine.the_store_says_what_the_model_says()
    return [each.end for each in machine.work]


def test_the_story_of_the_controls_goes_well_with_the_product_as_it_is(stage: Stage) -> None:
    over = ("completed", None)
    assert _story(stage) == [("failed", "rejected"), ("cancelled", "cancelled"), over, over]


@pytest.mark.parametrize(
    ("query", "by_what"),
    [
        ("free_delegation_keys", ("delegation_id = :delegation_id", "delegation_id = 'none'")),
        ("delegations_below", ("parent_id = :parent_id", "parent_id = 'none'")),
        ("close_obligation", ("AND state = 'open'", "AND state = 'closed'")),
        ("save_delegation", ("open = :open", "open = open")),
    ],
)
def test_the_model_finds_out_a_hand_that_forgets_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, by_what: tuple[str, str]
) -> None:
    """The controls: the product with one statement changed."""
    with stage_on("sqlite", tmp_path, "") as stage:
        text = stage.store._queries[query].text
        assert by_what[0] in text
        monkeypatch.setitem(stage.store._queries, query, Query(query, text.replace(*by_what), "sqlite"))
        with pytest.raises(AssertionError):
            _story(stage)
