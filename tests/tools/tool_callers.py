"""Callers of tools for seats of a running server."""

from typing import Any

from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.client.claims import ActingWorkspace
from molecule_core.client.tool_runner import ToolRunner
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator
from molecule_core.tools.registry import find_tool
from molecule_core.tools.runners.requester import RetryingRequester
from testing import running_server as running
from testing.clocks import SeededRandomness


class Sitting:
    """An agent that sits in some seats and calls tools by name."""

    def __init__(self, *seats: running.Seat, url: str = "", lease: int = 300) -> None:
        clock, dice = SystemClock(), SeededRandomness(len(seats))
        self.caller = ToolRunner(
            [
                ActingWorkspace(seat.id, url, RetryingRequester(seat.api, BoundedRetry(clock=clock, randomness=dice)))
                for seat in seats
            ],
            clock=clock,
            ids=IdGenerator(clock, dice),
            runtime="test",
            version="0",
            lease=lease,
        )

    async def __call__(self, tool: str, *, key: str = "", **given: Any) -> Any:
        spec = find_tool(tool)
        assert spec is not None
        return await self.caller.call(spec, spec.parse_arguments(given), key=key)
