"""Chains of messages, made quickly: loops of agents that always answer, and chains that are frozen already."""

from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from molecule_core.client.api import ApiClient, ApiError
from molecule_core.messages.chains.model import Chain
from molecule_core.messages.chains.writer import _save_chain
from molecule_core.store.database import Command, CommandSteps
from molecule_core.store.journal import Journal
from testing.running_server import Running, Seat


class Loop(NamedTuple):
    """What became of two agents that answer each other for ever."""

    sent: int
    """Messages of agents that were taken."""
    refusal: dict[str, Any] | None


async def frozen_chain(server: Running, org_id: str, workspace_id: str) -> str:
    """The root of a chain that is frozen, without the messages that led to it."""
    root_id = str((await server.admin.send(workspace_id, "begin"))["activity_id"])
    chain = Chain(
        root_id=root_id,
        org_id=org_id,
        workspace_id=workspace_id,
        state="frozen",
        reason="hops",
        trips=1,
        hops=24,
        messages=24,
        small_talk=0,
        most_hops=24,
        most_messages=1000,
        most_small_talk=6,
        frozen_at=(UUID(root_id).int >> 80) * 1000,  # an id begins with its time in milliseconds
    )

    def decide() -> CommandSteps[Any]:
        yield from ()
        return _save_chain(chain, "CHAIN_FROZEN", chain)

    await server.server.store.run(Command(org_id, (), decide))
    return root_id


async def speak(seat: Seat, target_id: str, text: str, **metadata: Any) -> Any:
    """An agent writes to another one."""
    message = {"parts": [{"kind": "text", "text": text}], "metadata": metadata}
    return await seat.api.post(f"/workspaces/{target_id}/a2a", {"params": {"message": message}})


async def take(seat: Seat) -> list[Any]:
    """An agent takes what waits for it."""
    rows: list[Any] = await seat.api.claim(seat.id, wait=0)
    return rows


async def loop(one: Seat, other: Seat, most: int, text: str = "your turn, number") -> Loop:
    """Each answers whatever it gets, and acknowledges it after that; one of them holds a message already."""
    sent, turn = 0, (one, other)
    while sent < most:
        me, peer = turn
        for row in await take(me):
            said = f"{text} {sent}" if text.endswith("number") else text
            try:
                await speak(me, peer.id, said)
            except ApiError as error:
                await me.api.ack(me.id, row)
                return Loop(sent, error.problem)
            await me.api.ack(me.id, row)
            sent += 1
        turn = (peer, me)
    return Loop(sent, None)


async def chains(api: ApiClient, org_id: str, **query: Any) -> list[dict[str, Any]]:
    """The chains of an organisation."""
    found: list[dict[str, Any]] = (await api.get(f"/orgs/{org_id}/chains", **query))["chains"]
    return found


async def events_of(server: Running, org_id: str, name: str) -> list[Any]:
    """What the journal of an organisation tells under one name."""
    facts = await Journal(server.server.store).read_after(org_id, 0, 10_000)
    return [msgspec.json.decode(fact.payload or "{}") for fact in facts if fact.name == name]
