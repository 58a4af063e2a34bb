"""Whoever goes away while an answer is being written leaves no error behind."""

import asyncio
import gc
from collections.abc import Generator
from typing import Any

import pytest

from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.messages.obligations.ledger import NeedsExclusiveGroup, ObligationLedger
from molecule_core.store.database import Command, StepRequest, WriteSet
from testing.message_world import MessageWorld
from tests.requirements import requirement


def answering(alone: bool) -> Command[None]:
    """A command that finds something it answers."""

    def decide() -> Generator[StepRequest, Any, WriteSet[None]]:
        yield from ()
        if not alone:
            raise NeedsExclusiveGroup
        return WriteSet(None)

    return Command("", (), decide, alone)


@requirement("M27")
async def test_an_answer_whose_sender_went_away_meanwhile_is_no_error_in_the_log(world: MessageWorld) -> None:
    store, loop = world.server.server.store, asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    owing = ObligationLedger(world.clock, Limits())
    owing.run_answering(store, "asked", "who goes", answering).cancel()
    await owing.run_answering(store, "asked", "who stays", answering)
    gc.collect()
    assert complaints == []


def refusing(_alone: bool) -> Command[None]:
    """A command that is refused."""

    def decide() -> Generator[StepRequest, Any, WriteSet[None]]:
        yield from ()
        raise NotFound(what="thing")

    return Command("", (), decide)


@requirement("M27")
async def test_a_refusal_whose_sender_went_away_meanwhile_is_no_error_in_the_log(world: MessageWorld) -> None:
    store, loop = world.server.server.store, asyncio.get_running_loop()
    complaints: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    owing = ObligationLedger(world.clock, Limits())
    owing.run_answering(store, "asked", "who goes", refusing)
    with pytest.raises(NotFound):
        await owing.run_answering(store, "asked", "who stays", refusing)
    gc.collect()
    assert complaints == []
