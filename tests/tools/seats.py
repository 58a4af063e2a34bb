"""Callers of tools for seats of a running server."""

from typing import Any

from molecule_core.agent.speaking import Speaker
from molecule_core.client.calling import Caller
from molecule_core.client.claiming import Seat
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.ids import Ids
from molecule_core.wire.tools import find
from tests import running
from tests.clocks import SeededRandomness


class Sitting:
    """An agent that sits in some seats and calls tools by name."""

    def __init__(self, *seats: running.Seat, url: str = "", lease: int = 300) -> None:
        clock, dice = SystemClock(), SeededRandomness(len(seats))
        self.caller = Caller(
            [Seat(seat.id, url, Speaker(seat.api, clock=clock, randomness=dice)) for seat in seats],
            clock=clock,
            ids=Ids(clock, dice),
            runtime="test",
            version="0",
            lease=lease,
        )

    async def __call__(self, tool: str, *, key: str = "", **given: Any) -> Any:
        spec = find(tool)
        assert spec is not None
        return await self.caller.call(spec, spec.arguments(given), key=key)
