"""Messages that carry a delegation: nobody is reminded of them, and who follows hears when they are handed over."""

from collections.abc import Generator
from functools import partial
from typing import Any

import msgspec
import pytest

from molecule_core.messages.events import MessagesDelivered
from molecule_core.messages.model import (
    INTENT_REQUEST,
    KIND_DELEGATION,
    LOGGABLE_TYPES,
    TYPE_DELEGATION,
    MessageDraft,
    Sender,
)
from molecule_core.messages.obligations.model import AnswerTarget
from molecule_core.messages.writer import MessageWriter
from molecule_core.org.reader import OrgReader
from molecule_core.store.database import Changes, Command, StepRequest
from tests.answers.office import REPLY_SECONDS, Office
from tests.delivery.agents import said
from tests.requirements import requirement
from tests.running import Seat


async def delegate(office: Office, source: Seat, target: Seat, delegation_id: str) -> str:
    """A message of the kind `delegation`, as the writer of delegations sends it; its id."""
    server = office.server.server
    org, limits = OrgReader(server.registry), server.settings.limits
    writer = MessageWriter(server.store, org, clock=office.clock, ids=server._ids, limits=limits)
    parts = [{"kind": "text", "text": "sort the mail"}]
    draft = MessageDraft(
        sender=Sender(f"workspace:{source.id}", source.id, None, None),
        params={"metadata": {}},
        message={"kind": "message", "role": "user", "parts": parts, "metadata": {"delegation_id": delegation_id}},
        rpc_id=None,
        text="sort the mail",
        intent=INTENT_REQUEST,
        dedupe_key=None,
        context_id=None,
        kind=KIND_DELEGATION,
        activity_id=delegation_id,
    )
    keys = writer.send_keys(target.id, draft)
    seat = org.active_workspace(target.id)
    sending = partial(writer.decide_send, target.id, draft, AnswerTarget())
    return (await server.store.run(Command(seat.org_id, keys, sending))).activity_id


@pytest.fixture
def heard(office: Office) -> list[MessagesDelivered]:
    """What rises of hand-overs."""
    found: list[MessagesDelivered] = []

    def follow(_org_id: str, fact: MessagesDelivered) -> Generator[StepRequest, Any, Changes]:
        yield from ()
        return Changes(after_commit=lambda: found.append(fact))

    office.server.server.store.subscribers.subscribe(MessagesDelivered, "a test", follow)
    return found


@requirement("M28")
async def test_an_agent_is_never_reminded_of_a_delegation_and_it_is_never_overdue(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await delegate(office, lead, ops, "d1")
    (row,) = await office.take(ops)
    await ops.api.ack(ops.id, row)
    assert await office.timers() == []
    for _ in range(3):
        await office.pass_time(REPLY_SECONDS)
        assert await office.take(ops) == []
    (owed,) = await office.owed(ops)
    assert (owed["activity_id"], owed["state"], owed["due_at"], owed["reminded_at"]) == ("d1", "open", None, None)


@requirement("M28")
async def test_beside_a_delegation_other_messages_are_watched_as_ever(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await delegate(office, lead, ops, "d1")
    asked = await office.ask(ops, "a question", by=lead)
    assert len(await office.take(ops)) == 2
    assert await office.timers() == [(ops.id, REPLY_SECONDS)]
    await office.pass_time(2 * REPLY_SECONDS)
    await office.pass_time(REPLY_SECONDS)
    assert {each["activity_id"]: each["state"] for each in await office.owed(ops)} == {"d1": "open", asked: "overdue"}


@requirement("M28")
async def test_a_cursor_that_passes_a_delegation_starts_no_watch(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await delegate(office, lead, ops, "d1")
    asked = await office.ask(ops, "a question", by=lead)
    await ops.api.get(f"/workspaces/{ops.id}/activity", since_id=asked)
    owed = {each["activity_id"]: each["due_at"] for each in await office.owed(ops)}
    assert owed["d1"] is None and owed[asked] is not None


@requirement("M18")
async def test_each_hand_over_rises_with_its_attempt(office: Office, heard: list[MessagesDelivered]) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await delegate(office, lead, ops, "d1")
    await office.ask(ops, "a question", by=lead)
    await delegate(office, lead, ops, "d2")
    await office.take(ops)
    assert heard == [MessagesDelivered(ops.id, (("d1", 1), ("d2", 1)), False, office.clock.now())]
    await office.pass_time(601)
    assert {row["id"] for row in await office.take(ops)} >= {"d1", "d2"}
    assert heard[1:] == [MessagesDelivered(ops.id, (("d1", 2), ("d2", 2)), False, office.clock.now())]


@requirement("M18")
async def test_a_reader_by_cursor_is_heard_once(office: Office, heard: list[MessagesDelivered]) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    first = await office.ask(ops, "a question", by=lead)
    await delegate(office, lead, ops, "d1")
    for _ in range(2):
        rows = await ops.api.get(f"/workspaces/{ops.id}/activity", since_id=first)
        assert [row["id"] for row in rows] == ["d1"]
    assert heard == [MessagesDelivered(ops.id, (("d1", 1),), False, office.clock.now())]


@requirement("M21")
async def test_a_push_rises_as_a_push(office: Office, heard: list[MessagesDelivered]) -> None:
    lead = await office.server.seat("Lead")
    ops = await office.server.seat("Ops", delivery_mode="push", url="http://ops.test/a2a")

    async def answering(_pushed: Any) -> Any:
        return said("done")

    office.net.agents["http://ops.test/a2a"] = answering
    await ops.api.post("/registry/heartbeat", {"workspace_id": ops.id, "active_tasks": 0})
    await delegate(office, lead, ops, "d1")
    await office.rest()
    assert heard == [MessagesDelivered(ops.id, (("d1", 1),), True, office.clock.now())]


async def test_messages_of_other_kinds_let_nothing_rise(office: Office, heard: list[MessagesDelivered]) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await office.ask(ops, "a question")
    await office.ask(ops, "another", by=lead, kind=KIND_DELEGATION, delegation_id="d1", delegation="yes")
    assert len(await office.take(ops)) == 2
    assert heard == []


@requirement("D17", "M11")
async def test_no_body_makes_a_message_a_delegation(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await office.ask(ops, "do it", by=lead, kind=KIND_DELEGATION, delegation_id="d1")
    row = await office.newest(ops)
    assert (row["kind"], row["request_body"]["params"]["message"]["metadata"]["kind"]) == ("peer_agent", "peer_agent")
    await delegate(office, lead, ops, "d2")
    row = await office.newest(ops)
    body = row["request_body"]["params"]["message"]
    assert (row["id"], row["kind"], row["intent"], body["messageId"]) == ("d2", KIND_DELEGATION, "request", "d2")
    assert msgspec.to_builtins(body["metadata"]) == {
        "kind": KIND_DELEGATION,
        "intent": INTENT_REQUEST,
        "delegation_id": "d2",
    }


@requirement("D6")
async def test_an_answer_that_names_the_delegation_answers_its_message(office: Office) -> None:
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    await delegate(office, lead, ops, "d1")
    await delegate(office, lead, ops, "d2")
    await office.take(ops)
    await office.ask(lead, "done", by=ops, delegation_id="d1")
    assert await office.state(ops, "d1") == "answered"
    assert await office.state(ops, "d2") == "open"


def test_no_agent_writes_a_row_of_a_delegation_into_its_log() -> None:
    assert TYPE_DELEGATION not in LOGGABLE_TYPES
