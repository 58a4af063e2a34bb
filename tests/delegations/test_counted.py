"""How delegations end is counted where operators look: each end once, and what comes late or again not at all."""

from testing.delegation_steps import begin, over
from testing.message_world import MessageWorld, handle, reply
from tests.api.http.test_metrics import one, scraped
from tests.delegations.test_begin import pair
from tests.delegations.test_ends import cancel
from tests.delegations.test_history import life
from tests.requirements import requirement

ENDED, OPEN = "molecule_delegations_total", "molecule_delegations_open"


@requirement("O4", "D1")
async def test_every_way_to_end_is_a_figure_of_its_own_from_the_start(world: MessageWorld) -> None:
    before = await scraped(world.server)
    assert set(before[ENDED].values()) == {0}
    assert (len(before[ENDED]), one(before, OPEN)) == (13, 0)
    await life(world)
    figures = await scraped(world.server)
    found = {dict(labels)["reason"]: count for labels, count in figures[ENDED].items() if count}
    assert found == {
        "none": 3,
        "rejected": 1,
        "cancelled": 3,
        "expired": 1,
        "reported": 1,
        "refused": 1,
        "target_removed": 1,
    }
    assert one(figures, ENDED, status="completed", reason="none") == 3
    assert one(figures, ENDED, status="cancelled", reason="cancelled") == 3
    assert one(figures, OPEN) == 1
    assert figures[ENDED].keys() == before[ENDED].keys()


@requirement("O4", "D7")
async def test_one_end_counts_once_however_often_it_is_said(world: MessageWorld) -> None:
    lead, ops = await pair(world)
    for _ in range(2):
        assert (await begin(world, lead, ops)).row.open
    (row,) = await world.take(ops)
    assert one(await scraped(world.server), OPEN) == 1
    for text in ("sorted", "sorted again"):
        await reply(ops, handle(row), text)
    await cancel(world, lead, row["id"])
    await over(world, row["id"])
    figures = await scraped(world.server)
    assert sum(figures[ENDED].values()) == one(figures, ENDED, status="completed", reason="none") == 1
    assert one(figures, OPEN) == 0
