"""Routes of setup texts for connecting a host of agents to a workspace. The texts contain no token."""

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.query_parameters import enum_param, query_params, read_text_param
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.errors import InvalidField
from molecule_core.tools import host_config


class ConnectRoutes:
    """Routes of the connect page."""

    def __init__(self, *, public_url: str) -> None:
        self._public_url = public_url

    def routes(self) -> list[Route]:
        """Return the routes."""
        operator_of = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.OWN, Role.OPERATOR)
        one, page = "/workspaces/{id}/connect", host_config.ConnectPage
        host_query = query_params(enum_param("host", "The agent's host.", host_config.HOST_NAMES))
        return [
            Route(
                "GET",
                "/hosts",
                self.list_hosts,
                AccessPolicy(PERSON_OR_ADMIN),
                "List the supported hosts",
                None,
                list[host_config.HostRow],
            ),
            Route(
                "GET",
                one,
                self.get_connect_page,
                operator_of,
                "Get the setup steps for a host",
                None,
                page,
                query=host_query,
            ),
        ]

    async def list_hosts(self, _request: Request) -> Response:
        """List all hosts to choose from."""
        return json_response(host_config.host_rows())

    async def get_connect_page(self, request: Request) -> Response:
        """Return the setup steps for the agent's machine."""
        host = host_config.find_host(read_text_param(request.query_params(), "host") or host_config.HOST_NAMES[0])
        if host is None:
            raise InvalidField(reason=f"host has an unknown value. Use one of: {', '.join(host_config.HOST_NAMES)}.")
        return json_response(host_config.connect_page(host, request.workspace.id, self._public_url))
