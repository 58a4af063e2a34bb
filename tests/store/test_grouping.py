"""Who may share a group: the queue before the one writer, with every order of keys that chance comes up with."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.store.database import Command
from molecule_core.store.group_commit import CommandQueue, PendingCommand
from testing.step_counts import examples
from tests.store.instrumented_store import write

KEYS = st.lists(st.sampled_from("abc"), max_size=2, unique=True).map(tuple)
COMMANDS = st.lists(st.builds(lambda keys, alone: write(keys=keys, alone=alone), KEYS, st.booleans()), max_size=12)


async def _groups(commands: list[Command[Any]], most: int) -> list[list[int]]:
    """The groups in which the queue hands the commands out, as their places in the order they came."""
    queue = CommandQueue(Limits(group_commands=most))
    places = {id(queue.submit(command)): place for place, command in enumerate(commands)}
    queue.close()
    groups: list[list[int]] = []
    while group := await queue.next_group():
        groups.append([places[id(pending.future)] for pending in group])
    return groups


def _pairs(groups: list[list[int]]) -> Iterator[tuple[int, int, int, int]]:
    """(earlier, its group, later, its group) for all pairs of commands."""
    where = {place: number for number, group in enumerate(groups) for place in group}
    return ((one, where[one], two, where[two]) for one in where for two in where if one < two)


@examples(100)
@given(COMMANDS, st.integers(1, 5))
def test_groups_keep_every_promise_about_keys_and_order(commands: list[Command[Any]], most: int) -> None:
    with asyncio.Runner() as runner:
        groups = runner.run(_groups(commands, most))
    assert sorted(place for group in groups for place in group) == list(range(len(commands)))
    assert all(0 < len(group) <= most and group == sorted(group) for group in groups)
    for earlier, its_group, later, later_group in _pairs(groups):
        one, two = commands[earlier], commands[later]
        if one.exclusive or two.exclusive or not set(one.keys).isdisjoint(two.keys):
            assert its_group < later_group


@examples(100)
@given(st.integers(0, 20), st.integers(1, 6))
def test_commands_that_share_nothing_fill_their_groups(count: int, most: int) -> None:
    with asyncio.Runner() as runner:
        groups = runner.run(_groups([write(keys=(number,)) for number in range(count)], most))
    assert [len(group) for group in groups] == [most] * (count // most) + [count % most] * (count % most > 0)


@examples(100)
@given(COMMANDS)
def test_a_group_that_is_replayed_comes_back_one_by_one_before_all_others(commands: list[Command[Any]]) -> None:
    async def replayed() -> list[list[int]]:
        queue = CommandQueue(Limits())
        places = {id(queue.submit(command)): place for place, command in enumerate(commands)}
        queue.close()
        first = await queue.next_group()
        queue.replay_individually(first)
        assert all(pending.write_set is None and pending.error is None and not pending.took_number for pending in first)
        groups = []
        for _ in first:
            groups.append([places[id(pending.future)] for pending in await queue.next_group()])
        assert [places[id(pending.future)] for pending in first] == [group[0] for group in groups]
        return groups

    with asyncio.Runner() as runner:
        assert all(len(group) == 1 for group in runner.run(replayed()))


async def test_a_decision_of_another_try_is_forgotten_before_a_replay() -> None:
    queue = CommandQueue(Limits())
    queue.submit(write(answer="new"))
    (pending,) = await queue.next_group()
    assert pending.start() is None
    pending.error, pending.took_number = ValueError(), True
    queue.replay_individually([pending])
    (again,) = await queue.next_group()
    assert again.future is pending.future
    assert _state(again) == (None, None, False)


def _state(pending: PendingCommand) -> tuple[object, object, bool]:
    return pending.write_set, pending.error, pending.took_number


class _CountedKey:
    """A key that counts how often somebody looks at it."""

    looks = 0

    def __hash__(self) -> int:
        _CountedKey.looks += 1
        return 1


async def test_a_crowd_behind_one_key_is_not_walked_past_again_for_every_group() -> None:
    queue, key, crowd = CommandQueue(Limits()), _CountedKey(), 2_000
    futures = [queue.submit(write(keys=(key,))) for _ in range(crowd)]
    queue.close()
    _CountedKey.looks = 0
    while await queue.next_group():
        pass
    assert len(futures) == crowd
    assert _CountedKey.looks < crowd * crowd / 2


@pytest.mark.parametrize(("error", "reports"), [(NotFound(what="thing"), 0), (ValueError("a mistake of ours"), 1)])
async def test_a_refusal_whose_caller_has_gone_is_not_logged_as_a_mistake(error: Exception, reports: int) -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    queue = CommandQueue(Limits())
    queue.submit(write())
    (pending,) = await queue.next_group()
    pending.fail(error)

    del pending
    gc.collect()

    assert len(told) == reports
