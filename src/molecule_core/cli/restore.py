"""`molecule restore`: replaces the store and the uploaded files by a backup."""

import asyncio
from pathlib import Path
from typing import Any

import click

from molecule_core.cli._options import files_option, load_cli_settings, state_options
from molecule_core.common.clock import SystemClock
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.server.state_folder import prepare_state_folder
from molecule_core.store.backup_folder import BackupSource, RestoredFiles, read_backup, restore_files
from molecule_core.store.sqlite.backup import restore_sqlite


@click.command("restore")
@click.argument("copy", type=click.Path(path_type=Path, exists=True))
@state_options
@files_option
def command(copy: Path, **flags: Any) -> None:
    """Replace the store and the uploaded files with a backup. Stop the server first.

    Nothing is deleted: the old store is renamed, and files that the backup does not name are moved into a folder inside
    the files folder.

    COPY is a folder written by `molecule backup`, from SQLite or PostgreSQL, or the copy of a store that an upgrade
    made. It can be restored to either. A PostgreSQL database must be empty: create a new one."""
    settings = load_cli_settings(**flags)
    clock = SystemClock()
    ids = IdGenerator(clock, SystemRandomness())
    folder = prepare_state_folder(settings)
    source = read_backup(copy)
    restored: list[RestoredFiles] = []

    def bring_files() -> None:
        restored.append(restore_files(source, settings.files_folder, folder, clock=clock))

    previous = None
    if settings.database:
        from molecule_core.store.postgres.backup import restore_postgres

        asyncio.run(restore_postgres(source.store, settings.database, ids=ids))
        bring_files()
    else:
        previous = restore_sqlite(source.store, folder, clock=clock, ids=ids, restore_files=bring_files)
    place = "the database" if settings.database else folder
    click.echo(f"Restored {copy} to {place}: {_describe(source)}.")
    if previous is not None:
        click.echo(f"The previous store was renamed to {previous}.")
    for each in restored:
        _print_files(each)


def _describe(source: BackupSource) -> str:
    if source.manifest is None:
        return "the store, without files"
    return f"{source.manifest.summary()} of {source.manifest.created_at}"


def _print_files(files: RestoredFiles) -> None:
    if files.moved:
        click.echo(f"Files that it does not name were moved to {files.aside}: {files.moved:,}.")
    if files.missing:
        click.echo(f"Files that it names and that were not found: {files.missing:,}. They answer with 404.", err=True)
