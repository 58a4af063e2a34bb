"""A task and its result as a real server stores them and hands them over: one agent delegates, the other takes the task
and answers, the first takes the result. Time stands still and chance repeats, so every run has the same ids."""

import asyncio
import functools
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from molecule_core.messages.model import ActivityFilters, ActivityPageRow
from molecule_core.org.model import Org, Workspace
from molecule_core.store.sqlite.store import DATABASE_FILE
from testing.clocks import FakeClock
from testing.message_world import handle, reply
from testing.push_agents import PushNetwork as Net
from testing.running_server import Running, Seat, running
from tests.instructions.runtimes import card_of, runtime_of

PUBLIC_URL = "https://molecule.example"
TASK, RESULT = "Is the <plan> ready?", "It is, & it is <checked>."


class Delivery(NamedTuple):
    """A message that was handed over. `row`: as the store holds it, in the attempt that was made; `claimed`: what the
    agent was answered; `org`, `own` and `peer`: where that was, whose message it is, and whom it is from."""

    row: ActivityPageRow
    claimed: dict[str, Any]
    org: Org
    own: Workspace
    peer: Workspace


@functools.cache
def delivered(agent: str) -> dict[str, Delivery]:
    """The task and its result, by kind, between two agents of a sort."""
    return asyncio.run(_deliver(agent))


async def _deliver(agent: str) -> dict[str, Delivery]:
    told: dict[str, Any] = {
        "push_instructions_enabled": True,
        "public_url": PUBLIC_URL,
        "allowed_hosts": ("127.0.0.1",),
    }
    with tempfile.TemporaryDirectory(prefix="molecule-telling-") as folder:
        place, net, clock = Path(folder, DATABASE_FILE), Net(), FakeClock()
        async with running("sqlite", str(place), Path(folder), clock=clock, fetcher=net, **told) as server:
            return await _between(server, agent)


async def _between(server: Running, agent: str) -> dict[str, Delivery]:
    lead, ops = await _seat(server, agent, "Lead", "leads"), await _seat(server, agent, "Ops")
    await lead.api.post(f"/workspaces/{lead.id}/delegate", {"target_id": ops.id, "task": TASK})
    task = await _claimed(ops)
    await reply(ops, handle(task), RESULT)
    result = await _claimed(lead)
    return {
        "delegation": await _as_stored(server, task, ops, lead),
        "delegation_result": await _as_stored(server, result, lead, ops),
    }


async def _seat(server: Running, agent: str, name: str, role: str | None = None) -> Seat:
    seat = await server.seat(name, role=role, runtime=runtime_of(agent))
    body = {"id": seat.id, "agent_card": card_of(agent, name), "delivery_mode": "poll"}
    await seat.api.post("/registry/register", body)
    return seat


async def _claimed(seat: Seat) -> dict[str, Any]:
    """The one message that waits."""
    (row,) = await seat.api.get(f"/workspaces/{seat.id}/activity", claim=600, wait=0, include="instructions,peer_info")
    found: dict[str, Any] = row
    return found


async def _as_stored(server: Running, claimed: dict[str, Any], own: Seat, peer: Seat) -> Delivery:
    all_of = {**msgspec.structs.asdict(ActivityFilters()), "workspace_id": own.id, "seq": 0, "living": 0}
    page = {**all_of, "count": 100, "page_bytes": 1 << 20}
    rows = [ActivityPageRow(*row) for row in await server.server.store.rows("activity_after", page)]
    (row,) = [row for row in rows if row.id == claimed["id"]]
    registry = server.server.registry
    whose, whom = registry.workspace(own.id), registry.workspace(peer.id)
    assert whose is not None and whom is not None
    (org,) = [org for org in registry.orgs() if org.id == whose.org_id]
    return Delivery(replace(row, attempt=claimed["attempt"]), claimed, org, whose, whom)
