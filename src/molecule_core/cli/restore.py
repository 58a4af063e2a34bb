"""`molecule restore`: a copy in the place of the store."""

from pathlib import Path
from typing import Any

import click

from molecule_core.cli.options import refuse_postgres, settings_from, state_options
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.ids import Ids, SystemRandomness
from molecule_core.store.backup import restore


@click.command("restore")
@click.argument("copy", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@state_options
def command(copy: Path, **flags: Any) -> None:
    """Put COPY in the place of the store. The server must not run; what was there is put aside, not deleted."""
    settings = settings_from(**flags)
    refuse_postgres(settings, "pg_restore --clean --if-exists --dbname=DATABASE COPY")
    clock = SystemClock()
    aside = restore(copy, settings.state, clock=clock, ids=Ids(clock, SystemRandomness()))
    click.echo(f"restored {copy} to {settings.state}")
    if aside is not None:
        click.echo(f"the store that was there is now {aside}")
