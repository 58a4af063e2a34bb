"""Reads webhooks."""

from molecule_core.common.errors import NotFound
from molecule_core.common.limits import Limits
from molecule_core.store.database import Store
from molecule_core.webhooks import rules
from molecule_core.webhooks.model import Webhook, WebhookKey

NOT_FOUND = "push notification configuration"
"""What an unknown webhook is called in errors: the term of A2A."""


class WebhookReader:
    """Reader of webhooks."""

    def __init__(self, store: Store, *, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    async def webhook(self, key: WebhookKey) -> Webhook:
        """Return a webhook. Raises NotFound."""
        webhook = await self.find(key)
        if webhook is None:
            raise NotFound(what=NOT_FOUND)
        return webhook

    async def find(self, key: WebhookKey) -> Webhook | None:
        """Return a webhook, if it exists."""
        rows = await self._store.rows("webhook", key._asdict())
        return Webhook.from_row(rows[0]) if rows else None

    async def webhooks_of_task(self, org_id: str, task_id: str, owner: str) -> list[Webhook]:
        """Return the webhooks of a caller for a task, by id."""
        params = {"org_id": org_id, "task_id": task_id, "owner": owner, "count": self._limits.webhooks_per_task}
        return [Webhook.from_row(row) for row in await self._store.rows("webhooks_of_task", params)]

    async def webhooks_of_workspace(self, workspace_id: str, count: int) -> list[Webhook]:
        """Return the newest webhooks for tasks of a workspace."""
        params = {"workspace_id": workspace_id, "count": count}
        return [Webhook.from_row(row) for row in await self._store.rows("webhooks_of_workspace", params)]

    async def check_capacity(self, org_id: str) -> None:
        """Check that an organisation may have one more webhook. Raises CapacityExceeded."""
        rows = await self._store.rows("count_webhooks", {"org_id": org_id})
        rules.check_capacity(rows[0][0], self._limits)

    async def due(self, now: int, count: int) -> list[WebhookKey]:
        """Return webhooks that no running process follows, longest due first."""
        return [WebhookKey(*row) for row in await self._store.rows("due_webhooks", {"now": now, "count": count})]

    async def revisions_of(self, holder: str) -> dict[WebhookKey, int]:
        """Return the webhooks that a process follows, with their revisions."""
        rows = await self._store.rows("webhooks_of_holder", {"holder": holder})
        return {WebhookKey(*row[:4]): row[4] for row in rows}
