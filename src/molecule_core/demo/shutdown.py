"""The end of a process that has been asked to end. Above: staff, mcp."""

import asyncio


async def wait_or_kill(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Returns when it has ended; one that takes longer is killed."""
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
