"""What the store counts of obligations is what the rule says of each of them, on both engines."""

import itertools
import random
from collections import Counter
from typing import Any

import apsw
import asyncpg
import pytest

from molecule_core.messages.obligations.model import ObligationState
from molecule_core.messages.template_outcomes import GOOD_OUTCOMES, first_outcome
from molecule_core.store.queries import load_queries, load_schema
from testing.engines import Engine
from tests.requirements import requirement

_SEED, _ROWS = 20261122, 600
_OWN = {"org_id": "a", "template": "t", "version": 2, "template_org": "a"}
_COLUMNS = (
    "workspace_id", "seq", "activity_id", "org_id", "state", "handed_at", "outside_at", "overdue_at", "by_handle",
    "template_org", "template", "version", "tokens",
)  # fmt: skip


def rows_by_chance() -> list[dict[str, Any]]:
    """Rows of several organisations, templates and versions, in every state that there is."""
    chance = random.Random(_SEED)
    states = itertools.product(("open", "answered", "declined"), (None, 5), (None, 7))
    known = list(states)
    found = []
    for number in range(_ROWS):
        state, outside_at, overdue_at = known[number % len(known)]
        said = {"outside_at": outside_at, "overdue_at": overdue_at, "by_handle": 0, "tokens": chance.choice((None, 40))}
        whose = {"org_id": chance.choice("aab"), "template": chance.choice("ttu"), "version": chance.choice((1, 2, 2))}
        place = {"workspace_id": f"w{number % 7}", "seq": number, "activity_id": str(number)}
        when = {"handed_at": chance.randrange(100), "template_org": chance.choice(("a", "a", ""))}
        found.append({**place, "state": state, **said, **whose, **when})
    return found


async def counted(engine: Engine, place: str, name: str, params: dict[str, Any]) -> tuple[Any, ...]:
    """What a named query says of these rows."""
    query = load_queries(engine)[name]
    marks = ", ".join("?" if engine == "sqlite" else f"${number}" for number in range(1, len(_COLUMNS) + 1))
    insert = f"INSERT INTO obligations ({', '.join(_COLUMNS)}) VALUES ({marks})"  # noqa: S608 - names of columns
    rows = [tuple(row[column] for column in _COLUMNS) for row in rows_by_chance()]
    if engine == "sqlite":
        connection = apsw.Connection(place)
        for _ in connection.execute(load_schema("sqlite")):
            pass
        connection.executemany(insert, rows)
        found = connection.execute(query.sql, query.bind(params)).fetchall()
        connection.close()
        return tuple(found[0])
    session = await asyncpg.connect(place)
    try:
        await session.execute(load_schema("postgres"))
        await session.executemany(insert, rows)
        return tuple(await session.fetchrow(query.sql, *query.bind(params)))
    finally:
        await session.close()


def meant(row: dict[str, Any]) -> bool:
    """Whether a row is one of the version that is asked about."""
    return all(row[name] == value for name, value in _OWN.items())


def came(row: dict[str, Any]) -> str | None:
    return first_outcome(row["state"], row["outside_at"], row["overdue_at"])


@requirement("I16")
async def test_figures_count_each_message_once_by_what_became_of_it(engine: Engine, place: str) -> None:
    rows = [row for row in rows_by_chance() if meant(row)]
    by = Counter(came(row) for row in rows)
    deliveries, answered, declined, outside, overdue, still, tokens = await counted(
        engine, place, "figures_of_version", {**_OWN, "count": _ROWS}
    )
    assert (answered, declined, outside, overdue, still) == (
        by[ObligationState.ANSWERED],
        by[ObligationState.DECLINED],
        by[ObligationState.ANSWERED_OUTSIDE],
        by[ObligationState.OVERDUE],
        by[None],
    )
    assert deliveries == len(rows) == answered + declined + outside + overdue + still > 40
    assert tokens == sum(row["tokens"] or 0 for row in rows)
    assert min(by.values()) > 0


@requirement("I16")
@pytest.mark.parametrize("since", [0, 50])
async def test_outcomes_are_counted_since_a_time_and_the_newest_first(engine: Engine, place: str, since: int) -> None:
    rows = [row for row in rows_by_chance() if meant(row) and row["handed_at"] >= since and came(row) is not None]
    good, missed = await counted(engine, place, "outcomes_since", {**_OWN, "since": since, "count": _ROWS})
    assert good == sum(came(row) in GOOD_OUTCOMES for row in rows) > 0
    assert missed == len(rows) - good > 0


@requirement("I16")
async def test_only_the_newest_outcomes_count(engine: Engine, place: str) -> None:
    rows = [row for row in rows_by_chance() if meant(row) and came(row) is not None]
    newest = max(row["handed_at"] for row in rows)
    last = [row for row in rows if row["handed_at"] == newest]
    good, missed = await counted(engine, place, "outcomes_since", {**_OWN, "since": 0, "count": len(last)})
    assert (good, missed) == (
        sum(came(row) in GOOD_OUTCOMES for row in last),
        sum(came(row) not in GOOD_OUTCOMES for row in last),
    )


@requirement("I16")
def test_what_was_missed_stays_missed_whoever_brings_the_answer_later() -> None:
    assert [
        first_outcome(state, None, None) for state in ("open", ObligationState.ANSWERED, ObligationState.DECLINED)
    ] == [None, ObligationState.ANSWERED, ObligationState.DECLINED]
    for state in ("open", ObligationState.ANSWERED, ObligationState.DECLINED):
        assert first_outcome(state, 5, None) == ObligationState.ANSWERED_OUTSIDE
        assert first_outcome(state, 5, 7) == first_outcome(state, None, 7) == ObligationState.OVERDUE
