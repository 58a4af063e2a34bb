"""Posts one event of a task to a webhook. docs/how-to/a2a.md describes the request for authors of receivers."""

import asyncio
from collections.abc import Awaitable, Callable

from molecule_core.common.clock import SECOND, Clock
from molecule_core.common.errors import FetchFailed, UnsafeUrl
from molecule_core.common.limits import Limits
from molecule_core.common.net.safe_fetch import Fetcher
from molecule_core.messages.delivery.push_signature import PushSigner
from molecule_core.webhooks import rules
from molecule_core.webhooks.model import TaskChange, Webhook
from molecule_core.wire.protocols.a2a_push import TOKEN_HEADER

CONTENT_TYPE = "application/a2a+json"
# 64 KiB: what a receiver responds is not used.
_MAX_RESPONSE_BYTES = 64 << 10

LoadSecrets = Callable[[Webhook], Awaitable[tuple[str, ...]]]
"""Loads the secrets that sign the posts to a webhook: only those that its owner knows."""


class WebhookPoster:
    """Sender of posts, a limited number at once."""

    def __init__(self, fetcher: Fetcher, load_secrets: LoadSecrets, *, clock: Clock, limits: Limits) -> None:
        self._fetcher = fetcher
        self._load_secrets = load_secrets
        self._clock = clock
        self._limits = limits
        self._posting = asyncio.Semaphore(limits.webhook_concurrency)

    async def post(self, webhook: Webhook, change: TaskChange) -> str | None:
        """Post a body; return why it was not accepted, or None."""
        signer = PushSigner(await self._load_secrets(webhook))
        async with self._posting:
            headers = {
                "Content-Type": CONTENT_TYPE,
                "A2A-Version": webhook.line,
                "Idempotency-Key": f"{webhook.task_id}:{webhook.id}:{change.cursor}",
                **({"Authorization": f"{webhook.scheme} {webhook.credentials}"} if webhook.credentials else {}),
                **({TOKEN_HEADER: webhook.token} if webhook.token else {}),
                **signer.headers(change.body, self._clock.now() // SECOND),
            }
            try:
                response = await self._fetcher.post(
                    webhook.url,
                    headers,
                    change.body,
                    timeout_seconds=self._limits.webhook_seconds,
                    max_bytes=_MAX_RESPONSE_BYTES,
                )
            except (UnsafeUrl, FetchFailed) as error:
                return str(error.details["reason"])
        return rules.describe_status(response.status)
