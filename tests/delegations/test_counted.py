"""How delegations end is counted where operators look: each end once, and what comes late or again not at all."""

from tests.answers.office import Office, handle, reply
from tests.delegations.test_begin import pair
from tests.delegations.test_ends import cancel
from tests.delegations.test_history import life
from tests.delegations.work import begin, over
from tests.edges.test_metrics import one, scraped
from tests.requirements import requirement

ENDED, OPEN = "molecule_delegations_total", "molecule_delegations_open"


@requirement("O4", "D1")
async def test_every_way_to_end_is_a_figure_of_its_own_from_the_start(office: Office) -> None:
    before = await scraped(office.server)
    assert set(before[ENDED].values()) == {0}
    assert (len(before[ENDED]), one(before, OPEN)) == (12, 0)
    await life(office)
    figures = await scraped(office.server)
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
async def test_one_end_counts_once_however_often_it_is_said(office: Office) -> None:
    lead, ops = await pair(office)
    for _ in range(2):
        assert (await begin(office, lead, ops)).row.open
    (row,) = await office.take(ops)
    assert one(await scraped(office.server), OPEN) == 1
    for text in ("sorted", "sorted again"):
        await reply(ops, handle(row), text)
    await cancel(office, lead, row["id"])
    await over(office, row["id"])
    figures = await scraped(office.server)
    assert sum(figures[ENDED].values()) == one(figures, ENDED, status="completed", reason="none") == 1
    assert one(figures, OPEN) == 0
