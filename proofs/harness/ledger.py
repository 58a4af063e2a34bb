"""The judge's own look into a store that nobody uses any more: plain SQL, nothing of the product."""

from pathlib import Path
from typing import Any

import apsw
import asyncpg
from msgspec import Struct

from proofs.harness.settings import Setting
from testing.engines import Engine

_ACTIVITIES = """SELECT id, workspace_id, seq, inbound_no, method, source_id, user_id, created_at, request_body
FROM activities ORDER BY workspace_id, seq"""
_EVENTS = "SELECT org_id, seq, name, entity_kind, entity_id FROM events ORDER BY org_id, seq"
_FLOORS = "SELECT workspace_id, acked_seq FROM inboxes"
_SINGLE = "SELECT workspace_id, seq FROM handouts WHERE acked_at IS NOT NULL"


Table = list[tuple[Any, ...]]
"""What one query found."""


class Row(Struct):
    """One row of a log."""

    id: str
    workspace_id: str
    seq: int
    inbound_no: int | None
    method: str | None
    source_id: str | None
    user_id: str | None
    created_at: int
    request_body: str | None


class Fact(Struct):
    """One line of a journal."""

    org_id: str
    seq: int
    name: str
    entity_kind: str
    entity_id: str


class Ledger(Struct):
    """All that a store holds at the end. `faults` is what the engine itself says of its file; None: it says nothing."""

    rows: list[Row]
    facts: list[Fact]
    handled_upto: dict[str, int]
    handled_single: set[tuple[str, int]]
    faults: list[str] | None

    def sound(self) -> dict[str, int]:
        """The zero of an engine that looks through its own file; none for one that does not."""
        return {} if self.faults is None else {"integrity faults": len(self.faults)}

    def logs(self) -> dict[str, list[Row]]:
        """The rows of each workspace, in the order of their numbers."""
        found: dict[str, list[Row]] = {}
        for row in self.rows:
            found.setdefault(row.workspace_id, []).append(row)
        return found

    def journals(self) -> dict[str, list[Fact]]:
        """The facts of each organisation, in the order of their numbers."""
        found: dict[str, list[Fact]] = {}
        for fact in self.facts:
            found.setdefault(fact.org_id, []).append(fact)
        return found

    def is_handled(self, row: Row) -> bool:
        """Whether the store remembers that a message was handled."""
        upto = self.handled_upto.get(row.workspace_id, 0)
        return row.seq <= upto or (row.workspace_id, row.seq) in self.handled_single


async def read_ledger(setting: Setting) -> Ledger:
    """Reads everything, after the last server of this place has ended."""
    return _ledger(*await read_tables(setting, (_ACTIVITIES, _EVENTS, _FLOORS, _SINGLE)))


async def read_tables(setting: Setting, queries: tuple[str, ...]) -> tuple[list[Table], list[str] | None]:
    """What each query finds in a store that no server has, and what the engine says of its file (None: nothing)."""
    engine: Engine = setting.engine
    if engine == "postgres":
        connection = await asyncpg.connect(setting.database)
        try:
            return [[tuple(row) for row in await connection.fetch(sql)] for sql in queries], None
        finally:
            await connection.close()
    return _from_sqlite(setting.folder, queries)


def _from_sqlite(folder: Path, queries: tuple[str, ...]) -> tuple[list[Table], list[str]]:
    with apsw.Connection(str(folder / "molecule.db")) as connection:
        found = [connection.execute(sql).fetchall() for sql in queries]
        told = [str(row[0]) for row in connection.execute("PRAGMA integrity_check")]
    connection.close()
    return found, [line for line in told if line != "ok"]


def _ledger(found: list[Table], faults: list[str] | None) -> Ledger:
    activities, events, floors, single = found
    return Ledger(
        rows=[Row(*row) for row in activities],
        facts=[Fact(*row) for row in events],
        handled_upto=dict(floors),
        handled_single={(name, seq) for name, seq in single},
        faults=faults,
    )
