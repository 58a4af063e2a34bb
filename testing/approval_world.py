"""A server with a person and managers, where approvals are requested and decided. The test moves the time."""

from typing import Any, NamedTuple

from molecule_core.client.api import ApiClient, ApiError
from testing.clocks import FakeClock
from testing.running_server import Running, Seat
from testing.waits import bounded, eventually, refused

LEVEL_SECONDS, WHOLE_SECONDS, LEASE_SECONDS = 120, 3600, 600
ACTION = "send the invoice"

Item = dict[str, Any]


class ApprovalWorld(NamedTuple):
    """A server, a person (an operator), and the time, which stands still."""

    server: Running
    person: ApiClient
    clock: FakeClock

    async def seat(self, name: str, under: Seat | None = None, *, here: bool = True) -> Seat:
        """A workspace below another one; `here`: its agent was heard just now."""
        seat = await self.server.seat(name, parent_id=None if under is None else under.id)
        if here:
            await self.hear(seat)
        return seat

    async def hear(self, *seats: Seat) -> None:
        """These agents are there."""
        for seat in seats:
            await seat.api.post("/registry/heartbeat", {"workspace_id": seat.id})

    async def line(self, *names: str) -> list[Seat]:
        """Workspaces below each other, the root first."""
        found = list[Seat]()
        for name in names:
            found.append(await self.seat(name, found[-1] if found else None))
        return found

    async def asks(self, seat: Seat, action: str = ACTION, **more: Any) -> Item:
        """A workspace asks for leave."""
        item: Item = await bounded(seat.api.post(f"/workspaces/{seat.id}/approvals", {"action": action, **more}))
        return item

    async def decides(self, seat: Seat, item: Item, decision: str, **more: Any) -> Item:
        """A workspace decides, by its own id."""
        return await decide(seat.api, seat.id, item, decision, **more)

    async def person_decides(self, item: Item, decision: str, **more: Any) -> Item:
        """The person decides."""
        return await decide(self.person, item["workspace_id"], item, decision, **more)

    async def now(self, item: Item) -> Item:
        """An approval as a person sees it now."""
        found: Item = await self.person.get(path(item))
        return found

    async def stands(self, item: Item, status: str) -> Item:
        """Waits until an approval stands so."""
        return await eventually(lambda: self.now(item), lambda found: found["status"] == status)

    async def held_by(self, item: Item, holder: str) -> Item:
        """Waits until it is the turn of somebody: a kind, or the name of a workspace."""
        return await eventually(
            lambda: self.now(item), lambda found: holder in (found["holder"]["kind"], found["holder"]["name"])
        )

    async def pass_time(self, seconds: float, *here: Seat) -> None:
        """Moves time in steps in which these agents are heard, so that no agent falls silent meanwhile."""
        while seconds > 0:
            await self.clock.advance(min(seconds, 30))
            await self.hear(*here)
            seconds -= 30

    async def mail(self, seat: Seat) -> list[Item]:
        """What an agent claims, with how to answer it."""
        where = f"/workspaces/{seat.id}/activity"
        rows: list[Item] = await bounded(
            seat.api.get(where, claim=LEASE_SECONDS, wait=0, limit=100, include="instructions")
        )
        return rows

    async def owed(self, seat: Seat) -> list[str]:
        """How what a workspace owes stands, oldest first."""
        page = await self.person.get(f"/workspaces/{seat.id}/obligations", state="all", limit=500)
        return [str(each["state"]) for each in page["obligations"]][::-1]


async def decide(api: ApiClient, workspace_id: str, item: Item, decision: str, **more: Any) -> Item:
    """Somebody decides."""
    where = f"/workspaces/{workspace_id}/approvals/{item['approval_id']}/decide"
    found: Item = await bounded(api.post(where, {"decision": decision, **more}))
    return found


async def verb(seat: Seat, item: Item, name: str, **body: Any) -> Any:
    """The requester answers, withdraws or uses."""
    return await bounded(seat.api.post(f"{path(item)}/{name}", body))


def path(item: Item) -> str:
    """Where an approval is read."""
    return f"/workspaces/{item['workspace_id']}/approvals/{item['approval_id']}"


def steps(item: Item) -> list[str]:
    """What has happened, in words."""
    return [f"{each['what']} {(each['holder'] or {}).get('name', '')}".strip() for each in item["path"]]


def text_of(row: Item) -> str:
    """What a message says."""
    return str(row["request_body"]["params"]["message"]["parts"][0]["text"])


async def code(work: Any) -> tuple[int, str]:
    """The status and the code of a refusal."""
    error: ApiError = await refused(work)
    return error.status, error.code
