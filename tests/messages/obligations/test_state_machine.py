"""Obligations against a model of a few lines: whatever is asked, handed over, said, declined and waited for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from molecule_core.common.limits import Limits
from molecule_core.messages.model import UserNotice
from molecule_core.messages.obligations.model import Obligation
from molecule_core.store.queries import Query
from testing.engines import ENGINES
from testing.machines.inboxes import World, draft_of, world_on
from testing.machines.obligations import REPLY_SECONDS, STEPS_A_STORY, ObligationMachine
from testing.step_counts import STEPS
from tests.requirements import requirement


@pytest.fixture(scope="module", params=ENGINES)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, postgres: str) -> Iterator[World]:
    """A world on each engine; every story brings its own seats."""
    with world_on(request.param, tmp_path_factory.mktemp("owed"), postgres, Limits()) as world:
        yield world


def _play(world: World, steps: int) -> None:
    choices = settings(max_examples=max(1, steps // STEPS_A_STORY), stateful_step_count=STEPS_A_STORY, deadline=None)
    machine: Any = lambda: ObligationMachine(world)  # noqa: E731 (Hypothesis wants a function of no arguments)
    run_state_machine_as_test(machine, settings=choices)


@requirement("M26", "M27", "M28", "P4")
def test_obligations_do_what_their_model_does(world: World) -> None:
    before = world.stories
    _play(world, STEPS)
    assert world.stories >= before + max(1, STEPS // STEPS_A_STORY)


def _story(world: World) -> list[str]:
    """One story by hand, which comes by everything that the controls below change; how its messages stand then."""
    machine = ObligationMachine(world)
    acts: list[Any] = [
        lambda: [machine.ask(2) for _ in range(4)],
        lambda: machine.take(3),
        lambda: machine.say(2, None, False),
        lambda: machine.outside(0, "keep"),
        lambda: machine.outside(0, "discard"),
        lambda: machine.wait(121),
        lambda: machine.wait(121),
        lambda: machine.by_handle(0, "reply"),
        lambda: machine.take_and_give_back(1, False),
        lambda: machine.read(2),
        lambda: machine.take_and_give_back(1, True),
    ]
    for act in acts:
        act()
        machine.the_store_says_what_the_model_says()
    return [each.standing for each in machine.asked]


def test_the_story_of_the_controls_goes_well_with_the_product_as_it_is(world: World) -> None:
    assert _story(world) == ["answered", "overdue", "answered", "open"]


@pytest.mark.parametrize(
    ("query", "by"),
    [
        ("close_obligation", ("AND state = 'open'", "AND state = 'closed'")),
        ("obligation_to_user", ("ORDER BY p.seq DESC", "ORDER BY p.seq")),
        ("overdue_obligation", ("due_at = NULL", "due_at = due_at")),
        ("drop_draft", ("outside_at = NULL", "outside_at = outside_at")),
        ("obligations_between", ("h.attempt > 0", "h.attempt < 0")),
        ("open_obligations_read_by_cursor", ("excluded.due_at IS NOT NULL", "excluded.due_at IS NULL")),
    ],
)
def test_the_model_finds_out_a_hand_that_forgets_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, by: tuple[str, str]
) -> None:
    """The controls: the product with one statement changed."""
    with world_on("sqlite", tmp_path, "", Limits()) as world:
        text = world.store._queries[query].text
        assert by[0] in text
        monkeypatch.setitem(world.store._queries, query, Query(query, text.replace(*by), "sqlite"))
        with pytest.raises(AssertionError):
            _story(world)


@requirement("M28")
def test_a_timer_that_the_watch_takes_away_is_not_believed_to_stand(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the watch looks after what is due, another message is handed over, and all that is owed is answered."""
    machine = ObligationMachine(world)
    machine.ask(2)
    machine.take(1)
    world.run(world.clock.advance(REPLY_SECONDS + 1))
    silence, looks_after = machine.hands.silence, machine.hands.silence._process_due

    async def meanwhile(workspace_id: str, due: list[Obligation]) -> bool:
        await world.send(machine.own, draft_of(None, "a question of weight", None))
        await world.handing.claim(machine.own, lease_seconds=5, count=1)
        for _ in range(2):
            await world.writer.notify_user(
                machine.own, UserNotice([{"kind": "text", "text": "an answer of weight"}], None, {})
            )
        return await looks_after(workspace_id, due)

    monkeypatch.setattr(silence, "_process_due", meanwhile)
    world.run(silence.check_due(machine.own))
    assert machine.own not in {key for _, key, _ in world.rows("next_timers", count=1000)}
    world.run(world.send(machine.own, draft_of(None, "a question of weight", None)))
    world.run(world.handing.claim(machine.own, lease_seconds=5, count=1))
    assert machine.own in {key for _, key, _ in world.rows("next_timers", count=1000)}
