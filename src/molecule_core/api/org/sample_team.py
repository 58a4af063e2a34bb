"""Routes of the sample team: a few scripted agents in an organisation, to try the page with."""

from collections.abc import Callable
from typing import Protocol

from molecule_core.access.model import Role
from molecule_core.api.http.response import Response
from molecule_core.api.routing import PERSON_OR_ADMIN, AccessPolicy, Request, Route, WorkspaceScope, json_response
from molecule_core.common.errors import InvalidField
from molecule_core.wire.schemas.live import SampleTeamView


class SampleTeamHost(Protocol):
    """What runs the agents of sample teams: a server that a person has started on their machine."""

    def root_of(self, org_id: str) -> str | None:
        """Return the workspace at the top of an organisation's team, or None."""

    async def add_team(self, org_id: str) -> str:
        """Create the team of an organisation, once, and start its agents. Return the workspace at its top.

        Raises InvalidField."""


class SampleTeamRoutes:
    """Routes of sample teams. `find_host`: returns what runs them; None if this server runs none."""

    def __init__(self, find_host: Callable[[], SampleTeamHost | None]) -> None:
        self._find_host = find_host

    def routes(self) -> list[Route]:
        """Return the routes."""
        path, viewer = "/orgs/{org_id}/sample-team", AccessPolicy(PERSON_OR_ADMIN)
        operator = AccessPolicy(PERSON_OR_ADMIN, WorkspaceScope.NONE, Role.OPERATOR)
        return [
            Route("GET", path, self.get_team, viewer, "Get the sample team", None, SampleTeamView),
            Route("POST", path, self.add_team, operator, "Add the sample team", None, SampleTeamView, 201),
        ]

    async def get_team(self, request: Request) -> Response:
        """Return whether this server can run a sample team, and the one of the organisation."""
        host = self._find_host()
        root_id = None if host is None else host.root_of(request.path_params["org_id"])
        return json_response(SampleTeamView(host is not None, root_id))

    async def add_team(self, request: Request) -> Response:
        """Create the sample team and start its agents; return the existing one if there is one.

        Its workspaces are removed as any other."""
        host = self._find_host()
        if host is None:
            raise InvalidField(
                reason="this server cannot run a sample team. Start one with `molecule up`, or connect an agent."
            )
        return json_response(SampleTeamView(True, await host.add_team(request.path_params["org_id"])), 201)
