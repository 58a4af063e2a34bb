"""Waits for a process to end."""

import asyncio


async def wait_or_kill(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Return when a process has ended; kill it after some seconds."""
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
