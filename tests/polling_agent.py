"""An agent that polls, played by a test."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from testing.clocks import FakeClock
from testing.running_server import Running, Seat
from testing.waits import bounded


class PollingAgent(NamedTuple):
    """A seat, a person who writes to it, and the time, which stands still."""

    ops: Seat
    person: ApiClient
    clock: FakeClock
    server: Running

    async def say(self, text: str) -> str:
        return str((await self.person.send(self.ops.id, text))["activity_id"])

    async def read(self, **query: Any) -> Any:
        return await bounded(self.ops.api.get(f"/workspaces/{self.ops.id}/activity", **query))

    async def claim(self, lease: int = 60, wait: int = 0, limit: int = 100) -> Any:
        return await bounded(self.ops.api.claim(self.ops.id, lease=lease, wait=wait, limit=limit))

    async def ack(self, **body: Any) -> int:
        answer = await bounded(self.ops.api.post(f"/workspaces/{self.ops.id}/activity/ack", body))
        return int(answer["last_acked_seq"])

    async def release(self, claims: list[dict[str, Any]]) -> Any:
        return await bounded(self.ops.api.post(f"/workspaces/{self.ops.id}/activity/release", {"claims": claims}))


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]
