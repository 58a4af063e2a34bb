"""Writes webhooks. No other module changes their table."""

from collections.abc import Callable, Generator
from typing import Any

from msgspec.structs import replace

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import CapacityExceeded
from molecule_core.common.ids import Randomness
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.store.database import Command, CommandSteps, ReadQuery, StepRequest, Store, WriteSet, write_only
from molecule_core.webhooks import rules
from molecule_core.webhooks.model import WEBHOOKS_KEY, Webhook, WebhookKey, WebhookState, WebhookTarget


class WebhookWriter:
    """Writer of webhooks: for clients, and for the dispatcher that follows them."""

    def __init__(self, store: Store, fetcher: Fetcher, *, clock: Clock, randomness: Randomness, limits: Limits) -> None:
        self._store = store
        self._fetcher = fetcher
        self._clock = clock
        self._randomness = randomness
        self._limits = limits

    # -- clients -------------------------------------------------------------------------------------------------------

    async def check(self, config_id: str, target: WebhookTarget) -> None:
        """Check a webhook before its task exists. Raises InvalidField, UnsafeUrl."""
        rules.check_id(config_id, self._limits)
        rules.check_target(target, self._limits)
        await self._fetcher.check_url(target.url)

    async def save(self, key: WebhookKey, workspace_id: str, target: WebhookTarget) -> Webhook:
        """Create a checked webhook, or replace the one with its id: it gets the task as it is, then each change.

        Raises CapacityExceeded."""

        def decide() -> CommandSteps[Webhook]:
            params = {**_task_params(key), "count": self._limits.webhooks_per_task + 1}
            own = yield ReadQuery("webhooks_of_task", params)
            found = [each for each in map(Webhook.from_row, own) if each.id == key.id]
            if not found:
                yield from self._check_capacity(key, len(own))
            now = self._clock.now()
            webhook = Webhook(
                **key._asdict(),
                workspace_id=workspace_id,
                line=target.line,
                url=target.url,
                token=target.token,
                scheme=target.scheme,
                credentials=target.credentials,
                rev=found[0].rev + 1 if found else 1,
                due=now,
                created_at=found[0].created_at if found else now,
                changed_at=now,
            )
            return WriteSet(webhook, [("save_webhook", webhook)], notify=(WEBHOOKS_KEY,))

        return await self._store.run(Command(key.org_id, (("webhooks", key.org_id), key), decide))

    def _check_capacity(self, key: WebhookKey, count: int) -> Generator[StepRequest, Any, None]:
        if count >= self._limits.webhooks_per_task:
            what = "push notification configurations of one task"
            raise CapacityExceeded(what=what, most=self._limits.webhooks_per_task)
        active = yield ReadQuery("count_webhooks", {"org_id": key.org_id})
        rules.check_capacity(active[0][0], self._limits)

    async def delete(self, key: WebhookKey) -> None:
        """Delete a webhook; one that does not exist is no error."""
        deleted = WriteSet(None, [("forget_webhook", key._asdict())], notify=(WEBHOOKS_KEY,))
        await self._store.run(Command(key.org_id, (key,), lambda: write_only(deleted)))

    # -- the dispatcher ------------------------------------------------------------------------------------------------

    async def claim(self, key: WebhookKey, holder: str) -> Webhook | None:
        """Claim a due webhook for a process; None if another one was quicker."""

        def decide() -> CommandSteps[Webhook | None]:
            now = self._clock.now()
            webhook = yield from _load(key)
            if webhook is None or webhook.state is not WebhookState.ACTIVE or webhook.due > now:
                return WriteSet(None)
            claimed = replace(webhook, holder=holder, due=self._lease_end())
            row = {**key._asdict(), "holder": holder, "due": claimed.due}
            return WriteSet(claimed, [("claim_webhook", row)])

        return await self._store.run(Command(key.org_id, (key,), decide))

    async def renew(self, holder: str) -> None:
        """Extend the lease of all webhooks of a process."""
        await self._update_all("renew_webhooks", {"holder": holder, "due": self._lease_end()})

    async def release(self, holder: str) -> None:
        """Release the webhooks of a process, so that others can claim them."""
        await self._update_all("release_webhooks", {"holder": holder, "due": self._clock.now()})

    async def release_all(self) -> None:
        """Release the webhooks of dead processes; only for one that uses the store exclusively."""
        await self._update_all("release_all_webhooks", {"now": self._clock.now()})

    async def _update_all(self, statement: str, row: dict[str, Any]) -> None:
        updated = WriteSet(None, [(statement, row)])
        await self._store.run(Command("", (), lambda: write_only(updated)))

    def _lease_end(self) -> int:
        return self._clock.now() + self._limits.webhook_lease_seconds * SECOND

    async def record_posted(self, webhook: Webhook, cursor: int) -> Webhook | None:
        """Record an event that was accepted; None if the webhook is not this process's any more."""

        def change(current: Webhook) -> Webhook:
            return replace(current, cursor=cursor, posted=current.posted + 1, failures=0, next_at=0, last_error=None)

        return await self._record(webhook, change)

    async def record_failure(self, webhook: Webhook, error: str) -> Webhook | None:
        """Record a failed attempt. The last one ends the webhook."""

        bits = self._randomness.bits(rules.jitter_bits())

        def change(current: Webhook) -> Webhook:
            failures = current.failures + 1
            is_over = failures >= self._limits.webhook_attempts
            next_at = 0 if is_over else self._clock.now() + rules.retry_delay(failures, bits, self._limits)
            state = WebhookState.FAILED if is_over else WebhookState.ACTIVE
            return replace(current, failures=failures, next_at=next_at, state=state, last_error=error)

        return await self._record(webhook, change)

    async def record_end(self, webhook: Webhook) -> None:
        """Record that there will be no further event."""
        await self._record(webhook, lambda current: replace(current, state=WebhookState.ENDED))

    async def _record(self, webhook: Webhook, change: Callable[[Webhook], Webhook]) -> Webhook | None:
        def decide() -> CommandSteps[Webhook | None]:
            current = yield from _load(webhook.key)
            if current is None or (current.rev, current.holder) != (webhook.rev, webhook.holder):
                return WriteSet(None)
            changed = replace(change(current), changed_at=self._clock.now())
            return WriteSet(changed, [("save_webhook_progress", changed)])

        return await self._store.run(Command(webhook.org_id, (webhook.key,), decide))


def _task_params(key: WebhookKey) -> dict[str, str]:
    return {"org_id": key.org_id, "task_id": key.task_id, "owner": key.owner}


def _load(key: WebhookKey) -> Generator[StepRequest, Any, Webhook | None]:
    rows = yield ReadQuery("webhook", key._asdict())
    return Webhook.from_row(rows[0]) if rows else None
