"""`molecule admin`: commands for the operator of the server."""

from typing import Any

import click

from molecule_core.cli._options import has_admin_token, load_cli_settings, missing_token_reason, state_options
from molecule_core.common.errors import CommandFailed
from molecule_core.server.state_folder import ensure_admin_token


@click.group("admin")
def command() -> None:
    """Print the admin token of the server."""


@command.command("token")
@state_options
def token(**flags: Any) -> None:
    """Print the admin token. It gives access to every organisation: treat it like a root password."""
    settings = load_cli_settings(**flags)
    if not has_admin_token(settings):
        reason = f"{missing_token_reason(settings)}; a server creates it at its first start. Set --state-dir."
        raise CommandFailed(reason=reason)
    click.echo(ensure_admin_token(settings))
