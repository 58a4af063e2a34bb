"""A caller that waits: for the end of its delegation, or for a push agent's answer to its message. It gets that here,
or its inbox gets it: of a delegation one of both, never both; of an answer as docs/delivery.md says.

Above: `edges/delegations.py`, `edges/delegated.py`, `edges/messages.py`. Below: the writers and readers of both.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from molecule_core.delegations.model import Delegation, Receipt, Taken
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.edges.routes import Call
from molecule_core.ground.errors import MoleculeError, ServerBusy, StoreUnavailable, WorkspaceRemoved
from molecule_core.messages.askers import Askers
from molecule_core.messages.model import Receipt as MessageReceipt
from molecule_core.messages.pushed import MessageState
from molecule_core.messages.tracking import Tracking

T = TypeVar("T")
CheckStill = Callable[[Call], Awaitable[None]]
"""Raises if a caller may not have any more what it asked for."""
Awaited = tuple[DelegationWriter, DelegationReader, CheckStill]
"""What delegations are awaited with."""
Followed = tuple[Tracking, Askers, CheckStill]
"""What answers to messages are awaited with."""
_HERE = "here"
_log = logging.getLogger("molecule.delegations")
_answers_log = logging.getLogger("molecule.delivery")


class _Leaving:
    """Does what is left to do when callers leave."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Task[None]] = set()

    async def unless_left(self, work: Awaitable[T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> T:
        """What a command gives. It is not stopped when its caller leaves: what it has written is undone then."""
        running = asyncio.ensure_future(work)

        def left(done: "asyncio.Future[T]") -> None:
            if not done.cancelled() and done.exception() is None:
                self.later(undo(done.result()))

        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(left)
            raise

    def later(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """A task of its own: the caller may be gone."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return task


class AwaitingAnswers:
    """Waits for the answers of push agents in the name of those that have sent them a message."""

    def __init__(self, tracking: Tracking, askers: Askers, check_still: CheckStill) -> None:
        self._tracking = tracking
        self._askers = askers
        self._check_still = check_still
        self._leaving = _Leaving()

    async def end(
        self, call: Call, sending: "asyncio.Future[MessageReceipt]", seconds: int
    ) -> tuple[MessageReceipt, MessageState | None]:
        """The receipt of a message, and how it came out, if it did within these seconds: answered, dead, or put off
        because the agent has no time or a try has failed. What comes after that goes into the caller's inbox. Raises as
        sending does; NotFound, WorkspaceRemoved; InvalidCredential, RoleTooLow: the caller may not have it any more."""
        target_id = call.target.id
        receipt = await self._leaving.unless_left(sending, lambda receipt: self._gone(target_id, receipt))
        if not receipt.held_until:
            return receipt, await self._tracking.answer(target_id, receipt.activity_id, seconds)
        is_told = False
        try:
            state = await self._tracking.answer(target_id, receipt.activity_id, seconds)
            if state is None or not state.is_over:
                state = await self._left(target_id, receipt) or state
            await self._check_still(call)
            call.has_taken = is_told = True
        finally:
            if not is_told:
                self._leaving.later(self._gone(target_id, receipt))
        return receipt, state

    async def _left(self, target_id: str, receipt: MessageReceipt) -> MessageState | None:
        try:
            return await self._askers.leave(target_id, receipt)
        except (StoreUnavailable, ServerBusy):  # the message is taken, and its sender is told so
            self._leaving.later(self._gone(target_id, receipt))
            return None

    async def _gone(self, target_id: str, receipt: MessageReceipt) -> None:
        """Nobody waits any more. If that cannot be written, the wait ends by its time."""
        if not receipt.held_until:
            return
        try:
            is_known = await self._askers.gone(target_id, receipt)
        except WorkspaceRemoved:  # whoever had asked it was told
            return
        if not is_known:
            _answers_log.warning("the answer to %s is held until the wait for it is over", receipt.activity_id)


class Awaiting:
    """Waits in the name of callers. Whoever leaves, at whatever moment, leaves the result to the inbox."""

    def __init__(self, writer: DelegationWriter, reader: DelegationReader, check_still: CheckStill) -> None:
        self._writer = writer
        self._reader = reader
        self._check_still = check_still
        self._leaving = _Leaving()

    async def begun(self, beginning: "asyncio.Future[Receipt]") -> Receipt:
        """The receipt of a delegation, whose caller may hold its result from the first moment on. Raises as beginning
        it does."""
        return await self._leaving.unless_left(beginning, lambda receipt: self._let_go(receipt.row, receipt.held_until))

    async def end(
        self, call: Call, row: Delegation, seconds: int, held_until: int = 0, *, for_end: bool = True
    ) -> Taken:
        """What a delegation has come to, as soon as that is so within these seconds; with `for_end` False also how it
        stands, as soon as it stands otherwise. Raises InvalidCredential, RoleTooLow: the caller may not have it any
        more, and it goes to the inbox."""
        until = held_until or await self._leaving.unless_left(
            self._writer.hold(row, seconds), lambda held: self._let_go(row, held)
        )
        if not until:
            return await self._take(call, await self._reader.one(row.org_id, row.id), 0)
        has_taken = False
        try:
            now = await self._reader.wait(row, seconds, for_end=for_end)
            if now.open:
                return Taken(now, "", "")
            taken = await self._take(call, now, until)
            has_taken = True
            return taken
        finally:
            if not has_taken:
                await asyncio.shield(self._leaving.later(self._let_go(row, until)))

    async def _take(self, call: Call, row: Delegation, until: int) -> Taken:
        """Takes the result for a caller that may still have it. From then on it is this caller's: nobody would find it
        in the inbox, so that no second look may keep it back."""
        await self._check_still(call)
        taken = await self._writer.take(row, until)
        call.has_taken = taken.delivered == _HERE
        return taken

    async def _let_go(self, row: Delegation, until: int) -> None:
        """Nobody waits any more. If that cannot be written, the hold ends by its time."""
        if not until:
            return
        try:
            await self._writer.let_go(row, until)
        except MoleculeError as error:
            _log.warning("the result of delegation %s is held until its time is over: %s", row.id, error)
