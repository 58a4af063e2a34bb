"""`molecule admin`: what only the operator of the server does."""

from typing import Any

import click

from molecule_core.cli.options import admin_token, settings_from, state_options


@click.group("admin")
def command() -> None:
    """The server's own token."""


@command.command("token")
@state_options
def token(**flags: Any) -> None:
    """Print the admin token. It opens every organisation: treat it like a root password."""
    click.echo(admin_token(settings_from(**flags)))
