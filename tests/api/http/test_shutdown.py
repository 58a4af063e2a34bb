"""What a first signal has done before the end, and what a second one does to that."""

import asyncio

from anyio.lowlevel import checkpoint

from molecule_core.server.listener import run_before
from tests.requirements import requirement


class Deed:
    """Something that takes until it is let go on; `said` has what came after it."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self._may_end = asyncio.Event()
        self.call = run_before(self._work, lambda: self.said.append("stop"))

    async def _work(self) -> None:
        await self._may_end.wait()
        self.said.append("done")

    async def ends(self) -> None:
        """It is done, and whoever waits for that has heard of it."""
        self._may_end.set()
        for _ in range(3):
            await checkpoint()


@requirement("O1")
async def test_the_end_begins_once_what_comes_before_it_is_done() -> None:
    deed = Deed()
    deed.call()
    await checkpoint()
    assert deed.said == []
    await deed.ends()
    assert deed.said == ["done", "stop"]
    deed.call()
    assert deed.said == ["done", "stop", "stop"]


@requirement("O1")
async def test_a_second_signal_begins_the_end_at_once_and_hurries_nobody_when_the_first_is_done() -> None:
    deed = Deed()
    deed.call()
    deed.call()
    assert deed.said == ["stop"]
    await deed.ends()
    assert deed.said == ["stop", "done"]
