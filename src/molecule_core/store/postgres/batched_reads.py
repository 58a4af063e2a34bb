"""A named query for many parameters at once, in one round trip to PostgreSQL."""

from typing import TYPE_CHECKING

from molecule_core.store.queries import Query

if TYPE_CHECKING:
    import asyncpg

GIVEN_ROWS = "given_rows"
"""The parameters, by a name that no query may have for anything of its own (tests/shape): it would take its place."""


async def batched_query(connection: "asyncpg.Connection", query: Query) -> str:
    """A named query over arrays of its parameters: each row tells by its first column whose it is."""
    types = [each.name for each in (await connection.prepare(query.sql)).get_parameters()]
    arrays = ", ".join(f"${position}::{kind}[]" for position, kind in enumerate(types, 1))
    inner = query.with_placeholders(lambda param: f"{GIVEN_ROWS}.{param}")
    # Nothing of this text comes from outside: it is a named query of the package and PostgreSQL's own type names.
    keys = ", ".join((*query.param_names, "place"))
    source = f"unnest({arrays}) WITH ORDINALITY AS {GIVEN_ROWS}({keys})"
    return " ".join((f"SELECT {GIVEN_ROWS}.place, found.* FROM", source, "CROSS JOIN LATERAL (", inner, ") AS found"))
