"""A server with schedules, whose time a test moves."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient
from testing.clocks import FakeClock
from testing.running_server import Running, Seat
from testing.waits import bounded

Item = dict[str, Any]


class ScheduleWorld(NamedTuple):
    """A server, an operator, the time, and the organisation."""

    server: Running
    person: ApiClient
    clock: FakeClock
    org_id: str

    @property
    def path(self) -> str:
        """The path of all schedules."""
        return f"/orgs/{self.org_id}/schedules"

    async def add(self, target: Seat, **more: Any) -> Item:
        """A new schedule: each minute a message, unless told otherwise."""
        body = {"name": "Report", "target_id": target.id, "cron": "* * * * *", "text": "Report.", **more}
        if "once" in more:
            del body["cron"]
        created: Item = await self.person.post(self.path, body)
        return created

    async def get(self, schedule: Item) -> Item:
        """A schedule as it is now."""
        found: Item = await self.person.get(f"{self.path}/{schedule['schedule_id']}")
        return found

    async def runs(self, schedule: Item) -> list[Item]:
        """The runs of a schedule, oldest first."""
        page = await self.person.get(f"{self.path}/{schedule['schedule_id']}/runs")
        found: list[Item] = page["runs"]
        return found[::-1]

    async def outcomes(self, schedule: Item) -> list[str]:
        """The outcomes of the runs of a schedule, oldest first."""
        return [run["outcome"] for run in await self.runs(schedule)]

    async def pause(self, schedule: Item, *, paused: bool) -> Item:
        """Pause or resume a schedule."""
        path = f"{self.path}/{schedule['schedule_id']}/paused"
        changed: Item = await self.person.call("PUT", path, body={"paused": paused})
        return changed

    async def inbox(self, seat: Seat) -> list[Item]:
        """The messages that an agent claims."""
        rows: list[Item] = await bounded(seat.api.get(f"/workspaces/{seat.id}/activity", claim=600, wait=0, limit=100))
        return rows

    async def ack(self, seat: Seat, row: Item) -> None:
        """Acknowledge a message that was claimed once."""
        await seat.api.post(f"/workspaces/{seat.id}/activity/ack", {"activity_id": row["id"], "attempt": 1})
