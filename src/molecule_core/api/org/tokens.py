"""Routes of workspace tokens and push secrets: list, issue, revoke, rotate; connection details.

A token or secret is shown only once."""

from typing import Any

from msgspec import Struct

from molecule_core.access.model import Role, Token
from molecule_core.access.reader import AccessReader
from molecule_core.access.writer import AccessWriter
from molecule_core.api.http.response import Response
from molecule_core.api.live.hub import LiveHub
from molecule_core.api.org.workspaces import connection_details
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.clock import to_optional_rfc3339, to_rfc3339
from molecule_core.common.errors import InvalidField
from molecule_core.org.model import Workspace

_REVOKED_REASON = "the token was revoked"


class RotateTokensBody(Struct, forbid_unknown_fields=True):
    """How long the old tokens stay valid."""

    grace_seconds: int = 0


class RotatePushSecretBody(Struct, forbid_unknown_fields=True):
    """How long the old secret also signs; by default as long as it may."""

    grace_seconds: int | None = None


class RotatedPushSecretResponse(Struct, frozen=True):
    """The new secret, shown only here; `ended` older ones sign until `ends_at`."""

    status: str
    push_secret: str
    ended: int
    ends_at: str


class TokenView(Struct, omit_defaults=True):
    """A valid token. `hint` is its beginning; `auth_token`, all of it, only in the response that creates it."""

    id: str
    hint: str
    created_at: str
    expires_at: str | None = None
    auth_token: str | None = None


class TokenRoutes:
    """Routes of a workspace's tokens."""

    def __init__(self, writer: AccessWriter, reader: AccessReader, live: LiveHub, *, public_url: str) -> None:
        self._writer = writer
        self._reader = reader
        self._live = live
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """Return the routes."""
        tokens, external = "/workspaces/{id}/tokens", "/workspaces/{id}/external"
        operator_of = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        return [
            Route(
                "GET", tokens, self.list_tokens, operator_of, "List the tokens of a workspace", None, list[TokenView]
            ),
            Route(
                "POST",
                tokens,
                self.issue_token,
                operator_of,
                "Issue an additional token for a workspace",
                None,
                TokenView,
                201,
            ),
            Route("DELETE", f"{tokens}/{{token_id}}", self.revoke_token, operator_of, "Revoke a token of a workspace"),
            Route(
                "POST",
                f"{external}/rotate",
                self.rotate_tokens,
                operator_of,
                "Rotate the tokens of a workspace",
                RotateTokensBody,
                body_optional=True,
            ),
            Route(
                "POST",
                "/workspaces/{id}/push-secret/rotate",
                self.rotate_push_secret,
                operator_of,
                "Rotate the secret that signs the pushes to a workspace",
                RotatePushSecretBody,
                RotatedPushSecretResponse,
                body_optional=True,
            ),
            Route(
                "GET",
                f"{external}/connection",
                self.get_connection,
                operator_of,
                "Get the connection details of a workspace",
            ),
        ]

    async def list_tokens(self, request: Request) -> Response:
        """List tokens by hints and times, never the tokens themselves."""
        return json_response(
            [to_token_view(each) for each in await self._reader.workspace_tokens(request.workspace.id)]
        )

    async def issue_token(self, request: Request) -> Response:
        """Issue an additional token, which is shown only once."""
        issued = await self._writer.issue_workspace_token(request.workspace.org_id, request.workspace.id)
        return json_response(to_token_view(issued.info, issued.token), 201)

    async def revoke_token(self, request: Request) -> Response:
        """Revoke a token. It becomes invalid and its live channels end."""
        workspace = request.workspace
        token = await self._writer.revoke_workspace_token(
            workspace.org_id, workspace.id, request.path_params["token_id"]
        )
        self._live.end_credentials((token.hash,), _REVOKED_REASON)
        return json_response({"status": "revoked", "id": token.id})

    async def rotate_tokens(self, request: Request) -> Response:
        """Issue a new token, shown only once; the old ones become invalid at once, or after `grace_seconds`."""
        grace, maximum = request.parse_body(RotateTokensBody).grace_seconds, request.limits.grace_seconds
        if not 0 <= grace <= maximum:
            raise InvalidField(reason=f"grace_seconds cannot be {grace}. Use a number from 0 to {maximum}.")
        rotated = await self._writer.rotate_workspace_tokens(request.workspace.org_id, request.workspace.id, grace)
        self._live.end_credentials(rotated.ended_hashes, _REVOKED_REASON, rotated.ends_at)
        answer: dict[str, Any] = {
            "status": "rotated",
            "connection": self._connection_details(request.workspace, rotated.issued.token),
            "ended": len(rotated.ended_hashes),
            "ends_at": to_rfc3339(rotated.ends_at),
        }
        return json_response(answer)

    async def rotate_push_secret(self, request: Request) -> Response:
        """Create a new secret, shown only once; the old one also signs for `grace_seconds`."""
        maximum = request.limits.push_secret_grace_seconds
        grace = request.parse_body(RotatePushSecretBody).grace_seconds
        grace = maximum if grace is None else grace
        if not 0 <= grace <= maximum:
            raise InvalidField(reason=f"grace_seconds cannot be {grace}. Use a number from 0 to {maximum}.")
        workspace = request.workspace
        rotated = await self._writer.push_secrets.rotate(workspace.org_id, workspace.id, grace)
        ends_at = to_rfc3339(rotated.ends_at)
        return json_response(RotatedPushSecretResponse("rotated", rotated.secret, rotated.ended, ends_at))

    async def get_connection(self, request: Request) -> Response:
        """Return the connection details as at the workspace's creation, without the token."""
        return json_response({"connection": self._connection_details(request.workspace, None)})

    def _connection_details(self, workspace: Workspace, token: str | None) -> dict[str, str]:
        return connection_details(workspace.id, token, self._public_url, mode=workspace.delivery_mode)


def to_token_view(token: Token, secret: str | None = None) -> TokenView:
    """Convert a token to the form that people see."""
    expires_at = to_optional_rfc3339(token.expires_at)
    return TokenView(token.id, token.hint, to_rfc3339(token.created_at), expires_at, secret)
