"""Letting time pass. Above: membership, channel. Below: ground."""

import asyncio

from molecule_core.ground.clock import Clock


async def pause(clock: Clock, seconds: float) -> None:
    """Waits so many seconds of that clock."""
    await clock.wait(asyncio.get_running_loop().create_future(), seconds)
