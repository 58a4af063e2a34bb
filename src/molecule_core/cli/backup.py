"""`molecule backup`: copies the store, also while it is in use."""

import asyncio
from pathlib import Path
from typing import Any

import click

from molecule_core.cli._options import BACKUP_STAMP, load_cli_settings, state_options
from molecule_core.server.state_folder import prepare_state_folder
from molecule_core.store.sqlite.backup import back_up_sqlite


@click.command("backup")
@click.argument("copy", type=click.Path(path_type=Path))
@state_options
def command(copy: Path, **flags: Any) -> None:
    """Write one consistent copy of the store to COPY, a new file. A running server is not interrupted."""
    settings = load_cli_settings(**flags)
    if settings.database:
        from molecule_core.store.postgres.backup import back_up_postgres

        size = asyncio.run(back_up_postgres(settings.database, copy))
    else:
        size = back_up_sqlite(settings.state_folder, copy)
    (prepare_state_folder(settings) / BACKUP_STAMP).write_text(f"{copy.name}\n", encoding="utf-8")
    click.echo(f"{copy}: {size:,} bytes. The admin token is not in it.")
