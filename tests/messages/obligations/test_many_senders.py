"""500 messages of 8 senders to 4 workspaces, interleaved and answered by their handles alone: each at its origin."""

import asyncio
import random
from pathlib import Path

import pytest

from testing.clocks import FakeClock
from testing.engines import Engine
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import PushNetwork
from testing.running_server import Seat, running
from tests.requirements import requirement

MESSAGES, SENDERS, RECEIVERS = 500, 8, 4


async def answered_by_handle(world: MessageWorld, dice: random.Random) -> dict[str, tuple[Seat, str]]:
    """All is asked and answered in a random order; by the text of each answer, who asked and as what."""
    receivers = [await world.server.seat(f"Receiver {number}") for number in range(RECEIVERS)]
    senders = [await world.server.seat(f"Sender {number}") for number in range(SENDERS)]
    asked: dict[str, tuple[Seat, str]] = {}
    for start in range(0, MESSAGES, 20):
        some = [(dice.choice(senders), dice.choice(receivers), f"question {start + number}") for number in range(20)]
        ids = await asyncio.gather(*(world.ask(to, text, by=by) for by, to, text in some))
        asked |= {f"re: {text}": (by, id_) for (by, _, text), id_ in zip(some, ids, strict=True)}
        rows = [(to, row) for to in receivers for row in await world.take(to)]
        dice.shuffle(rows)
        await asyncio.gather(*(reply(to, handle(row), f"re: {row['summary']}") for to, row in rows))
    return asked


@pytest.mark.long
@requirement("M27", "P2", "P3")
@pytest.mark.parametrize("seed", [7])
async def test_500_interleaved_messages_that_are_answered_by_handles_alone_all_get_home(
    engine: Engine, place: str, tmp_path: Path, clock: FakeClock, seed: int
) -> None:
    async with running(engine, place, tmp_path, clock=clock, push_instructions_enabled=True) as server:
        world = MessageWorld(server, await server.person(), clock, PushNetwork())
        asked = await answered_by_handle(world, random.Random(seed))
        home: dict[str, tuple[str, str]] = {}
        for sender in {by.id: by for by, _ in asked.values()}.values():
            while rows := await world.take(sender):
                for row in rows:
                    about = row["request_body"]["params"]["message"]["metadata"]["in_reply_to"]
                    assert row["summary"] not in home
                    home[row["summary"]] = (sender.id, about)
        assert len(home) == MESSAGES
        assert home == {text: (by.id, id_) for text, (by, id_) in asked.items()}
