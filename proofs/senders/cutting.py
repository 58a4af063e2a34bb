"""Calls whose connection is cut before the answer, at three places: the caller cannot know what became of them."""

import asyncio
from random import Random

from proofs.harness.caller import Caller

# Of all calls; the goal of the sheet.
CUT = 0.02
_REQUEST_HALF, _REQUEST, _ANSWER_BEGUN = range(3)


class CutCaller(Caller):
    """A caller with a bad line. What is cut goes over a connection of its own, so that nothing else suffers."""

    def __init__(self, port: int, token: str, dice: Random) -> None:
        super().__init__(port, token)
        self._where = port
        self._dice = dice

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        if self._dice.random() < CUT:
            await self._cut_off(request)
            raise ConnectionResetError("cut before the answer")
        return await super()._exchange(request)

    async def _cut_off(self, request: bytes) -> None:
        place = self._dice.choice((_REQUEST_HALF, _REQUEST, _ANSWER_BEGUN))
        reader, writer = await asyncio.open_connection("127.0.0.1", self._where)
        try:
            writer.write(request[: len(request) // 2] if place == _REQUEST_HALF else request)
            await writer.drain()
            if place == _ANSWER_BEGUN:
                await reader.read(1)
        finally:
            writer.transport.abort()
