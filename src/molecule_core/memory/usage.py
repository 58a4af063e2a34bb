"""Counts the bytes of memories and values that an organisation stores, and checks their limit."""

from collections.abc import Sequence

from molecule_core.memory.errors import OrgMemoryFull
from molecule_core.store.database import ReadQuery, Row, Statement

_SETTING = "MOLECULE_LIMIT_ORG_MEMORY_BYTES"


def usage_query(org_id: str) -> ReadQuery:
    """Return the query whose rows `check_usage` takes."""
    return ReadQuery("memory_usage", {"org_id": org_id})


def check_usage(rows: Sequence[Row], size: int, limit: int) -> None:
    """Check that the memory can grow by `size` bytes; it may always shrink. Raises OrgMemoryFull."""
    use = rows[0][0] if rows else 0
    if size > 0 and use + size > limit:
        raise OrgMemoryFull(use=use, size=size, limit=limit, setting=_SETTING)


def count_bytes(org_id: str, size: int) -> Statement:
    """Return the statement that adds to the counter of an organisation."""
    return "add_memory_usage", {"org_id": org_id, "bytes": size}
