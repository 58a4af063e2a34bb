"""The mail of several seats by plain claims, for callers without an inbox of their own.

Above: calling. Below: whoever makes the requests, and the walks of `wire/verbs.py`.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from molecule_core.ground.clock import Clock
from molecule_core.wire import verbs
from molecule_core.wire.inbox import InboxMessage
from molecule_core.wire.speaks import Speaks
from molecule_core.wire.toolspec import ToolError

Polls = dict[str, "asyncio.Task[InboxMessage | None]"]


class Seat(Struct, frozen=True):
    """A workspace that calls are made as."""

    id: str
    url: str
    speaker: Speaks


class Claims:
    """Takes messages, the next one of any seat. A question that is under way is not cut off when another seat was
    faster: the server may have handed a message to it already, so what it brings is kept for the next call."""

    def __init__(self, seats: Sequence[Seat], *, clock: Clock, lease: int) -> None:
        self._seats = seats
        self._clock = clock
        self._lease = lease
        self._polls: Polls = {}
        self._taken: dict[str, InboxMessage] = {}
        """Taken and not given on, by id, in the order in which they came."""

    @property
    def waiting(self) -> int:
        """How many messages were taken beyond those that were asked for."""
        return len(self._taken)

    async def next(self, seconds: float, progress: verbs.Progress | None) -> InboxMessage | None:
        """The next message; None if none comes within so many seconds. A seat whose server refuses or is away holds up
        no other one. Raises ToolError if all do."""
        begun = self._clock.monotonic()
        failed: dict[str, ToolError] = {}
        self._collect(failed)
        await self._look(failed)
        while not self._taken and (left := seconds - (self._clock.monotonic() - begun)) > 0:
            self._ask(left, failed)
            await self._clock.wait(asyncio.wait(self._polls.values(), return_when=asyncio.FIRST_COMPLETED), left)
            self._collect(failed)
            if progress is not None and not self._taken:
                await progress(min(self._clock.monotonic() - begun, seconds), seconds, "no message yet")
        return self._taken.pop(next(iter(self._taken))) if self._taken else None

    async def _look(self, failed: dict[str, ToolError]) -> None:
        """What is there already, one seat after the other, so that no more is taken than is asked for."""
        for seat in self._seats:
            if not self._taken and seat.id not in self._polls:
                try:
                    self._keep(await self._claim(seat, 0))
                except ToolError as error:
                    failed[seat.id] = error
        self._check(failed)

    def _ask(self, seconds: float, failed: dict[str, ToolError]) -> None:
        for seat in self._seats:
            if seat.id not in self._polls and seat.id not in failed:
                self._polls[seat.id] = asyncio.create_task(self._claim(seat, seconds))

    async def _claim(self, seat: Seat, seconds: float) -> InboxMessage | None:
        return await verbs.claim(seat.speaker, seat.id, seconds, lease=self._lease, several=len(self._seats) > 1)

    def _collect(self, failed: dict[str, ToolError]) -> None:
        """What the questions that have ended brought."""
        for seat_id in [each for each, poll in self._polls.items() if poll.done()]:
            try:
                self._keep(self._polls.pop(seat_id).result())
            except ToolError as error:
                failed[seat_id] = error
        self._check(failed)

    def _check(self, failed: dict[str, ToolError]) -> None:
        if len(failed) == len(self._seats) and not self._taken:
            raise next(iter(failed.values()))

    def _keep(self, message: InboxMessage | None) -> None:
        if message is not None:
            self._taken[message.activity_id] = message

    async def close(self) -> None:
        """Ends all questions; what was taken and given to nobody goes back, so that it comes again at once."""
        polls = list(self._polls.values())
        for poll in polls:
            poll.cancel()
        for brought in await asyncio.gather(*polls, return_exceptions=True):
            if isinstance(brought, InboxMessage):
                self._keep(brought)
        for seat in self._seats:
            mine = [each for each in self._taken.values() if each.arrival_workspace_id == seat.id]
            if mine:
                await self._release(seat, mine)

    async def _release(self, seat: Seat, messages: Sequence[InboxMessage]) -> None:
        claims = [{"activity_id": each.activity_id, "attempt": each.attempt} for each in messages]
        try:
            await seat.speaker.call("POST", f"/workspaces/{seat.id}/activity/release", body={"claims": claims})
        except ToolError:
            return  # their leases end by themselves
