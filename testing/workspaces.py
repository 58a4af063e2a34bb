"""What tests do with seats."""

from collections.abc import Awaitable, Callable
from typing import Any

from molecule_core.client.api import ApiClient
from testing.running_server import Seat


async def remove(api: ApiClient, seat: Seat, *, confirm: bool = True) -> Any:
    """Asks for a removal."""
    query = {"confirm": "true"} if confirm else {}
    return await api.call("DELETE", f"/workspaces/{seat.id}", query=query)


def status_of(api: ApiClient, seat: Seat) -> Callable[[], Awaitable[str]]:
    """A look at how a seat stands."""

    async def look() -> str:
        return str((await api.get(f"/workspaces/{seat.id}"))["status"])

    return look


async def beat(seat: Seat, **fields: Any) -> None:
    """A heartbeat."""
    await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id, **fields})
