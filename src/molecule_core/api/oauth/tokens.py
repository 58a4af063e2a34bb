"""Token and revocation endpoints of OAuth clients, and the list of apps that are connected to a workspace."""

from msgspec import Struct

from molecule_core.access.model import IssuedGrantTokens, OAuthGrant, Role
from molecule_core.access.oauth_grants import OAuthGrantReader, OAuthGrantWriter
from molecule_core.access.oauth_rules import GrantRefused
from molecule_core.api.http.response import Response
from molecule_core.api.oauth.metadata import REVOKE_PATH, TOKEN_PATH
from molecule_core.api.oauth.protocol import error_json, oauth_json, parse_form, required
from molecule_core.api.routing import (
    PERSON_OR_ADMIN,
    PUBLIC,
    AccessPolicy,
    Request,
    Route,
    WorkspaceScope,
    json_response,
)
from molecule_core.common.clock import SECOND, Clock, to_rfc3339
from molecule_core.common.errors import RouteNotFound
from molecule_core.common.settings import Settings

_TOKEN_FIELDS = (
    *("grant_type", "client_id", "code", "redirect_uri", "code_verifier"),
    *("refresh_token", "resource", "scope"),
)


class OAuthGrantView(Struct, frozen=True):
    """An app that is connected to a workspace by OAuth. `client_name` is what the app calls itself."""

    id: str
    client_id: str
    client_name: str
    person_id: str
    scope: str
    created_at: str
    expires_at: str


class OAuthTokenRoutes:
    """Routes of tokens and grants."""

    def __init__(self, writer: OAuthGrantWriter, reader: OAuthGrantReader, *, clock: Clock, settings: Settings) -> None:
        self._writer = writer
        self._reader = reader
        self._clock = clock
        self._issuer = settings.oauth_issuer

    def routes(self) -> list[Route]:
        """Return the routes."""
        operator_of = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        grants = "/workspaces/{id}/oauth-grants"
        return [
            Route(
                "POST",
                TOKEN_PATH,
                self.issue_tokens,
                PUBLIC,
                "Exchange a code or a refresh token (OAuth)",
                form_fields=_TOKEN_FIELDS,
            ),
            Route(
                "POST",
                REVOKE_PATH,
                self.revoke_token,
                PUBLIC,
                "Revoke a token of an OAuth client (RFC 7009)",
                form_fields=("token", "token_type_hint", "client_id"),
            ),
            Route(
                "GET",
                grants,
                self.list_grants,
                operator_of,
                "List the apps that are connected to a workspace",
                None,
                list[OAuthGrantView],
            ),
            Route(
                "DELETE",
                f"{grants}/{{grant_id}}",
                self.revoke_grant,
                operator_of,
                "Disconnect an app from a workspace",
            ),
        ]

    async def issue_tokens(self, request: Request) -> Response:
        """Return an access token and a refresh token for a code or for the refresh token before."""
        if not self._issuer:
            raise RouteNotFound
        try:
            fields = parse_form(request)
            if b"authorization" in request.headers:  # only public clients are registered; their proof is PKCE
                raise GrantRefused("invalid_client", "the client has no secret. Send client_id in the body")
            issued = await self._exchange(fields)
        except GrantRefused as refused:
            return error_json(refused, 401 if refused.error == "invalid_client" else 400)
        return oauth_json(
            {
                "access_token": issued.access_token,
                "token_type": "Bearer",
                "expires_in": max(0, (issued.expires_at - self._clock.now()) // SECOND),
                "refresh_token": issued.refresh_token,
                "scope": issued.scope,
            }
        )

    async def _exchange(self, fields: dict[str, str]) -> IssuedGrantTokens:
        kind, resource = required(fields, "grant_type"), fields.get("resource", "")
        if kind == "authorization_code":
            return await self._writer.exchange_code(
                required(fields, "code"),
                client_id=required(fields, "client_id"),
                redirect_uri=required(fields, "redirect_uri"),
                verifier=required(fields, "code_verifier"),
                resource=resource,
            )
        if kind == "refresh_token":
            return await self._writer.refresh(
                required(fields, "refresh_token"),
                client_id=required(fields, "client_id"),
                resource=resource,
                scope=fields.get("scope", ""),
            )
        raise GrantRefused("unsupported_grant_type", "grant_type must be authorization_code or refresh_token")

    async def revoke_token(self, request: Request) -> Response:
        """End the grant of a token. A token that is unknown or not the client's gets the same response."""
        if not self._issuer:
            raise RouteNotFound
        try:
            fields = parse_form(request)
            await self._writer.revoke_token(required(fields, "token"), required(fields, "client_id"))
        except GrantRefused as refused:
            return error_json(refused)
        return oauth_json({})

    async def list_grants(self, request: Request) -> Response:
        """List the apps that are connected to a workspace, oldest first, without their tokens."""
        return json_response([_grant_view(each) for each in await self._reader.grants(request.workspace.id)])

    async def revoke_grant(self, request: Request) -> Response:
        """Disconnect an app. Its tokens become invalid at once, and its streams end."""
        workspace, grant_id = request.workspace, request.path_param("grant_id", "connected app")
        grant = await self._writer.revoke_grant(workspace.org_id, workspace.id, grant_id)
        return json_response({"status": "revoked", "id": grant.id})


def _grant_view(grant: OAuthGrant) -> OAuthGrantView:
    return OAuthGrantView(
        grant.id,
        grant.client_id,
        grant.client_name,
        grant.person_id,
        grant.scope,
        to_rfc3339(grant.created_at),
        to_rfc3339(grant.expires_at),
    )
