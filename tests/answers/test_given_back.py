"""Messages that were handed over in vain, and that a client gets or passes that knows cursors and acks alone: the time
for their answers begins then, as with any hand-over."""

from collections.abc import Awaitable, Callable, Generator
from typing import Any

import pytest

from molecule_core.common.clock import SECOND
from molecule_core.messages.events import MessagesDelivered, MessagesReleased
from molecule_core.store.database import Changes, StepRequest
from tests.answers.office import REPLY_SECONDS, Office
from tests.answers.test_cursors import behind
from tests.answers.test_dead_letters import dies, short_lived
from tests.answers.test_delegated import delegate
from tests.delivery.agents import plain
from tests.requirements import requirement
from tests.running import Seat

URL = "https://agent.example/a2a"
Coming = Callable[[Office, Seat, str, str], Awaitable[Any]]


async def given_back(office: Office, **fields: Any) -> tuple[Seat, str, str]:
    """A seat whose agent has claimed a message and given it back; the word before that, which is handled, and the
    message."""
    ops = await office.server.seat("Ops", **fields)
    word = await office.ask(ops, "a word", intent="inform")
    asked = await office.ask(ops, "please")
    rows = await office.take(ops)
    await ops.api.ack(ops.id, rows[0])
    await release(ops, rows[1])
    assert await due(office, ops) == [None]
    await office.pass_time(1)
    return ops, word, asked


async def release(seat: Seat, row: dict[str, Any]) -> None:
    """A message is given back."""
    claims = [{"activity_id": row["id"], "attempt": row["attempt"]}]
    await seat.api.post(f"/workspaces/{seat.id}/activity/release", {"claims": claims})


async def due(office: Office, seat: Seat) -> list[int | None]:
    """In how many seconds from now each answer of a seat is due."""
    wish = {"workspace_id": seat.id, "now": 1 << 62, "count": 9}
    rows = await office.server.server.store.rows("obligations_due", wish)
    found = {row[1]: (row[7] - office.clock.now()) // SECOND for row in rows}
    return [found.get(each["seq"]) for each in await office.owed(seat)]


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
async def test_what_was_given_back_and_comes_without_a_claim_is_watched_from_then_on(office: Office, way: str) -> None:
    ops, word, asked = await given_back(office)
    await WAYS[way](office, ops, word, asked)
    assert await due(office, ops) == [REPLY_SECONDS]
    for _ in range(3):
        await office.pass_time(REPLY_SECONDS)
    assert await office.state(ops, asked) == "overdue"


@requirement("M28", "M21")
@pytest.mark.parametrize("reply", [None, plain(503, busy=True)], ids=["away", "busy"])
async def test_what_a_push_could_not_bring_is_watched_once_a_cursor_has_it(office: Office, reply: Any) -> None:
    """The agent is no longer reached by its url, and comes for its mail itself."""
    if reply is not None:
        office.net.answers(URL, reply)
    ops = await office.server.seat("Ops", delivery_mode="push", url=URL)
    asked = await office.ask(ops, "please")
    await office.rest()
    assert await due(office, ops) == [None]
    await office.server.admin.call("PATCH", f"/workspaces/{ops.id}", body={"delivery_mode": "poll"})
    await office.pass_time(1)
    (row,) = await ops.api.get(f"/workspaces/{ops.id}/activity", type="a2a_receive")
    assert (row["id"], await due(office, ops)) == (asked, [REPLY_SECONDS])
    assert await behind(ops, asked) == []
    for _ in range(3):
        await office.pass_time(REPLY_SECONDS)
    assert await office.state(ops, asked) == "overdue"


async def waits_again(office: Office) -> tuple[Seat, str]:
    """A seat with a dead letter that waits again, between two words that nobody has handled; and the letter."""
    ops = await office.server.seat("Ops")
    await office.ask(ops, "a word", intent="inform")
    asked = await short_lived(office, ops)
    await office.ask(ops, "another word", intent="inform")
    await dies(office, ops, asked)
    await office.person.post(f"/workspaces/{ops.id}/dead-letters/{asked}/requeue")
    return ops, asked


ACKS: dict[str, dict[str, Any]] = {"by its id": {"attempt": 1}, "with all up to it": {"acked_seq": 2, "attempt": 1}}


@requirement("M21", "M28")
@pytest.mark.parametrize("way", ACKS)
@pytest.mark.parametrize("handled", [False, True], ids=["behind the floor", "before the floor"])
async def test_a_dead_letter_that_waits_again_and_was_given_back_is_watched_from_its_ack_on(
    office: Office, way: str, handled: bool
) -> None:
    ops, asked = await waits_again(office)
    rows = await office.take(ops)
    if handled:
        await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"activity_id": rows[0]["id"], "attempt": 1})
    await release(ops, next(row for row in rows if row["id"] == asked))
    assert await due(office, ops) == [None]
    await office.pass_time(1)
    ack = ACKS[way] if "acked_seq" in ACKS[way] else {"activity_id": asked, **ACKS[way]}
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", ack)
    assert await due(office, ops) == [REPLY_SECONDS]
    for _ in range(3):
        await office.pass_time(REPLY_SECONDS)
    assert await office.state(ops, asked) == "overdue"


@requirement("M21", "M28")
async def test_a_dead_letter_that_is_acknowledged_unseen_is_watched_from_then_on(office: Office) -> None:
    ops, asked = await waits_again(office)
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"activity_id": asked})
    assert await due(office, ops) == [REPLY_SECONDS]


@requirement("M21", "M28")
async def test_a_dead_letter_that_still_waits_is_not_owed_by_what_passes_it(office: Office) -> None:
    """A cursor and an ack leave it where it is, and its time begins when it comes."""
    ops, asked = await waits_again(office)
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"acked_seq": 3})
    assert await office.owed(ops) == []
    assert [row["id"] for row in await office.take(ops)] == [asked]
    assert await due(office, ops) == [REPLY_SECONDS]


@requirement("M28")
async def test_what_was_given_back_and_is_shown_again_and_again_has_the_time_of_the_first(office: Office) -> None:
    ops, word, _ = await given_back(office)
    await behind(ops, word)
    await office.pass_time(10)
    await behind(ops, word)
    assert await due(office, ops) == [REPLY_SECONDS - 10]


@requirement("M28")
async def test_what_nobody_watches_was_handed_over_by_the_first_look_after_it_was_given_back(office: Office) -> None:
    """Each look after that finds it known, and writes nothing."""
    ops, word, _ = await given_back(office, reply_seconds=0)
    found = []
    for _ in range(3):
        await behind(ops, word)
        found += [each["handed_at"] for each in await office.owed(ops)]
        await office.pass_time(1)
    assert len(set(found)) == 1
    assert await due(office, ops) == [None]
    assert await office.timers() == []


@requirement("M28", "D7")
async def test_a_delegation_that_was_given_back_is_handed_over_once_by_the_looks_of_a_cursor(office: Office) -> None:
    heard: list[type] = []

    def follow(_org_id: str, fact: object) -> Generator[StepRequest, Any, Changes]:
        yield from ()
        return Changes(after_commit=lambda: heard.append(type(fact)))

    for kind in (MessagesDelivered, MessagesReleased):
        office.server.server.store.subscribers.subscribe(kind, "a test", follow)
    lead, ops = await office.server.seat("Lead"), await office.server.seat("Ops")
    word = await office.ask(ops, "a word", intent="inform")
    await delegate(office, lead, ops, "d1")
    await behind(ops, word)
    (row,) = await office.take(ops)
    await release(ops, row)
    for _ in range(3):
        await office.pass_time(1)
        await behind(ops, word)
    assert heard == [MessagesDelivered, MessagesDelivered, MessagesReleased, MessagesDelivered]
