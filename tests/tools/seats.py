"""Callers of tools for seats of a running server."""

from typing import Any

from molecule_core.agent.tools import Caller, Seat, Speaker
from molecule_core.ground.clock import Clock, SystemClock
from molecule_core.ground.ids import Ids
from molecule_core.wire.tools import find
from molecule_core.wire.verbs import Progress
from tests import running
from tests.clocks import SeededRandomness


class Sitting:
    """An agent that sits in some seats and calls tools by name."""

    def __init__(self, *seats: running.Seat, url: str = "", clock: Clock | None = None, lease: int = 300) -> None:
        clock = clock or SystemClock()
        self.caller = Caller(
            [Seat(seat.id, url, Speaker(seat.api)) for seat in seats],
            clock=clock,
            ids=Ids(clock, SeededRandomness(len(seats))),
            runtime="test",
            version="0",
            lease=lease,
        )

    async def __call__(self, tool: str, *, key: str = "", progress: Progress | None = None, **given: Any) -> Any:
        spec = find(tool)
        assert spec is not None
        return await self.caller.call(spec, spec.arguments(given), key=key, progress=progress)
