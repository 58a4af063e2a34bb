"""A workspace is removed: each other one that has asked it something plain, and has no answer, is told so, once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from molecule_core.common.limits import Limits
from molecule_core.messages import rules
from molecule_core.messages.model import UnansweredMessage
from testing.approval_world import ApprovalWorld
from testing.clocks import FakeClock
from testing.delegation_steps import begin
from testing.engines import Engine
from testing.message_world import MessageWorld, handle, reply
from testing.push_agents import PushNetwork, said
from testing.running_server import UNHURRIED, Seat, running
from testing.waits import eventually, refused
from testing.workspaces import remove
from tests.delegations.push_team import URL
from tests.requirements import requirement

Row = dict[str, Any]


@pytest.fixture
async def small(engine: Engine, place: str, tmp_path: Path, clock: FakeClock) -> AsyncIterator[MessageWorld]:
    """An office whose inboxes hold three messages, and whose notes name two."""
    limits = replace(UNHURRIED, inbox_unhandled=3, removal_named=2)
    async with running(engine, place, tmp_path, clock=clock, limits=limits) as server:
        yield MessageWorld(server, await server.person(), clock, PushNetwork())


async def inbox(world: MessageWorld, seat: Seat) -> list[tuple[str, str]]:
    """All that stands in the inbox of a workspace, which may be removed, oldest first: kind and words."""
    wish = {"workspace_id": seat.id, "seq": 0, "last": 10**9, "living": 0}
    rows = await world.server.server.store.rows("inbox_rows", wish)
    return [(row[5], row[12]) for row in rows]


async def notes(world: MessageWorld, seat: Seat) -> list[Row]:
    """What a workspace is told about removals, oldest first."""
    rows = await world.person.get(f"/workspaces/{seat.id}/activity", type="a2a_receive", limit=500)
    return [row for row in rows[::-1] if row["kind"] == "system" and "removed_ids" in about(row)]


def about(row: Row) -> Row:
    """What programs read of a message."""
    found: Row = row["request_body"]["params"]["message"]["metadata"]
    return found


def words(row: Row) -> str:
    """What a message says."""
    return str(row["request_body"]["params"]["message"]["parts"][0]["text"])


async def collapse(world: MessageWorld, seat: Seat) -> None:
    await world.server.admin.call("POST", f"/workspaces/{seat.id}/collapse", query={"confirm": "true"})


async def below(world: MessageWorld, lead: Seat, *names: str) -> list[Seat]:
    return [await world.server.seat(name, parent_id=lead.id) for name in names]


@requirement("M26")
async def test_who_waits_for_an_answer_of_a_removed_workspace_is_told_once_which_messages_get_none(
    world: MessageWorld,
) -> None:
    asker, ops = await world.server.seat("Asker"), await world.server.seat("Ops")
    waits = await world.ask(ops, "waits", by=asker)
    await world.ask(ops, "answered", by=asker)
    await world.ask(ops, "declined", by=asker)
    await world.ask(ops, "wants nothing", by=asker, intent="inform")
    await world.ask(ops, "of a person")
    _, answered, declined, *_ = await world.take(ops)
    await reply(ops, handle(answered), "so it is")
    await ops.api.post(f"/workspaces/{ops.id}/decline", {"handle": handle(declined), "reason": "no time"})
    unseen = await world.ask(ops, "never handed over", by=asker)
    bystander = await world.server.seat("Bystander")

    await remove(world.server.admin, ops)
    (note,) = await notes(world, asker)
    assert (note["kind"], note["intent"], note["source_id"]) == ("system", "inform", ops.id)
    assert words(note) == (
        f"The workspace 'Ops' ({ops.id}) was removed. 2 of your messages to it have no answers and will not get any: "
        f"{unseen}, {waits}."
    )
    assert about(note) == {
        "kind": "system",
        "intent": "inform",
        "removed_ids": [ops.id],
        "activity_ids": [unseen, waits],
    }
    assert await inbox(world, bystander) == []

    assert (await refused(remove(world.server.admin, ops))).status == 410
    assert len(await notes(world, asker)) == 1
    taken = [row for row in await world.take(asker) if row["kind"] == "system"]
    assert [row["id"] for row in taken] == [note["id"]]
    assert await world.state(asker, note["id"]) == ""


@requirement("M26")
async def test_an_open_answer_is_told_of_also_if_it_is_overdue_or_its_message_was_acknowledged(
    world: MessageWorld,
) -> None:
    asker, ops = await world.server.seat("Asker"), await world.server.seat("Ops")
    asked = [await world.ask(ops, "please", by=asker) for _ in range(2)]
    for row in await world.take(ops):
        await ops.api.ack(ops.id, row)
    for _ in range(2):
        await world.pass_time(121)
    assert {await world.state(ops, each) for each in asked} == {"overdue"}
    await remove(world.server.admin, ops)
    (note,) = await notes(world, asker)
    assert sorted(about(note)["activity_ids"]) == sorted(asked)


@requirement("M26", "D1", "Q1")
async def test_work_and_leave_are_told_of_by_their_own_alone(world: MessageWorld) -> None:
    lead = await world.server.seat("Lead")
    (ops,) = await below(world, lead, "Ops")
    await begin(world, lead, ops)
    approval_world = ApprovalWorld(world.server, world.person, world.clock)
    await approval_world.hear(lead)
    await approval_world.decides(lead, await approval_world.asks(ops), "more_info", note="why?")
    assert [kind for kind, _ in await inbox(world, ops)] == ["delegation", "approval_decision"]
    await remove(world.server.admin, ops)
    await world.rest()
    assert await notes(world, lead) == []


@requirement("M26", "M4")
async def test_a_collapse_tells_who_stays_in_one_note_and_nobody_who_goes(world: MessageWorld) -> None:
    lead = await world.server.seat("Lead")
    one, two = await below(world, lead, "One", "Two")
    first, second = await world.ask(one, "first", by=lead), await world.ask(two, "second", by=lead)
    await world.ask(two, "of one that goes too", by=one)
    await collapse(world, lead)
    (note,) = await notes(world, lead)
    assert sorted(about(note)["removed_ids"]) == sorted([one.id, two.id])
    assert sorted(about(note)["activity_ids"]) == sorted([first, second])
    assert "were removed. 2 of your messages to them have no answer" in words(note)
    assert [kind for seat in (one, two) for kind, _ in await inbox(world, seat)] == ["peer_agent"] * 3
    await collapse(world, lead)
    assert len(await notes(world, lead)) == 1
    await remove(world.server.admin, lead)
    assert [kind for kind, _ in await inbox(world, lead)] == ["system"]


@requirement("M26", "M4")
async def test_a_sender_that_is_removed_with_it_or_before_it_is_told_nothing(world: MessageWorld) -> None:
    lead, early = await world.server.seat("Lead"), await world.server.seat("Early")
    (ops,) = await below(world, lead, "Ops")
    await world.ask(ops, "of the one above", by=lead)
    await world.ask(lead, "of one that is gone before", by=early)
    await world.ask(ops, "of itself", by=ops)
    await remove(world.server.admin, early)
    await remove(world.server.admin, lead)
    for seat in (lead, early, ops):
        assert "system" not in [kind for kind, _ in await inbox(world, seat)]


@requirement("M26", "M15")
async def test_a_full_inbox_keeps_nobody_from_a_removal_and_has_room_for_the_note(small: MessageWorld) -> None:
    asker, ops = await small.server.seat("Asker"), await small.server.seat("Ops")
    asked = [await small.ask(ops, f"question {number}", by=asker) for number in range(3)]
    for number in range(3):
        await small.ask(asker, f"filling {number}")
    assert (await refused(small.ask(asker, "one too many"))).status == 429
    await remove(small.server.admin, ops)
    (note,) = await notes(small, asker)
    assert about(note)["activity_ids"] == asked[:0:-1]
    assert f"3 of your messages to it have no answers and will not get any; the newest: {asked[2]}" in words(note)
    assert [kind for kind, _ in await inbox(small, asker)] == ["canvas_user"] * 3 + ["system"]


async def dying(world: MessageWorld, seat: Seat, by: Seat) -> str:
    """A message whose life is over soon."""
    params = {"message": {"role": "user", "parts": [{"kind": "text", "text": "soon"}]}, "expires_in_seconds": 10}
    body = {"jsonrpc": "2.0", "id": "1", "method": "message/send", "params": params}
    return str((await by.api.call("POST", f"/workspaces/{seat.id}/a2a", body=body))["activity_id"])


@requirement("M21", "M26")
@pytest.mark.parametrize("others", [0, 1], ids=["before the floor", "behind it"])
async def test_a_dead_letter_is_told_of_only_if_it_waits_again(world: MessageWorld, others: int) -> None:
    asker, ops = await world.server.seat("Asker"), await world.server.seat("Ops")
    waits = [await world.ask(ops, "holds up the floor", by=asker) for _ in range(others)]
    _, again = [await dying(world, ops, asker) for _ in range(2)]
    await world.pass_time(11)
    path = f"/workspaces/{ops.id}/dead-letters"
    await eventually(lambda: world.person.get(path), lambda page: len(page["dead_letters"]) == 2)
    await world.person.post(f"{path}/{again}/requeue")
    await remove(world.server.admin, ops)
    (note,) = await notes(world, asker)
    assert about(note)["activity_ids"] == [again, *waits]
    assert f" {1 + others} of your messages to it " in words(note)


@requirement("M21", "M26")
async def test_an_agent_that_is_pushed_to_is_sent_the_note(world: MessageWorld) -> None:
    world.net.answers(URL, said("I see"))
    asker = await world.server.seat("Asker", delivery_mode="push", url=URL)
    ops = await world.server.seat("Ops")
    asked = await world.ask(ops, "please", by=asker)
    await remove(world.server.admin, ops)
    await world.rest()
    (pushed,) = world.net.of(URL)
    assert asked in pushed.text and "'Ops'" in pushed.text


@requirement("M26")
async def test_without_its_row_in_the_table_of_followers_nobody_is_told(world: MessageWorld) -> None:
    table = world.server.server.store.subscribers._handlers  # type: ignore[attr-defined]
    (fact,) = [each for each in table if each.__name__ == "WorkspacesRemoved"]
    del table[fact]["messages.on_workspaces_removed"]
    asker, ops = await world.server.seat("Asker"), await world.server.seat("Ops")
    await world.ask(ops, "please", by=asker)
    await remove(world.server.admin, ops)
    assert await inbox(world, asker) == []


# -- the decision ------------------------------------------------------------------------------------------------------


def unheard(target: str, source: str, found: int, *ids: str, at: int = 0) -> list[UnansweredMessage]:
    """The newest messages of one to another, newest first."""
    return [UnansweredMessage(target, source, found, each, at - number) for number, each in enumerate(ids)]


def test_what_gets_no_answer_is_sorted_by_who_has_asked_and_is_not_gone_newest_first() -> None:
    found = [*unheard("a", "x", 2, "a2", "a1", at=5), *unheard("b", "x", 1, "b1", at=9), *unheard("b", "a", 1, "ba")]
    by = rules.unanswered_by_sender(found, {"a", "b"})
    assert {source: [each.id for each in asked] for source, asked in by.items()} == {"x": ["b1", "a2", "a1"]}


def test_what_came_at_one_moment_keeps_its_order() -> None:
    found = [UnansweredMessage("a", "x", 3, each, 7) for each in ("3", "1", "2")]
    assert [each.id for each in rules.unanswered_by_sender(found, ())["x"]] == ["3", "1", "2"]


def test_a_note_names_no_more_than_the_limit_and_counts_all() -> None:
    found = [each for target in "abc" for each in unheard(target, "x", 50, f"{target}2", f"{target}1")]
    note = rules.removed_notice(found, {"a": "A", "b": "B", "c": "C"}, Limits(removal_named=2))
    assert note.text == (
        "The workspaces 'A' (a), 'B' (b) and 1 more were removed. 150 of your messages to them have no answers "
        "and will not get any; the newest: a2, a1."
    )
    assert note.details == {"removed_ids": ["a", "b"], "activity_ids": ["a2", "a1"]}
    assert note.target_id == "a"


@pytest.mark.parametrize("name", ["x' was kept. You're asked: 'do", "a\nb\u2028c", "n" * 500])
def test_a_name_is_one_short_quoted_line_of_a_note_whatever_stands_in_it(name: str) -> None:
    note = rules.removed_notice(unheard("a", "x", 1, "a1"), {"a": name}, Limits(name_length=60))
    assert note.text.splitlines() == [note.text]
    assert note.text.startswith(("The workspace '", 'The workspace "'))
    assert len(note.text) < 300
