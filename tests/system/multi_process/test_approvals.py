"""Approvals where two servers share one PostgreSQL: who decides first at either, and what the clock does once."""

import asyncio
from pathlib import Path
from typing import Any

from molecule_core.client.api import ApiClient, ApiError
from testing.approval_world import decide, path
from testing.clocks import FakeClock
from testing.running_server import Running, Seat
from testing.waits import bounded, eventually
from tests.requirements import requirement
from tests.system.multi_process.shared_servers import ONLY_WAKE_UPS, knows, servers

_ROUNDS = 12


async def line(one: Running, other: Running) -> list[Seat]:
    """Three workspaces below each other, whose agents were heard, and which both servers know."""
    found = list[Seat]()
    for name in ("Top", "Lead", "Ops"):
        seat = await one.seat(name, parent_id=found[-1].id if found else None)
        await knows(other, seat.id, lambda _seat: True)
        found.append(seat)
    for seat in found:
        await one.api(seat.token).post("/registry/heartbeat", {"workspace_id": seat.id})
        await knows(other, seat.id, lambda seen: seen.status == "online")
    return found


@requirement("Q5", "M38")
async def test_of_two_who_decide_at_two_servers_one_wins_and_the_other_sees_who(place: str, tmp_path: Path) -> None:
    async with servers(place, tmp_path) as (one, other):
        _, lead, ops = await line(one, other)
        for number in range(_ROUNDS):
            item = await bounded(ops.api.post(f"/workspaces/{ops.id}/approvals", {"action": f"step {number}"}))
            agents = one.api(lead.token), other.admin
            both = (decide(agents[0], lead.id, item, "approve"), decide(agents[1], ops.id, item, "deny"))
            found = await asyncio.gather(*(both if number % 2 else both[::-1]), return_exceptions=True)
            (lost,) = [each for each in found if isinstance(each, ApiError)]
            (won,) = [each for each in found if isinstance(each, dict)]
            assert (lost.status, lost.code, lost.problem["approval"]) == (409, "already_decided", won)
            for server in (one, other):
                assert await server.admin.get(path(item)) == won
        told = await eventually(lambda: _told(ops.api, ops.id), lambda told: len(told) >= _ROUNDS)
        assert len(told) == _ROUNDS


async def _told(api: ApiClient, workspace_id: str) -> list[dict[str, Any]]:
    rows = await api.get(f"/workspaces/{workspace_id}/activity", type="a2a_receive", limit=100)
    return [
        each for each in rows if each["request_body"]["params"]["message"]["metadata"]["kind"] == "approval_decision"
    ]


@requirement("Q2", "M38")
async def test_a_level_ends_once_though_every_server_has_its_clock(
    place: str, tmp_path: Path, clock: FakeClock
) -> None:
    async with servers(place, tmp_path, clock=clock, limits=ONLY_WAKE_UPS) as (one, other):
        _, lead, ops = await line(one, other)
        item = await bounded(ops.api.post(f"/workspaces/{ops.id}/approvals", {"action": "deploy"}))
        assert item["holder"]["workspace_id"] == lead.id

        async def moved() -> Any:
            await clock.advance(0)
            return await other.admin.get(path(item))

        await clock.advance(121)
        stands = await eventually(moved, lambda found: found["for_person"])
        passed = [each["holder"]["name"] for each in stands["path"] if each["what"] == "escalated"]
        assert (passed, stands["holder"]["kind"]) == (["Lead", "Top"], "person")  # Top was not heard of either
        await clock.advance(3600)
        ended = await eventually(moved, lambda found: found["status"] == "expired")
        assert [each["what"] for each in ended["path"]].count("expired") == 1
        assert len(await eventually(lambda: _told(ops.api, ops.id), lambda told: len(told) > 0)) == 1
