"""Route that says what a workspace may do for the delegations that it works on."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import query_params, read_text_param, string_param
from molecule_core.api.routing import ALL_CREDENTIALS, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.delegations.errors import ScopeExceeded
from molecule_core.delegations.scopes import SCOPE_REMEDY, ScopeReader, allows_tool, combined
from molecule_core.wire.schemas.delegation_scope import ScopeResponse


class ScopeRoutes:
    """Route that says what a workspace may do."""

    def __init__(self, scopes: ScopeReader) -> None:
        self._scopes = scopes

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route(
                "GET",
                "/workspaces/{id}/scope",
                self.get_scope,
                AccessPolicy(ALL_CREDENTIALS, WorkspaceScope.OWN, Role.VIEWER),
                "Get what a workspace may do",
                None,
                ScopeResponse,
                query=query_params(
                    string_param("tool", "Whether this tool may be used."),
                    string_param("delegation_id", "Only for this delegation; default: all that it works on."),
                ),
            )
        ]

    async def get_scope(self, request: Request) -> Response:
        """Return what the delegations that a workspace works on may do, and whether a tool may be used.

        An agent asks this before it runs a tool of its own, which the server cannot see. `delegation_id` names the
        delegation for which it acts; otherwise the scopes of all that it works on apply at once.
        """
        query = request.query_params()
        tool, named = read_text_param(query, "tool"), read_text_param(query, "delegation_id")
        try:
            held = await self._scopes.applying(request.workspace.org_id, request.workspace.id, named)
        except ScopeExceeded as error:
            return json_response(ScopeResponse(allowed=False, reason=error.text))
        scope = combined(held)
        is_allowed = tool is None or allows_tool(scope, tool)
        return json_response(
            ScopeResponse(
                delegations=[each.row.id for each in held],
                may=scope if held else None,
                allowed=is_allowed,
                reason="" if is_allowed else ScopeExceeded(what=f"the tool {tool}", remedy=SCOPE_REMEDY).text,
            )
        )
