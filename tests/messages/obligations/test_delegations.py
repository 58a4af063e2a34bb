"""Messages that carry a delegation: nobody is reminded of them, and who follows hears when they are handed over."""

from functools import partial
from typing import Any

import msgspec
import pytest

from molecule_core.messages.events import MessagesDelivered
from molecule_core.messages.model import LOGGABLE_TYPES, MessageDraft, Sender
from molecule_core.messages.obligations.model import AnswerTarget
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Command, CommandSteps, WriteSet
from molecule_core.wire.schemas.activity import ActivityType, Intent, MessageKind
from testing.message_world import REPLY_SECONDS, MessageWorld
from testing.push_agents import said
from testing.running_server import Seat
from tests.requirements import requirement


async def delegate(world: MessageWorld, source: Seat, target: Seat, delegation_id: str) -> str:
    """A message of the kind `delegation`, as the writer of delegations sends it; its id."""
    server = world.server.server
    org, limits = OrgReader(server.registry), server.settings.limits
    writer = MessageWriter(server.store, org, clock=world.clock, ids=server.runtime.ids, limits=limits)
    parts = [{"kind": "text", "text": "sort the mail"}]
    draft = MessageDraft(
        sender=Sender(f"workspace:{source.id}", source.id, None, None),
        params={"metadata": {}},
        message={"kind": "message", "role": "user", "parts": parts, "metadata": {"delegation_id": delegation_id}},
        rpc_id=None,
        text="sort the mail",
        intent=Intent.REQUEST,
        dedupe_key=None,
        context_id=None,
        kind=MessageKind.DELEGATION,
        activity_id=delegation_id,
    )
    keys = writer.send_keys(target.id, draft)
    seat = org.active_workspace(target.id)
    sending = partial(writer.decide_send, target.id, draft, AnswerTarget())
    return (await server.store.run(Command(seat.org_id, keys, sending))).activity_id


@pytest.fixture
def heard(world: MessageWorld) -> list[MessagesDelivered]:
    """What rises of hand-overs."""
    found: list[MessagesDelivered] = []

    def follow(_org_id: str, fact: MessagesDelivered) -> CommandSteps[None]:
        yield from ()
        return WriteSet(None, after_commit=lambda: found.append(fact))

    world.server.server.store.subscribers.subscribe(MessagesDelivered, "a test", follow)
    return found


@requirement("M28")
async def test_an_agent_is_never_reminded_of_a_delegation_and_it_is_never_overdue(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await delegate(world, lead, ops, "d1")
    (row,) = await world.take(ops)
    await ops.api.ack(ops.id, row)
    assert await world.timers() == []
    for _ in range(3):
        await world.pass_time(REPLY_SECONDS)
        assert await world.take(ops) == []
    (owed,) = await world.owed(ops)
    assert (owed["activity_id"], owed["state"], owed["due_at"], owed["reminded_at"]) == ("d1", "open", None, None)


@requirement("M28")
async def test_beside_a_delegation_other_messages_are_watched_as_ever(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await delegate(world, lead, ops, "d1")
    asked = await world.ask(ops, "a question", by=lead)
    assert len(await world.take(ops)) == 2
    assert await world.timers() == [(ops.id, REPLY_SECONDS)]
    await world.pass_time(2 * REPLY_SECONDS)
    await world.pass_time(REPLY_SECONDS)
    assert {each["activity_id"]: each["state"] for each in await world.owed(ops)} == {"d1": "open", asked: "overdue"}


@requirement("M28")
async def test_a_cursor_that_passes_a_delegation_starts_no_watch(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await delegate(world, lead, ops, "d1")
    asked = await world.ask(ops, "a question", by=lead)
    await ops.api.get(f"/workspaces/{ops.id}/activity", since_id=asked)
    owed = {each["activity_id"]: each["due_at"] for each in await world.owed(ops)}
    assert owed["d1"] is None and owed[asked] is not None


@requirement("M18")
async def test_each_hand_over_rises_with_its_attempt(world: MessageWorld, heard: list[MessagesDelivered]) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await delegate(world, lead, ops, "d1")
    await world.ask(ops, "a question", by=lead)
    await delegate(world, lead, ops, "d2")
    await world.take(ops)
    assert heard == [MessagesDelivered(ops.id, (("d1", 1), ("d2", 1)), False, world.clock.now())]
    await world.pass_time(601)
    assert {row["id"] for row in await world.take(ops)} >= {"d1", "d2"}
    assert heard[1:] == [MessagesDelivered(ops.id, (("d1", 2), ("d2", 2)), False, world.clock.now())]


@requirement("M18")
async def test_a_reader_by_cursor_is_heard_once(world: MessageWorld, heard: list[MessagesDelivered]) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    first = await world.ask(ops, "a question", by=lead)
    await delegate(world, lead, ops, "d1")
    for _ in range(2):
        rows = await ops.api.get(f"/workspaces/{ops.id}/activity", since_id=first)
        assert [row["id"] for row in rows] == ["d1"]
    assert heard == [MessagesDelivered(ops.id, (("d1", 1),), False, world.clock.now())]


@requirement("M21")
async def test_a_push_rises_as_a_push(world: MessageWorld, heard: list[MessagesDelivered]) -> None:
    lead = await world.server.seat("Lead")
    ops = await world.server.seat("Ops", delivery_mode="push", url="http://ops.test/a2a")

    async def answering(_pushed: Any) -> Any:
        return said("done")

    world.net.agents["http://ops.test/a2a"] = answering
    await ops.api.post("/registry/heartbeat", {"workspace_id": ops.id, "active_tasks": 0})
    await delegate(world, lead, ops, "d1")
    await world.rest()
    assert heard == [MessagesDelivered(ops.id, (("d1", 1),), True, world.clock.now())]


async def test_messages_of_other_kinds_let_nothing_rise(world: MessageWorld, heard: list[MessagesDelivered]) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await world.ask(ops, "a question")
    await world.ask(ops, "another", by=lead, kind=MessageKind.DELEGATION, delegation_id="d1", delegation="yes")
    assert len(await world.take(ops)) == 2
    assert heard == []


@requirement("D17", "M11")
async def test_no_body_makes_a_message_a_delegation(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await world.ask(ops, "do it", by=lead, kind=MessageKind.DELEGATION, delegation_id="d1")
    row = await world.newest(ops)
    assert (row["kind"], row["request_body"]["params"]["message"]["metadata"]["kind"]) == ("peer_agent", "peer_agent")
    await delegate(world, lead, ops, "d2")
    row = await world.newest(ops)
    body = row["request_body"]["params"]["message"]
    assert (row["id"], row["kind"], row["intent"], body["messageId"]) == ("d2", MessageKind.DELEGATION, "request", "d2")
    assert msgspec.to_builtins(body["metadata"]) == {
        "kind": MessageKind.DELEGATION,
        "intent": Intent.REQUEST,
        "delegation_id": "d2",
    }


@requirement("D6")
async def test_an_answer_that_names_the_delegation_answers_its_message(world: MessageWorld) -> None:
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    await delegate(world, lead, ops, "d1")
    await delegate(world, lead, ops, "d2")
    await world.take(ops)
    await world.ask(lead, "done", by=ops, delegation_id="d1")
    assert await world.state(ops, "d1") == "answered"
    assert await world.state(ops, "d2") == "open"


def test_no_agent_writes_a_row_of_a_delegation_into_its_log() -> None:
    assert ActivityType.DELEGATION not in LOGGABLE_TYPES
