"""Webhooks of tasks: rows, requests, and what the dispatcher needs of the tasks."""

from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

WEBHOOKS_KEY = "webhooks"
"""The wake-up key of the dispatcher: a webhook was created, replaced or deleted."""
DEFAULT_ID = "default"
"""The id of a webhook that its client did not name."""
NO_CURSOR = -1
"""The cursor of a webhook that has not got the task itself yet."""


class WebhookState(StrEnum):
    """What becomes of the events of the task."""

    ACTIVE = "active"
    """They are posted."""
    ENDED = "ended"
    """All were posted: the task has ended."""
    FAILED = "failed"
    """Too many attempts have failed: no further event is posted."""


class WebhookKey(NamedTuple):
    """Identifies a webhook. `owner`: the key of the caller who created it, who alone can see it."""

    org_id: str
    task_id: str
    owner: str
    id: str


class WebhookTarget(Struct, frozen=True, kw_only=True):
    """Where events are posted to, and how. `line`: the line of A2A that its client speaks.

    `token` and the credentials are sent with each post and returned nowhere. Empty: there is none."""

    line: str
    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"WebhookTarget(line={self.line!r})"


class Webhook(Struct, frozen=True, kw_only=True):
    """A row of `task_webhooks`, in column order. Times are in microseconds; store/schema.sql documents the columns."""

    org_id: str
    task_id: str
    owner: str
    id: str
    workspace_id: str
    line: str
    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""
    rev: int = 1
    state: WebhookState = WebhookState.ACTIVE
    cursor: int = NO_CURSOR
    posted: int = 0
    failures: int = 0
    next_at: int = 0
    last_error: str | None = None
    holder: str = ""
    due: int
    created_at: int
    changed_at: int

    def __repr__(self) -> str:
        """Return a text without secrets."""
        return f"Webhook({self.task_id}, {self.id}, {self.state})"

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Webhook":
        """Build a webhook from a row as the queries select it."""
        columns: dict[str, Any] = dict(zip(cls.__struct_fields__, row, strict=True))
        columns["state"] = WebhookState(columns["state"])
        return cls(**columns)

    @property
    def key(self) -> WebhookKey:
        """Return what identifies it."""
        return WebhookKey(self.org_id, self.task_id, self.owner, self.id)

    def is_followed_by(self, holder: str) -> bool:
        """Return whether it is posted to by this process."""
        return self.state is WebhookState.ACTIVE and self.holder == holder


class TaskChange(NamedTuple):
    """An event of a task, or the task itself, as the body of a post. `cursor`: its number in the journal."""

    cursor: int
    body: bytes


class TaskSource(Protocol):
    """Reads the tasks that webhooks belong to, as far as their owners may see them.

    Bodies are in the webhook's line of A2A."""

    async def read_task(self, webhook: Webhook) -> TaskChange | None:
        """Return the task as it is now; None if its owner cannot see it any more."""

    async def is_over(self, webhook: Webhook) -> bool:
        """Return whether the task has ended, or its owner cannot see it any more."""

    def changes(self, webhook: Webhook, after: int) -> AsyncIterator[TaskChange]:
        """Yield the changes of the task after a cursor, and wait for further ones, until the task has ended.

        Ends also when the server stops, or the owner cannot see the task any more."""
