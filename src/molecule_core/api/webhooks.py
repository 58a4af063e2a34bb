"""Route of webhooks: whether the push notifications of A2A tasks arrive."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import LIMIT, query_params, read_int_param
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_rfc3339
from molecule_core.common.limits import Limits
from molecule_core.common.net.parsed_url import parse_url
from molecule_core.webhooks.model import Webhook
from molecule_core.webhooks.reader import WebhookReader
from molecule_core.wire.schemas.webhooks import WebhookList, WebhookRow

_DEFAULT_PAGE = 100


class WebhookRoutes:
    """Route of webhooks."""

    def __init__(self, reader: WebhookReader, *, limits: Limits) -> None:
        self._reader = reader
        self._limits = limits

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(
                "GET",
                "/workspaces/{id}/webhooks",
                self.list_webhooks,
                AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR),
                "List the push notification configurations of a workspace's tasks",
                None,
                WebhookList,
                query=query_params(LIMIT),
            )
        ]

    async def list_webhooks(self, request: Request) -> Response:
        """List the push notification configurations (A2A) of the tasks of a workspace, newest first.

        Shows what becomes of their notifications; never their addresses, tokens and credentials."""
        maximum = self._limits.page_rows
        count = read_int_param(request.query_params(), "limit", minimum=1, maximum=maximum)
        found = await self._reader.webhooks_of_workspace(request.workspace.id, count or min(_DEFAULT_PAGE, maximum))
        return json_response(WebhookList([self._row_of(each) for each in found]))

    def _row_of(self, webhook: Webhook) -> WebhookRow:
        return WebhookRow(
            task_id=webhook.task_id,
            id=webhook.id,
            owner=webhook.owner,
            line=webhook.line,
            host=parse_url(webhook.url, self._limits.url_length).authority,
            state=webhook.state.value,
            posted=webhook.posted,
            failures=webhook.failures,
            last_error=webhook.last_error,
            next_attempt_at=to_rfc3339(webhook.next_at) if webhook.next_at else None,
            created_at=to_rfc3339(webhook.created_at),
            changed_at=to_rfc3339(webhook.changed_at),
        )
