"""A valid request for every route that reads a body: what a hostile one differs from in one thing alone."""

import itertools
from typing import Any, NamedTuple

from molecule_core.edges.routes import WORKSPACE, Route
from tests.journeys.rawhttp import Reply, ask
from tests.running import ADMIN_TOKEN, Running, Seat

_numbers = itertools.count(1)

ELSEWHERE = {
    "/login": "takes a code that is good once, from our own page: tests/journeys/test_sessions.py",
    "/orgs/{org_id}/chains/{root_id}/release": "takes a frozen chain: tests/journeys/test_chains.py",
    "/mcp": "speaks JSON-RPC: tests/endpoint/",
    "/workspaces/{id}/mcp": "speaks JSON-RPC: tests/endpoint/",
    "/workspaces/{id}/chat/uploads": "takes a form: tests/edges/test_uploads.py",
    "/workspaces/{id}/external/rotate": "ends the token that others use here: tests/journeys/test_tokens.py",
}
BODYLESS = {
    "/admin/prune",
    "/logout",
    "/orgs/{org_id}/chains/{root_id}/end",
    "/orgs/{org_id}/people/{person_id}/tokens",
    "/workspaces/{id}/dead-letters/{activity_id}/requeue",
    "/workspaces/{id}/pending-uploads/{file_id}/ack",
    *(f"/workspaces/{{id}}/{act}" for act in ("pause", "resume", "hibernate", "collapse", "tokens")),
}
"""Commands that need no body, and read none."""


class Target(NamedTuple):
    """A route that reads JSON, with its placeholders filled and a credential that it takes."""

    route: Route
    path: str
    token: str
    seat: Seat
    port: int

    @property
    def name(self) -> str:
        """How the route is called in a failure."""
        return f"{self.route.method} {self.route.path}"

    def valid(self) -> dict[str, Any]:
        """A body that the route takes."""
        return valid_body(self.route, self.seat)

    async def ask(self, body: Any) -> Reply:
        """Sends a body, of bytes or as JSON, on a connection of its own."""
        return await ask(self.port, self.route.method, self.path, body, token=self.token)


async def json_targets(server: Running) -> list[Target]:
    """Every route that reads JSON, all about one seat."""
    seat = await server.seat("Target")
    await server.let_broadcast(seat.id)
    org = (await server.admin.get("/orgs"))[0]["id"]
    person = await server.admin.post(f"/orgs/{org}/people", {"name": "Somebody"})
    return [
        Target(
            route=route,
            path=route.path.replace("{id}", seat.id).replace("{org_id}", org).replace("{person_id}", person["id"]),
            token=seat.token if WORKSPACE in route.who.kinds else ADMIN_TOKEN,
            seat=seat,
            port=server.port,
        )
        for route in server.server.routes.rows
        if (route.takes is not None or route.path.endswith("/a2a")) and route.path not in ELSEWHERE
    ]


def valid_body(route: Route, seat: Seat) -> dict[str, Any]:
    """The least that a route takes."""
    bodies: dict[str, dict[str, Any]] = {
        "/orgs": {"name": f"Org {next(_numbers)}"},
        "/orgs/{org_id}/people": {"name": "Somebody"},
        "/orgs/{org_id}/login-links": {},
        "/workspaces": {"name": "New"},
        "/orgs/{org_id}/people/{person_id}": {},
        "/orgs/{org_id}/invitations": {"name": "Somebody"},
        "/workspaces/{id}": {},
        "/workspaces/{id}/expand": {"children": [{"name": "New"}]},
        "/workspaces/{id}/abilities": {"talk_to_user_enabled": True},
        "/workspaces/{id}/a2a": {"params": {"message": {"parts": [{"kind": "text", "text": "hello"}]}}},
        "/workspaces/{id}/notify": {"message": "hello"},
        "/workspaces/{id}/broadcast": {"message": "hello"},
        "/workspaces/{id}/activity": {"activity_type": "agent_log"},
        "/workspaces/{id}/activity/ack": {"acked_seq": 0},
        "/workspaces/{id}/activity/release": {"claims": [{"activity_id": "a-1", "attempt": 1}]},
        "/workspaces/{id}/chat/read": {"seq": 0},
        "/workspaces/{id}/memories": {"content": f"hello {next(_numbers)}"},
        "/workspaces/{id}/memory": {"key": "a", "value": 1},
        "/registry/register": {"id": seat.id, "agent_card": {}},
        "/registry/heartbeat": {"workspace_id": seat.id},
        "/registry/update-card": {"workspace_id": seat.id, "agent_card": {}},
        "/registry/check-access": {"caller_id": seat.id, "target_id": seat.id},
    }
    return bodies[route.path]


async def left_behind(server: Running, seat: Seat) -> tuple[int, int, int]:
    """How many organisations, seats and rows there are: what a refused request must not change."""
    orgs, seats = await server.admin.get("/orgs"), await server.admin.get("/workspaces")
    return len(orgs), len(seats), len(await server.admin.get(f"/workspaces/{seat.id}/activity", limit=500))
