"""What journeys of templates share: the paths, and what an owner does."""

from typing import Any

from molecule_core.client.api import ApiClient
from testing.running_server import Running, Seat

TERSE = {"lines": ["Be brief: {{ kind }}."]}


class Office:
    """An owner of the first organisation, one of its seats, and its templates."""

    def __init__(self, server: Running, owner: ApiClient, seat: Seat) -> None:
        self.server = server
        self.owner = owner
        self.seat = seat
        org_id = server.server.registry.orgs()[0].id
        self.every = f"/orgs/{org_id}/instruction-templates"
        self.of_seat = f"/cp/admin/workspace/{seat.id}/instruction-template"

    async def save(self, template_id: str, parts: dict[str, Any], **more: Any) -> Any:
        """A new version."""
        return await self.owner.call("PUT", f"{self.every}/{template_id}", body={"parts": parts, **more})

    async def row(self, template_id: str) -> Any:
        """What is in force."""
        return (await self.owner.get(f"{self.every}/{template_id}"))["row"]

    async def preview(self, **wish: Any) -> Any:
        """What the seat's agent would be told."""
        return await self.owner.post(f"{self.every}/preview", {"workspace_id": self.seat.id, **wish})


async def office_of(server: Running, **seat: Any) -> Office:
    """A new one."""
    return Office(server, await server.person("owner"), await server.seat("Ops", **{"runtime": "claude-code", **seat}))
