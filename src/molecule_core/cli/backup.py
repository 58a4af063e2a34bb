"""`molecule backup`: copies the store and the uploaded files, also while they are in use."""

import asyncio
from pathlib import Path
from typing import Any

import click

from molecule_core.cli._options import files_option, load_cli_settings, state_options
from molecule_core.common.clock import SystemClock
from molecule_core.common.settings import Settings
from molecule_core.common.state_files import BACKUP_STAMP, match_owner
from molecule_core.server.state_folder import prepare_state_folder
from molecule_core.store.backup_folder import Manifest, write_backup
from molecule_core.store.sqlite.backup import back_up_sqlite


@click.command("backup")
@click.argument("copy", type=click.Path(path_type=Path))
@state_options
@files_option
def command(copy: Path, **flags: Any) -> None:
    """Write the store and the uploaded files to COPY, a new folder. A running server is not interrupted.

    The copy of the store is consistent, and every file that it names is in the backup. On the same disk, files are
    linked: they take no more space. `manifest.json` says what the backup holds."""
    settings = load_cli_settings(**flags)
    folder = prepare_state_folder(settings)

    def copy_store(path: Path) -> None:
        if settings.database:
            from molecule_core.store.postgres.backup import back_up_postgres

            asyncio.run(back_up_postgres(settings.database, path))
        else:
            back_up_sqlite(settings.state_folder, path)

    manifest = write_backup(copy, settings.files_folder, folder, clock=SystemClock(), copy_store=copy_store)
    _write_stamp(folder / BACKUP_STAMP, copy, manifest)
    click.echo(f"Wrote {copy}: {manifest.summary()}. It does not contain the admin token.")
    _print_missing(manifest, settings)


def _write_stamp(stamp: Path, copy: Path, manifest: Manifest) -> None:
    """Record the backup for `molecule doctor`, in a new file: the previous one may be another user's."""
    stamp.unlink(missing_ok=True)
    stamp.write_text(f"{copy.name}\n{manifest.summary()}\n", encoding="utf-8")
    match_owner(stamp, stamp.parent)


def _print_missing(manifest: Manifest, settings: Settings) -> None:
    if missing := manifest.missing_files:
        click.echo(
            f"Files that the store names and that are not in {settings.files_folder}: {len(missing):,}. "
            "Set --files-dir if the server has another folder; manifest.json has their ids.",
            err=True,
        )
