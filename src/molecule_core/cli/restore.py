"""`molecule restore`: replaces the store by a copy."""

import asyncio
from pathlib import Path
from typing import Any

import click

from molecule_core.cli._options import load_cli_settings, state_options
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.store.sqlite.backup import restore_sqlite


@click.command("restore")
@click.argument("copy", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@state_options
def command(copy: Path, **flags: Any) -> None:
    """Replace the store by COPY. The server must not run; the old store is renamed, not deleted.

    A database (PostgreSQL) must be empty: create a new one. A copy of SQLite or PostgreSQL can be restored to either.
    """
    settings = load_cli_settings(**flags)
    clock = SystemClock()
    ids = IdGenerator(clock, SystemRandomness())
    if settings.database:
        from molecule_core.store.postgres.backup import restore_postgres

        asyncio.run(restore_postgres(copy, settings.database, ids=ids))
        click.echo(f"restored {copy} into the database")
        return
    previous = restore_sqlite(copy, settings.state_folder, clock=clock, ids=ids)
    click.echo(f"restored {copy} to {settings.state_folder}")
    if previous is not None:
        click.echo(f"the store that was there is now {previous}")
