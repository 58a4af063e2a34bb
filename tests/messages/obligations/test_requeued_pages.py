"""Dead letters that wait again, as pages of an inbox tell them: they fill a page as all other messages do."""

from typing import Any

import pytest

from testing.message_world import MessageWorld
from testing.running_server import Seat
from testing.waits import eventually
from tests.messages.obligations.test_cursor_clients import behind
from tests.messages.obligations.test_dead_letters import short_lived
from tests.messages.obligations.test_pages import narrow
from tests.requirements import requirement

__all__ = ["narrow"]
LONG = "x" * 800
"""With what is around it, two and a half of them fill a page."""


async def requeued(world: MessageWorld, count: int) -> tuple[Seat, str, list[str]]:
    """A seat with so many dead letters that wait again and two new messages, all long; a word between them, and all."""
    ops = await world.server.seat("Ops")
    sent = [await short_lived(world, ops, LONG) for _ in range(count)]
    await world.pass_time(11)

    async def dead() -> set[str]:
        page = await world.person.get(f"/workspaces/{ops.id}/dead-letters")
        return {each["activity_id"] for each in page["dead_letters"]}

    await eventually(dead, lambda found: found == set(sent))
    word = await world.ask(ops, "word", intent="inform")
    await ops.api.post(f"/workspaces/{ops.id}/activity/ack", {"acked_seq": count + 1})
    for each in sent:
        await world.person.post(f"/workspaces/{ops.id}/dead-letters/{each}/requeue")
    return ops, word, [*sent, *[await world.ask(ops, LONG, intent="inform") for _ in range(2)]]


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


@requirement("M15", "M18")
@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_a_claim_ends_where_letters_that_wait_again_have_filled_its_page(
    narrow: MessageWorld, count: int
) -> None:
    ops, _, waiting = await requeued(narrow, count)
    assert ids(await ops.api.get(f"/workspaces/{ops.id}/activity", waiting="true")) == waiting[:3]
    found = [ids(await narrow.take(ops)) for _ in range(3)]
    assert found == [waiting[:3], waiting[3:], []]


@requirement("M15", "M18")
@pytest.mark.parametrize("count", [1, 2, 3, 4])
async def test_a_page_behind_a_cursor_ends_there_too(narrow: MessageWorld, count: int) -> None:
    ops, word, waiting = await requeued(narrow, count)
    page = ids(await behind(ops, word))
    # Of what is new a page takes only what fits as a whole.
    assert page == waiting[: 2 if count == 1 else 3]
    found = list(page)
    for _ in range(4):
        page = ids(await behind(ops, found[-1]))
        found += page
    assert found == waiting
