"""Route for push notifications of A2A agents of others, of both lines of the protocol.

The body is received and not read: a notification only makes the server ask the agent for the task."""

from molecule_core.a2a_agents.writer import NOTIFICATION_PATH, TaskNotifications
from molecule_core.api.http.response import Response
from molecule_core.api.rate_limits import RateClass
from molecule_core.api.routing import PUBLIC, Request, Route, json_response
from molecule_core.wire.protocols.a2a_push import TOKEN_HEADER

_TOKEN_HEADER = TOKEN_HEADER.lower().encode()


class NotificationRoutes:
    """Route for push notifications. The token of the task is the credential."""

    def __init__(self, notifications: TaskNotifications) -> None:
        self._notifications = notifications

    def routes(self) -> list[Route]:
        """Return the routes."""
        about = "Notify of a change of a task at an A2A agent"
        return [
            Route(
                "POST",
                NOTIFICATION_PATH,
                self.accept_notification,
                PUBLIC,
                about,
                status=202,
                rate_class=RateClass.NOTIFICATION,
            )
        ]

    async def accept_notification(self, request: Request) -> Response:
        """Ask the agent for the task; 404 for an unknown task and for a wrong token."""
        workspace_id = request.path_param("workspace_id", "task")
        activity_id = request.path_param("activity_id", "task")
        scheme, _, credentials = (request.header(b"authorization") or "").partition(" ")
        bearer = credentials.strip() if scheme.lower() == "bearer" else ""
        given = (request.header(_TOKEN_HEADER) or "", bearer)
        await self._notifications.accept(workspace_id, activity_id, tuple(filter(None, given)))
        return json_response({"status": "accepted"}, 202)
