"""A company on a server: three teams, real rows, agents that a test plays by hand through the public API."""

from molecule_core.client.api import ApiClient
from testing.running_server import Running, Seat

TEAMS = {
    "Engineering": ("Backend", "Frontend", "Quality"),
    "Research": ("Reader", "Writer"),
    "Support": ("First line", "Second line", "Night shift"),
}


class Stage:
    """The company. `seats` by name; each seat's `api` is its agent."""

    def __init__(self, server: Running) -> None:
        self.server = server
        self.seats: dict[str, Seat] = {}

    @property
    def admin(self) -> ApiClient:
        """A client of the admin."""
        return self.server.admin

    async def link(self) -> str:
        """A one-time login link for the owner."""
        return await self.server.server.login_link()

    async def link_for(self, role: str) -> str:
        """A one-time login link for a new person with a role."""
        org_id = (await self.admin.get("/orgs"))[0]["id"]
        person = await self.admin.post(f"/orgs/{org_id}/people", {"name": f"A {role}", "role": role})
        return str((await self.admin.post(f"/orgs/{org_id}/login-links", {"person_id": person["id"]}))["url"])

    async def add(self, name: str, parent: str | None = None, role: str | None = None) -> Seat:
        """One more agent, online."""
        parent_id = None if parent is None else self.seats[parent].id
        seat = await self.server.seat(name, parent_id=parent_id, role=role)
        self.seats[name] = seat
        await seat.api.post("/registry/register", {"id": seat.id, "agent_card": {"name": name}})
        await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id})
        return seat

    async def say(self, name: str, text: str) -> str:
        """The agent of a seat writes to its user; the id of the message."""
        seat = self.seats[name]
        answer = await seat.api.post(f"/workspaces/{seat.id}/notify", {"message": text})
        return str(answer["activity_id"])

    async def write(self, name: str, text: str) -> None:
        """Somebody who is not the page's person, the admin, writes to a workspace."""
        message = {"role": "user", "messageId": f"of-the-admin-{len(text)}", "parts": [{"kind": "text", "text": text}]}
        body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": {"message": message}}
        await self.admin.post(f"/workspaces/{self.seats[name].id}/a2a", body)

    async def heard_by(self, name: str) -> list[str]:
        """What people wrote to an agent, oldest first."""
        seat = self.seats[name]
        page = await seat.api.get(f"/workspaces/{seat.id}/chat-history", limit=1000)
        return [each["content"] for each in page["messages"] if each["role"] == "user"]


async def staged(server: Running) -> Stage:
    """Lead, the teams below it, and who is in them."""
    stage = Stage(server)
    await stage.add("Lead", role="Coordinates the company")
    for team, members in TEAMS.items():
        await stage.add(team, "Lead", f"Leads {team.lower()}")
        for member in members:
            await stage.add(member, team)
    return stage
