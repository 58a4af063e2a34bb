"""Posts the changes of tasks to their webhooks.

A process claims webhooks under a lease, and follows the task of each: one event at a time, in order, from the cursor of
the last event that was accepted. Where a process has died, another one goes on. Started by server/composition.py; calls
the writer, the reader of tasks and `poster.py`.
"""

import asyncio
import logging

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import ServerBusy, StoreUnavailable
from molecule_core.common.limits import Limits
from molecule_core.store.wakeups import Notifier, Poll
from molecule_core.webhooks.model import (
    NO_CURSOR,
    WEBHOOKS_KEY,
    TaskChange,
    TaskSource,
    Webhook,
    WebhookKey,
    WebhookState,
)
from molecule_core.webhooks.poster import WebhookPoster
from molecule_core.webhooks.reader import WebhookReader
from molecule_core.webhooks.writer import WebhookWriter

_log = logging.getLogger("molecule.webhooks")
# 5 s: the delay that a lost wake-up, or a process that has died, costs beyond its lease.
_POLL_SECONDS = 5.0
_RETRY_SECONDS = 1.0
# Webhooks that are claimed at once, and that one process follows at most.
_CLAIM_COUNT = 100
_MAX_FOLLOWED = 10_000
# A lease is renewed three times before it ends.
_RENEWALS = 3


class WebhookDispatcher:
    """Worker that follows webhooks and posts to them."""

    def __init__(
        self,
        reader: WebhookReader,
        writer: WebhookWriter,
        source: TaskSource,
        wakeups: Notifier,
        poster: WebhookPoster,
        *,
        holder: str,
        clock: Clock,
        limits: Limits,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._source = source
        self._wakeups = wakeups
        self._poster = poster
        self._holder = holder
        self._clock = clock
        self._limits = limits
        self._followed: dict[WebhookKey, tuple[int, asyncio.Task[None]]] = {}
        self._renewed_at = 0.0

    @property
    def followed_count(self) -> int:
        """Return how many webhooks this process follows."""
        return len(self._followed)

    async def run(self, *, exclusive: bool) -> None:
        """Run until the wake-ups close, then release the webhooks.

        `exclusive`: no other process uses the store, so leases are left over from a dead process."""
        if exclusive:
            try:
                await self._writer.release_all()
            except (StoreUnavailable, ServerBusy):
                _log.warning("webhooks of the previous process are followed when their leases expire")
        while not self._wakeups.closing:
            await self._wakeups.wait_until(WEBHOOKS_KEY, self._claim_due, _POLL_SECONDS)
        tasks = [task for _, task in self._followed.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._writer.release(self._holder)
        except (StoreUnavailable, ServerBusy):
            _log.warning("the webhooks of this process are followed by others when their leases expire")

    # -- which webhooks this process follows ---------------------------------------------------------------------------

    async def _claim_due(self) -> Poll[bool]:
        try:
            await self._renew()
            await self._compare_with_store()
            return Poll(None, next_poll_in=0.0 if await self._claim_batch() else None)
        except (StoreUnavailable, ServerBusy):
            return Poll(None)
        except Exception:
            _log.exception("webhooks could not be claimed; it is retried soon")
            return Poll(None)

    async def _renew(self) -> None:
        now = self._clock.monotonic()
        if self._followed and now - self._renewed_at >= self._limits.webhook_lease_seconds / _RENEWALS:
            await self._writer.renew(self._holder)
            self._renewed_at = now

    async def _compare_with_store(self) -> None:
        """Stop following what was deleted, replaced, or claimed by another process.

        Follow what this process holds: the answer to its claim may have been lost."""
        held = await self._reader.revisions_of(self._holder)
        for key, (rev, task) in list(self._followed.items()):
            if held.get(key) != rev:
                task.cancel()
        for key in held.keys() - self._followed.keys():
            webhook = await self._reader.find(key)
            if webhook is not None and webhook.is_followed_by(self._holder):
                self._start(webhook)

    async def _claim_batch(self) -> bool:
        """Claim due webhooks; return whether there may be more."""
        count = min(_CLAIM_COUNT, _MAX_FOLLOWED - len(self._followed))
        if count <= 0:
            return False
        due = await self._reader.due(self._clock.now(), count)
        keys = [key for key in due if key not in self._followed]
        claimed = await asyncio.gather(*(self._writer.claim(key, self._holder) for key in keys))
        for webhook in filter(None, claimed):
            self._start(webhook)
        return len(keys) == count

    def _start(self, webhook: Webhook) -> None:
        task = asyncio.get_running_loop().create_task(self._follow_safely(webhook))
        self._followed[webhook.key] = (webhook.rev, task)

        def on_done(_task: "asyncio.Task[None]") -> None:
            del self._followed[webhook.key]
            self._wakeups.notify((WEBHOOKS_KEY,))  # a replacement waits until this one has ended

        task.add_done_callback(on_done)

    # -- one webhook ---------------------------------------------------------------------------------------------------

    async def _follow_safely(self, webhook: Webhook) -> None:
        current: Webhook | None = webhook
        while current is not None:
            try:
                return await self._follow(current)
            except (StoreUnavailable, ServerBusy):
                await self._sleep(_RETRY_SECONDS)
            except Exception:
                _log.exception("the changes of a task could not be read for its webhook; it is retried soon")
                await self._sleep(_POLL_SECONDS)
            current = await self._reload(webhook)

    async def _reload(self, webhook: Webhook) -> Webhook | None:
        """Return the webhook as it is stored, if it is still this process's."""
        while True:
            try:
                found = await self._reader.find(webhook.key)
            except (StoreUnavailable, ServerBusy):
                await self._sleep(_RETRY_SECONDS)
                continue
            is_own = found is not None and (found.rev, found.holder) == (webhook.rev, self._holder)
            return found if is_own else None

    async def _follow(self, webhook: Webhook) -> None:
        """Post the task, if it was not posted yet, and its changes until it has ended."""
        current: Webhook | None = webhook
        if webhook.cursor == NO_CURSOR:
            task = await self._source.read_task(webhook)
            if task is None:
                await self._writer.record_end(webhook)
                return
            current = await self._deliver(webhook, task)
        # Read before the changes: those of an ended task are complete when they end.
        while current is not None and not self._wakeups.closing:
            is_over = await self._source.is_over(current)
            current = await self._deliver_changes(current)
            if is_over and current is not None and not self._wakeups.closing:
                await self._writer.record_end(current)
                return

    async def _deliver_changes(self, webhook: Webhook) -> Webhook | None:
        """Post the changes after the cursor as long as there are any; return what `_deliver` returns."""
        current = webhook
        async for change in self._source.changes(webhook, webhook.cursor):
            delivered = await self._deliver(current, change)
            if delivered is None:
                return None
            current = delivered
        return current

    async def _deliver(self, webhook: Webhook, change: TaskChange) -> Webhook | None:
        """Post an event until it is accepted; None if the webhook has failed or is not this process's any more."""
        current: Webhook | None = webhook
        while current is not None and current.state is WebhookState.ACTIVE:
            wait = current.next_at - self._clock.now()
            if wait > 0:
                await self._sleep(wait / SECOND)
            error = await self._poster.post(current, change)
            if error is None:
                return await self._writer.record_posted(current, change.cursor)
            current = await self._writer.record_failure(current, error)
            if current is not None and current.state is WebhookState.FAILED:
                _log.warning(
                    "a webhook is given up after %d attempts: %s",
                    current.failures,
                    error,
                    extra={"workspace_id": current.workspace_id, "task_id": current.task_id},
                )
        return None

    async def _sleep(self, seconds: float) -> None:
        await self._clock.wait(asyncio.get_running_loop().create_future(), seconds)
