"""Steps of delegations: begin one as the API does, claim and answer it over HTTP, read it back from the store."""

import asyncio
from typing import Any

import msgspec

from molecule_core.delegations.model import BeginResult, Delegation, DelegationRequest, TimelineRow
from molecule_core.messages.model import Sender
from testing.message_world import MessageWorld
from testing.running_server import Seat
from testing.waits import IN_PROCESS_SECONDS, eventually


def asked(source: Seat, target: Seat, task: str = "sort the mail", **more: Any) -> DelegationRequest:
    """What a workspace wants done by another one."""
    return DelegationRequest(
        source_id=source.id,
        target_id=target.id,
        parts=[{"kind": "text", "text": task}],
        task=task,
        sender=Sender(f"workspace:{source.id}", source.id, None, None),
        **more,
    )


async def begin(
    world: MessageWorld, source: Seat, target: Seat, task: str = "sort the mail", **more: Any
) -> BeginResult:
    """A workspace delegates."""
    async with asyncio.timeout(IN_PROCESS_SECONDS):
        return await world.server.server.delegations.writer.begin(asked(source, target, task, **more))


async def row_of(world: MessageWorld, delegation_id: str) -> Delegation:
    """A delegation as it is committed."""
    server = world.server.server
    return await server.delegations.reader.get_delegation(server.registry.orgs()[0].id, delegation_id)


async def over(world: MessageWorld, delegation_id: str) -> Delegation:
    """Waits until a delegation has ended: where processes share timers, one that is being looked after does not look
    due."""
    return await eventually(lambda: row_of(world, delegation_id), lambda row: not row.open)


async def line_of(world: MessageWorld, delegation_id: str) -> list[TimelineRow]:
    """Its time line."""
    server = world.server.server
    return await server.delegations.reader.timeline(server.registry.orgs()[0].id, delegation_id)


async def told_of(world: MessageWorld, delegation_id: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of one delegation, in order: (name, payload)."""
    store, org_id = world.server.server.store, world.server.server.registry.orgs()[0].id
    facts = await store.rows("events_after", {"org_id": org_id, "seq": 0, "count": 10_000})
    return [(row[1], msgspec.json.decode(row[8])) for row in facts if (row[4], row[5]) == ("delegation", delegation_id)]


async def names_of(world: MessageWorld) -> list[str]:
    """The names of all events of the organisation about messages and delegations, in order."""
    store, org_id = world.server.server.store, world.server.server.registry.orgs()[0].id
    facts = await store.rows("events_after", {"org_id": org_id, "seq": 0, "count": 10_000})
    return [row[1] for row in facts if row[4] in ("delegation", "activity", "refusal")]


async def prune(world: MessageWorld) -> dict[str, int]:
    """A whole round of retention, batch by batch, while time stands still; how many of what it took. (Where a round has
    never ended yet it must be called before time passes, or the server's own round comes between.)"""
    retention = world.server.server._retention
    before, done = dict(retention.deleted_rows), retention.rounds
    while retention.rounds == done:
        async with asyncio.timeout(IN_PROCESS_SECONDS):
            await retention.on_due("")
    return {
        what: rows - before.get(what, 0) for what, rows in retention.deleted_rows.items() if rows > before.get(what, 0)
    }
