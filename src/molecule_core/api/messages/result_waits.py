"""Lets callers wait for the end of a delegation, or for a push agent's answer to a message.

The result goes to the caller here or to its inbox: for a delegation to exactly one of them, for an answer as
docs/explanation/delivery.md says.

Called by `api/delegations/delegations.py`, `api/delegations/a2a_delegation.py` and `api/messages/send.py`; calls the
writers and readers of delegations and of delivery.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from molecule_core.api.routing import Request
from molecule_core.common.errors import MoleculeError, ServerBusy, StoreUnavailable, WorkspaceRemoved
from molecule_core.delegations.model import BeginResult, ClaimedResult, Delegation
from molecule_core.delegations.reader import DelegationReader
from molecule_core.delegations.writer import DelegationWriter
from molecule_core.messages.delivery.reply_waiters import ReplyWaiters
from molecule_core.messages.delivery.status_reader import DeliveryStatusReader
from molecule_core.messages.delivery_state import DeliveryState
from molecule_core.messages.model import MessageReceipt

T = TypeVar("T")
CallerCheck = Callable[[Request], Awaitable[None]]
"""Raises if a caller may no longer receive what it requested."""
_IN_RESPONSE = "here"
_log = logging.getLogger("molecule.delegations")
_replies_log = logging.getLogger("molecule.delivery")


class _DisconnectCleanup:
    """Runner of commands and cleanups that outlive a disconnected caller."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    async def run_or_undo(self, work: Awaitable[T], undo: Callable[[T], Coroutine[Any, Any, None]]) -> T:
        """Run a command and return its result. If the caller disconnects, the command completes and is then undone."""
        running = asyncio.ensure_future(work)

        def undo_result(done: "asyncio.Future[T]") -> None:
            if not done.cancelled() and done.exception() is None:
                self.run_detached(undo(done.result()))

        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            running.add_done_callback(undo_result)
            raise

    def run_detached(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run a coroutine as a task of its own, since the caller may be gone."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


class ReplyWait:
    """Waits of senders for the answers of push agents."""

    def __init__(
        self, status_reader: DeliveryStatusReader, reply_waiters: ReplyWaiters, revalidate: CallerCheck
    ) -> None:
        self.status_reader = status_reader
        self._reply_waiters = reply_waiters
        self._revalidate = revalidate
        self._cleanup = _DisconnectCleanup()

    async def wait_for_reply(
        self, request: Request, sending: "asyncio.Future[MessageReceipt]", seconds: int
    ) -> tuple[MessageReceipt, DeliveryState | None]:
        """Return the receipt of a message, and its outcome if there is one within these seconds.

        Outcomes: answered, dead, or deferred because the agent is busy or an attempt failed. Whatever comes later goes
        to the caller's inbox.

        Raises what sending raises, NotFound and WorkspaceRemoved; InvalidCredential or InsufficientRole if the caller
        may no longer receive the outcome.
        """
        target_id = request.workspace.id
        receipt = await self._cleanup.run_or_undo(sending, lambda receipt: self._undo_wait(target_id, receipt))
        if not receipt.held_until:
            return receipt, await self.status_reader.wait_for_outcome(target_id, receipt.activity_id, seconds)
        is_delivered = False
        try:
            state = await self.status_reader.wait_for_outcome(target_id, receipt.activity_id, seconds)
            if state is None or not state.has_outcome:
                state = await self._stop_waiting(target_id, receipt) or state
            await self._revalidate(request)
            request.has_consumed_result = is_delivered = True
        finally:
            if not is_delivered:
                self._cleanup.run_detached(self._undo_wait(target_id, receipt))
        return receipt, state

    async def _stop_waiting(self, target_id: str, receipt: MessageReceipt) -> DeliveryState | None:
        try:
            return await self._reply_waiters.stop_waiting(target_id, receipt)
        except (StoreUnavailable, ServerBusy):
            # The message is accepted, so its sender gets a receipt.
            self._cleanup.run_detached(self._undo_wait(target_id, receipt))
            return None

    async def _undo_wait(self, target_id: str, receipt: MessageReceipt) -> None:
        """End a wait. If this cannot be written, the wait ends by its timeout."""
        if not receipt.held_until:
            return
        try:
            is_known = await self._reply_waiters.handle_disconnect(target_id, receipt)
        except WorkspaceRemoved:
            # Removing the workspace has notified the sender.
            return
        if not is_known:
            _replies_log.warning("the answer to %s is held until the wait for it is over", receipt.activity_id)


class DelegationWait:
    """Waits of callers for delegations. Whenever a caller disconnects, the result goes to its inbox."""

    def __init__(self, writer: DelegationWriter, reader: DelegationReader, revalidate: CallerCheck) -> None:
        self._writer = writer
        self._reader = reader
        self._revalidate = revalidate
        self._cleanup = _DisconnectCleanup()

    async def begin(self, beginning: "asyncio.Future[BeginResult]") -> BeginResult:
        """Return the receipt of a delegation whose result may be held for the caller. Raises what beginning raises."""
        return await self._cleanup.run_or_undo(
            beginning, lambda receipt: self._release_hold(receipt.row, receipt.held_until)
        )

    async def wait_for_result(
        self, request: Request, row: Delegation, seconds: int, held_until: int = 0, *, for_end: bool = True
    ) -> ClaimedResult:
        """Wait for the end of a delegation, and claim its result for the caller.

        With `for_end` False, any change of its status ends the wait. After `seconds` the open delegation is returned.

        Raises InvalidCredential or InsufficientRole if the caller may no longer receive the result, which then goes to
        the inbox.
        """
        hold_until = held_until or await self._cleanup.run_or_undo(
            self._writer.hold_result(row, seconds), lambda hold: self._release_hold(row, hold)
        )
        if not hold_until:
            return await self._claim_result(request, await self._reader.get_delegation(row.org_id, row.id), 0)
        is_claimed = False
        try:
            current = await self._reader.wait_for_change(row, seconds, for_end=for_end)
            if current.open:
                return ClaimedResult(current, "", "")
            claimed = await self._claim_result(request, current, hold_until)
            is_claimed = True
            return claimed
        finally:
            if not is_claimed:
                await asyncio.shield(self._cleanup.run_detached(self._release_hold(row, hold_until)))

    async def _claim_result(self, request: Request, row: Delegation, hold_until: int) -> ClaimedResult:
        """Claim the result for a caller that may still receive it.

        Access is checked before and not after: a claimed result is no longer in the inbox, so it must be returned.
        """
        await self._revalidate(request)
        claimed = await self._writer.claim_result(row, hold_until)
        request.has_consumed_result = claimed.delivered == _IN_RESPONSE
        return claimed

    async def _release_hold(self, row: Delegation, hold_until: int) -> None:
        """Release the hold on a result. If this cannot be written, the hold ends by its timeout."""
        if not hold_until:
            return
        try:
            await self._writer.release_hold(row, hold_until)
        except MoleculeError as error:
            _log.warning("the result of delegation %s is held until its time is over: %s", row.id, error)
