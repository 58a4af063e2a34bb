"""Messages that were handed over in vain, and that a client gets or passes that knows cursors and acks alone: the time
for their answers begins then, as with any hand-over."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from molecule_core.common.clock import SECOND
from molecule_core.messages.events import MessagesDelivered, MessagesReleased
from molecule_core.store.database import CommandSteps, WriteSet
from testing.message_world import REPLY_SECONDS, MessageWorld
from testing.push_agents import plain
from testing.running_server import Seat
from tests.messages.obligations.test_cursor_clients import behind
from tests.messages.obligations.test_dead_letters import dies, short_lived
from tests.messages.obligations.test_delegations import delegate
from tests.requirements import requirement

URL = "https://agent.example/a2a"
Coming = Callable[[MessageWorld, Seat, str, str], Awaitable[Any]]


async def given_back(world: MessageWorld, **fields: Any) -> tuple[Seat, str, str]:
    """A seat whose agent has claimed a message and given it back; the word before that, which is handled, and the
    message."""
    ops = await world.server.seat("Ops", **fields)
    word = await world.ask(ops, "a word", intent="inform")
    asked = await world.ask(ops, "please")
    rows = await world.take(ops)
    await ops.api.ack(ops.id, rows[0])
    await release(ops, rows[1])
    assert await due(world, ops) == [None]
    await world.pass_time(1)
    return ops, word, asked


async def release(seat: Seat, row: dict[str, Any]) -> None:
    """A message is given back."""
    claims = [{"activity_id": row["id"], "attempt": row["attempt"]}]
    await seat.api.post(f"/workspaces/{seat.id}/activity/release", {"claims": claims})


async def due(world: MessageWorld, seat: Seat) -> list[int | None]:
    """In how many seconds from now each answer of a seat is due."""
    wish = {"workspace_id": seat.id, "now": 1 << 62, "count": 9}
    rows = await world.server.server.store.rows("obligations_due", wish)
    found = {row[1]: (row[7] - world.clock.now()) // SECOND for row in rows}
    return [found.get(each["seq"]) for each in await world.owed(seat)]


WAYS: dict[str, Coming] = {
    "shown behind a cursor": lambda _office, ops, word, _asked: behind(ops, word),
    "shown by a first page": lambda _office, ops, _word, _asked: ops.api.get(
        f"/workspaces/{ops.id}/activity", type="a2a_receive"
    ),
    "passed by a cursor": lambda _office, ops, _word, asked: behind(ops, asked),
    "passed by a filtered cursor": lambda _office, ops, _word, asked: ops.api.get(
        f"/workspaces/{ops.id}/activity", type="a2a_receive", since_id=asked, source="canvas"
    ),
    "acknowledged": lambda _office, ops, _word, asked: ops.api.post(
        f"/workspaces/{ops.id}/activity/ack", {"activity_id": asked, "attempt": 1}
    ),
    "acknowledged with all before it": lambda _office, ops, _word, _asked: ops.api.post(
        f"/workspaces/{ops.id}/activity/ack", {"acked_seq": 2, "attempt": 1}
    ),
}


@requirement("M28")
@pytest.mark.parametrize("way", WAYS)
async def test_what_was_given_back_and_comes_without_a_claim_is_watched_from_then_on(
    world: MessageWorld, way: str
) -> None:
    ops, word, asked = await given_back(world)
    await WAYS[way](world, ops, word, asked)
    assert await due(world, ops) == [REPLY_SECONDS]
    for _ in range(3):
        await world.pass_time(REPLY_SECONDS)
    assert await world.state(ops, asked) == "overdue"


@requirement("M28", "M21")
@pytest.mark.parametrize("reply", [None, plain(503, busy=True)], ids=["away", "busy"])
async def test_what_a_push_could_not_bring_is_watched_once_a_cursor_has_it(world: MessageWorld, reply: Any) -> None:
    """The agent is no longer reached by its url, and comes for its mail itself."""
    if reply is not None:
        world.net.answers(URL, reply)
    ops = await world.server.seat("Ops", delivery_mode="push", url=URL)
    asked = await world.ask(ops, "please")
    await world.rest()
    assert await due(world, ops) == [None]
    await world.server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"delivery_mode": "poll"})
    await world.pass_time(1)
    (row,) = await ops.api.get(f"/workspaces/{ops.id}/activity", type="a2a_receive")
    assert (row["id"], await due(world, ops)) == (asked, [REPLY_SECONDS])
    assert await behind(ops, asked) == []
    for _ in range(3):
        await world.pass_time(REPLY_SECONDS)
    assert await world.state(ops, asked) == "overdue"


async def waits_again(world: MessageWorld) -> tuple[Seat, str]:
    """A seat with a dead letter that waits again, between two words that nobody has handled; and the letter."""
    ops = await world.server.seat("Ops")
    await world.ask(ops, "a word", intent="inform")
    asked = await short_lived(world, ops)
    await world.ask(ops, "another word", intent="inform")
    await dies(world, ops, asked)
    await world.person.post(f"/workspaces/{ops.id}/dead-letters/{asked}/requeue")
    return ops, asked


ACKS: dict[str, dict[str, Any]] = {"by its id": {"attempt": 1}, "with all up to it": {"acked_seq": 2, "attempt": 1}}


@requirement("M21", "M28")
@pytest.mark.parametrize("way", ACKS)
@pytest.mark.parametrize("handled", [False, True], ids=["behind the floor", "before the floor"])
async def test_a_dead_letter_that_waits_again_and_was_given_back_is_watched_from_its_ack_on(
    world: MessageWorld, way: str, handled: bool
) -> None:
    ops, asked = await waits_again(world)
    rows = await world.take(ops)
    if handled:
        await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"activity_id": rows[0]["id"], "attempt": 1})
    await release(ops, next(row for row in rows if row["id"] == asked))
    assert await due(world, ops) == [None]
    await world.pass_time(1)
    ack = ACKS[way] if "acked_seq" in ACKS[way] else {"activity_id": asked, **ACKS[way]}
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", ack)
    assert await due(world, ops) == [REPLY_SECONDS]
    for _ in range(3):
        await world.pass_time(REPLY_SECONDS)
    assert await world.state(ops, asked) == "overdue"


@requirement("M21", "M28")
async def test_a_dead_letter_that_is_acknowledged_unseen_is_watched_from_then_on(world: MessageWorld) -> None:
    ops, asked = await waits_again(world)
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"activity_id": asked})
    assert await due(world, ops) == [REPLY_SECONDS]


@requirement("M21", "M28")
async def test_a_dead_letter_that_still_waits_is_not_owed_by_what_passes_it(world: MessageWorld) -> None:
    """A cursor and an ack leave it where it is, and its time begins when it comes."""
    ops, asked = await waits_again(world)
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"acked_seq": 3})
    assert await world.owed(ops) == []
    assert [row["id"] for row in await world.take(ops)] == [asked]
    assert await due(world, ops) == [REPLY_SECONDS]


@requirement("M28")
async def test_what_was_given_back_and_is_shown_again_and_again_has_the_time_of_the_first(world: MessageWorld) -> None:
    ops, word, _ = await given_back(world)
    await behind(ops, word)
    await world.pass_time(10)
    await behind(ops, word)
    assert await due(world, ops) == [REPLY_SECONDS - 10]


@requirement("M28")
async def test_what_nobody_watches_was_handed_over_by_the_first_look_after_it_was_given_back(
    world: MessageWorld,
) -> None:
    """Each look after that finds it known, and writes nothing."""
    ops, word, _ = await given_back(world, reply_seconds=0)
    found = []
    for _ in range(3):
        await behind(ops, word)
        found += [each["handed_at"] for each in await world.owed(ops)]
        await world.pass_time(1)
    assert len(set(found)) == 1
    assert await due(world, ops) == [None]
    assert await world.timers() == []


@requirement("M28", "D7")
async def test_a_delegation_that_was_given_back_is_handed_over_once_by_the_looks_of_a_cursor(
    world: MessageWorld,
) -> None:
    heard: list[type] = []

    def follow(_org_id: str, fact: object) -> CommandSteps[None]:
        yield from ()
        return WriteSet(None, after_commit=lambda: heard.append(type(fact)))

    for kind in (MessagesDelivered, MessagesReleased):
        world.server.server.store.subscribers.subscribe(kind, "a test", follow)
    lead, ops = await world.server.seat("Lead"), await world.server.seat("Ops")
    word = await world.ask(ops, "a word", intent="inform")
    await delegate(world, lead, ops, "d1")
    await behind(ops, word)
    (row,) = await world.take(ops)
    await release(ops, row)
    for _ in range(3):
        await world.pass_time(1)
        await behind(ops, word)
    assert heard == [MessagesDelivered, MessagesDelivered, MessagesReleased, MessagesDelivered]
