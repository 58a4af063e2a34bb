"""Threads against a plain account of them (talks.py): whatever is said, claimed, begun, ended, spawned, written, waited
for, stopped, closed and taken up again, by engines that may be too late."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from molecule_core.store.queries import Query
from testing.engines import ENGINES
from testing.machines.threads import STEPS_A_STORY, TalkMachine, ThreadStage, threads_on
from testing.step_counts import STEPS
from tests.requirements import requirement


@pytest.fixture(scope="module", params=ENGINES)
def stage(
    request: pytest.FixtureRequest, postgres: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ThreadStage]:
    """One stage for all stories; each has an organisation of its own."""
    with threads_on(request.param, tmp_path_factory.mktemp("threads"), postgres) as ready:
        yield ready


@requirement("TH3", "TH6", "TH7", "TH8", "TH9", "P2")
def test_threads_do_what_their_model_does(stage: ThreadStage) -> None:
    told = settings(max_examples=max(1, STEPS // STEPS_A_STORY), stateful_step_count=STEPS_A_STORY, deadline=None)
    machines = list[TalkMachine]()

    def machine() -> TalkMachine:
        machines.append(TalkMachine(stage))
        return machines[-1]

    run_state_machine_as_test(cast(Any, machine), settings=told)
    assert any(each.model.all for each in machines)


def played(stage: ThreadStage, acts: Callable[[TalkMachine], list[Any]]) -> TalkMachine:
    """A story by hand, looked at after each step."""
    machine = TalkMachine(stage)
    for act in acts(machine):
        act()
        machine.the_store_says_what_the_model_says()
    return machine


def _two_agents(machine: TalkMachine, *wakes: str) -> list[Any]:
    """A thread without input, and agents of it."""
    spawned = [partial(machine.spawn, number, "ab"[number], wake) for number, wake in enumerate(wakes)]
    return [partial(machine.start, says=False), *spawned]


def _stops(machine: TalkMachine, below: str) -> Any:
    return partial(machine.stop, 2, "interrupt", below)


@requirement("TH7")
def test_the_last_of_the_digests_wakes_who_asked_though_all_are_stopped_at_once(stage: ThreadStage) -> None:
    def acts(it: TalkMachine) -> list[Any]:
        spawned = [
            partial(it.start, says=False),
            partial(it.spawn, 0, "a", "digest"),
            partial(it.spawn, 0, "b", "digest"),
        ]
        idle = [partial(it.begin, 0, "one", False, 0), partial(it.end, 0, False, "completed")]
        return [
            *spawned,
            *idle,
            partial(it.write, 2, 0, "send_followup"),
            partial(it.manage, 2, 1, "interrupt", "interrupt"),
        ]

    root = played(stage, acts).model.all[0]
    assert [(letter.author.path, letter.wakes) for letter in root.mail] == [("root/a", False), ("root/a/b", True)]
    assert len(root.queue) == 1


@requirement("TH7")
def test_who_is_stopped_at_work_with_whom_it_asked_is_told_and_does_not_begin_again(stage: ThreadStage) -> None:
    def acts(it: TalkMachine) -> list[Any]:
        begun = [partial(it.begin, which, "one", False, 0) for which in (0, 1)]
        return [
            *_two_agents(it, "wake", "wake"),
            partial(it.write, 0, 1, "send_followup"),
            *begun,
            _stops(it, "interrupt"),
        ]

    root, _, agent = played(stage, acts).model.all
    assert [(letter.sort, letter.wakes) for letter in agent.waiting()] == [("FINAL_ANSWER", False)]
    assert agent.queue == []
    assert [letter.wakes for letter in root.waiting()] == [True, True], "it had nothing to do, and waited for these"
    assert len(root.queue) == 1


@requirement("TH7")
def test_who_asked_the_one_that_is_stopped_and_stands_below_it_does_not_begin_again(stage: ThreadStage) -> None:
    def acts(it: TalkMachine) -> list[Any]:
        spawned = [partial(it.start, says=False), partial(it.spawn, 0, "a", "wake"), partial(it.spawn, 0, "b", "wake")]
        idle = [partial(it.begin, 1, "one", False, 0), partial(it.end, 0, False, "completed")]
        begun = [partial(it.begin, which, "one", False, 0) for which in (0, 0)]
        return [
            *spawned,
            *idle,
            partial(it.write, 0, 1, "send_followup"),
            *begun,
            partial(it.stop, 1, "interrupt", "interrupt"),
        ]

    _, asked, asker = played(stage, acts).model.all
    assert (asked.queue, asker.queue) == ([], [])
    assert [letter.wakes for letter in asker.waiting()] == [False]


@requirement("TH3")
def test_what_a_new_life_of_an_engine_was_never_shown_gets_a_turn(stage: ThreadStage) -> None:
    def acts(it: TalkMachine) -> list[Any]:
        begun = [partial(it.start, says=True), partial(it.begin, 0, "one", False, 0), partial(it.claim, 0, "one")]
        adds = [
            partial(it.say, 0, "auto", None),
            partial(it.add, 0, False, None),
            partial(it.end, 0, False, "completed"),
        ]
        return [*begun, *adds]

    (talk,) = played(stage, acts).model.all
    assert len(talk.queue) == 1


@requirement("TH8")
def test_a_wait_that_began_outside_of_a_turn_is_over_when_a_turn_of_its_thread_is(stage: ThreadStage) -> None:
    def acts(it: TalkMachine) -> list[Any]:
        waits = [partial(it.wait, 2, [0], "any", 100), partial(it.compact, 2)]
        return [*_two_agents(it, "queue", "queue"), *waits, _stops(it, "detach"), partial(it.wait_again, 1)]

    assert [wait.status for _, _, wait in played(stage, acts).waits] == ["interrupted"]


def _controlled(it: TalkMachine) -> list[Any]:
    """Comes by everything that the controls below change."""
    turns = [(partial(it.begin, which, "one", False, 0), partial(it.end, 0, False, "completed")) for which in (1, 0, 0)]
    # The second wait is told only the end that the first one was not.
    waits = [partial(it.wait, 2, [0], "any", 100), partial(it.wait, 2, [0, 1], "all", 100)]
    *agents, last = turns
    return [
        *_two_agents(it, "digest", "queue"),
        *chain(*agents),
        *waits,
        *last,
        partial(it.write, 0, 1, "send_message"),
    ]


def test_the_story_of_the_controls_goes_well_with_the_product_as_it_is(stage: ThreadStage) -> None:
    machine = played(stage, _controlled)
    assert [talk.status for talk in machine.model.all] == ["completed", "completed", "completed"]
    assert [wait.status for _, _, wait in machine.waits] == ["completed", "completed"]


@pytest.mark.parametrize(
    ("query", "by_what"),
    [
        ("keep_thread_report", (":thread_id, :target_id, :ends", ":thread_id, :target_id, 0 * :ends")),
        ("save_thread_mail", ("state = :state", "state = state")),
        ("save_thread_turn", ("ended_at = :ended_at", "ended_at = ended_at")),
        ("thread_digests_waiting", ("m.receiver_id = :receiver_id", "m.receiver_id = 'none'")),
        ("thread_mail_waiting", ("receiver_id = :receiver_id", "receiver_id = 'none'")),
    ],
)
def test_the_model_finds_out_a_hand_that_forgets_one_thing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str, by_what: tuple[str, str]
) -> None:
    """The controls: the product with one statement changed."""
    with threads_on("sqlite", tmp_path, "") as stage:
        text = stage.world.store._queries[query].text
        assert by_what[0] in text
        monkeypatch.setitem(stage.world.store._queries, query, Query(query, text.replace(*by_what), "sqlite"))
        with pytest.raises(AssertionError):
            played(stage, _controlled)
