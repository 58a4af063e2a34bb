"""Routes of vendors' limits: an agent reports one, and it or a person ends it."""

from msgspec import Struct

from molecule_core.access.model import Caller, CredentialKind, Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import parse_time
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.org.limit_writer import LimitWriter
from molecule_core.org.model import LimitEnder, Workspace
from molecule_core.org.reader import OrgReader
from molecule_core.wire.schemas.events import WorkspaceView


class LimitBody(Struct, forbid_unknown_fields=True):
    """A limit that the agent has reached: `until` as RFC 3339, and why in one line."""

    until: str
    reason: str = ""


class WorkspaceLimitRoutes:
    """Routes of the limit of a workspace."""

    def __init__(self, writer: LimitWriter, org: OrgReader) -> None:
        self._writer = writer
        self._org = org

    def routes(self) -> list[Route]:
        """Return the routes."""
        own = AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.OPERATOR)
        path = "/workspaces/{id}/limit"
        return [
            Route("POST", path, self.begin_limit, own, "Limit a workspace until a time", LimitBody, WorkspaceView),
            Route("DELETE", path, self.end_limit, own, "End the limit of a workspace", None, WorkspaceView),
        ]

    async def begin_limit(self, request: Request) -> Response:
        """Record that a vendor's limit keeps the agent from working until a time. Its messages wait until then.

        Returns the workspace; `limited_until` is the recorded time. A time that has passed ends the limit. One that is
        further away than the server's `vendor_limit_hours` is shortened to that.
        """
        body = request.parse_body(LimitBody)
        workspace = await self._writer.begin_limit(
            request.workspace.id, parse_time(body.until, "until"), body.reason, _ender_of(request.caller)
        )
        return self._view_response(workspace)

    async def end_limit(self, request: Request) -> Response:
        """End the limit of a workspace before its time: its messages are delivered again."""
        return self._view_response(await self._writer.end_limit(request.workspace.id, _ender_of(request.caller)))

    def _view_response(self, workspace: Workspace) -> Response:
        return json_response(self._org.workspace_view(workspace))


def _ender_of(caller: Caller) -> LimitEnder:
    return LimitEnder.AGENT if caller.kind is CredentialKind.WORKSPACE else LimitEnder.PERSON
