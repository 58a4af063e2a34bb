"""`molecule serve`: runs the server."""

from typing import Any

import click

from molecule_core.cli._options import load_cli_settings, serve_options
from molecule_core.common.logs import configure_logging
from molecule_core.server.composition import Server
from molecule_core.server.listener import run
from molecule_core.server.state_folder import prepare_state_folder, server_admin_token


@click.command("serve")
@serve_options
def command(**flags: Any) -> None:
    """Run the server until it receives a signal. Ctrl-C stops it cleanly; the next start continues from there."""
    settings = load_cli_settings(**flags)
    configure_logging(settings.log_level, settings.log_format)
    prepare_state_folder(settings)
    run(Server(settings, admin_token=server_admin_token(settings)))
