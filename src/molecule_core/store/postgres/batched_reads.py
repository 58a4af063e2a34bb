"""Runs a named query for many parameters in one round trip to PostgreSQL."""

from typing import TYPE_CHECKING

from molecule_core.store.queries import Query

if TYPE_CHECKING:
    import asyncpg

GIVEN_ROWS = "given_rows"
"""Alias of the parameter rows. No query may use this name for anything else (tests/architecture)."""


async def batched_query(connection: "asyncpg.Connection", query: Query) -> str:
    """Return the SQL of a named query over arrays of its parameters.

    The first column numbers the parameter row, from 1."""
    types = [each.name for each in (await connection.prepare(query.sql)).get_parameters()]
    arrays = ", ".join(f"${position}::{kind}[]" for position, kind in enumerate(types, 1))
    inner = query.with_placeholders(lambda param: f"{GIVEN_ROWS}.{param}")
    # The text contains no outside input: a named query of the package and PostgreSQL's own type names.
    keys = ", ".join((*query.param_names, "place"))
    source = f"unnest({arrays}) WITH ORDINALITY AS {GIVEN_ROWS}({keys})"
    return " ".join((f"SELECT {GIVEN_ROWS}.place, found.* FROM", source, "CROSS JOIN LATERAL (", inner, ") AS found"))
