"""`molecule serve`: the server, for machines."""

from typing import Any

import click

from molecule_core.cli.options import admin_token, prepare_state, serve_options, settings_from
from molecule_core.ground.logs import set_up_logs
from molecule_core.server import Server
from molecule_core.serving import run


@click.command("serve")
@serve_options
def command(**flags: Any) -> None:
    """Serve until a signal comes. Ctrl-C ends cleanly; the next start goes on where this one was."""
    settings = settings_from(**flags)
    set_up_logs(settings.log_level, settings.log_format)
    prepare_state(settings)
    run(Server(settings, admin_token=admin_token(settings)))
