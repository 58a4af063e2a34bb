"""Push notifications of A2A tasks as operators see them. Times are RFC 3339."""

from msgspec import Struct


class WebhookRow(Struct):
    """A push notification configuration of a task, without its secrets.

    `owner`: the caller who created it. `line`: the line of A2A of its notifications. `host`: where they are posted.
    `state`: active, ended (the task has ended) or failed (given up). `posted`: notifications that were accepted.
    `failures`: attempts in a row that failed, the last for the reason `last_error`."""

    task_id: str
    id: str
    owner: str
    line: str
    host: str
    state: str
    posted: int
    failures: int
    last_error: str | None
    next_attempt_at: str | None
    created_at: str
    changed_at: str


class WebhookList(Struct):
    """The newest push notification configurations for tasks of a workspace."""

    webhooks: list[WebhookRow]
