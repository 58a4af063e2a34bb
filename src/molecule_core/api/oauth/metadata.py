"""Well-known documents: where the authorization server of a resource is (RFC 9728), and what it offers (RFC 8414)."""

from typing import Any

from molecule_core.access.oauth_rules import SCOPES
from molecule_core.api.auth import RESOURCE_METADATA_PATH
from molecule_core.api.http.response import Response
from molecule_core.api.routing import PUBLIC, Request, Route, json_response
from molecule_core.common.errors import RouteNotFound
from molecule_core.common.settings import Settings
from molecule_core.common.text import is_valid_client_id

AUTHORIZE_PATH, TOKEN_PATH, REVOKE_PATH = "/oauth/authorize", "/oauth/token", "/oauth/revoke"
REGISTER_PATH = "/oauth/register"


class OAuthMetadataRoutes:
    """Routes of the well-known documents. Without an issuer they do not exist."""

    def __init__(self, settings: Settings) -> None:
        self._issuer = settings.oauth_issuer
        self._settings = settings

    def routes(self) -> list[Route]:
        """Return the routes."""
        resource = self.get_resource_metadata
        summary = "Get the metadata of the MCP endpoint as an OAuth resource"
        workspace = f"{RESOURCE_METADATA_PATH}/workspaces/{{id}}/mcp"
        return [
            Route("GET", RESOURCE_METADATA_PATH, resource, PUBLIC, summary),
            Route("GET", f"{RESOURCE_METADATA_PATH}/mcp", resource, PUBLIC, summary),
            Route("GET", workspace, resource, PUBLIC, "Get the metadata of a workspace's MCP endpoint"),
            Route(
                "GET",
                "/.well-known/oauth-authorization-server",
                self.get_server_metadata,
                PUBLIC,
                "Get the metadata of the OAuth authorization server",
            ),
        ]

    def _check_enabled(self) -> None:
        if not self._issuer:
            raise RouteNotFound

    async def get_resource_metadata(self, request: Request) -> Response:
        """Return which address the resource has, who issues its tokens, and what they may hold."""
        self._check_enabled()
        workspace_id = request.path_params.get("id")
        if workspace_id is not None and not is_valid_client_id(workspace_id, request.limits.id_length):
            raise RouteNotFound
        path = "/mcp" if workspace_id is None else f"/workspaces/{workspace_id}/mcp"
        return json_response(
            {
                "resource": f"{self._issuer}{path}",
                "authorization_servers": [self._issuer],
                "scopes_supported": list(SCOPES),
                "bearer_methods_supported": ["header"],
                "resource_name": "Molecule",
            }
        )

    async def get_server_metadata(self, _request: Request) -> Response:
        """Return the endpoints of the authorization server and what it supports."""
        self._check_enabled()
        issuer = self._issuer
        metadata: dict[str, Any] = {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}{AUTHORIZE_PATH}",
            "token_endpoint": f"{issuer}{TOKEN_PATH}",
            "revocation_endpoint": f"{issuer}{REVOKE_PATH}",
            "scopes_supported": list(SCOPES),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported": ["none"],
            "revocation_endpoint_auth_methods_supported": ["none"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": self._settings.oauth_client_documents,
        }
        if self._settings.oauth_dynamic_registration:
            metadata["registration_endpoint"] = f"{issuer}{REGISTER_PATH}"
        return json_response(metadata)
