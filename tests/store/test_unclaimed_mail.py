"""The look for mail that nobody takes goes through every inbox of an organisation: each by its indexes alone."""

import apsw
import asyncpg

from molecule_core.store.queries import load_queries, load_schema
from testing.engines import new_database
from tests.requirements import requirement

_TABLES = ("activities", "handouts", "pushes", "obligations", "inboxes", "dead_letters")


@requirement("P4", "A2")
def test_sqlite_looks_for_untaken_mail_in_indexes_only() -> None:
    connection = apsw.Connection(":memory:")
    for _ in connection.execute(load_schema("sqlite")):
        pass
    query = load_queries("sqlite")["unclaimed_requests"]
    rows = connection.execute(f"EXPLAIN QUERY PLAN {query.sql}", [None] * len(query.param_names)).fetchall()
    plan = [str(row[-1]) for row in rows]
    assert [line for line in plan if line.startswith("SEARCH r ")] == [
        "SEARCH r USING INDEX activities_inbound (workspace_id=? AND seq>?)",
        "SEARCH r USING INDEX activities_by_seq (workspace_id=? AND seq=?)",
    ]
    assert [line for line in plan if line.startswith("SCAN") and line.split()[1] not in ("w", "behind", "again")] == []
    assert [line for line in plan if "TEMP B-TREE" in line] == []


@requirement("P4", "A2")
async def test_postgres_can_look_for_untaken_mail_in_indexes_only(postgres: str) -> None:
    """Of empty tables a plan says little: that no table has to be read whole is what it says where that is dear."""
    connection = await asyncpg.connect(await new_database(postgres))
    try:
        await connection.execute(load_schema("postgres"))
        await connection.execute("SET enable_seqscan = off")
        query = load_queries("postgres")["unclaimed_requests"]
        await connection.execute(f"PREPARE untaken (text, bigint, bigint, bigint, bigint) AS {query.sql}")
        given = {"workspace_id": "'w'", "now": "2", "since": "1", "paused": "0", "count": "101"}
        values = ", ".join(given[name] for name in query.param_names)
        plan = "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE untaken ({values})"))
        assert "activities_inbound" in plan
        assert [table for table in _TABLES if f"Seq Scan on {table}" in plan] == []
    finally:
        await connection.close()
