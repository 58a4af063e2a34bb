"""`molecule admin`: what only the operator of the server does."""

from typing import Any

import click

from molecule_core.cli.options import (
    admin_token,
    has_admin_token,
    settings_from,
    state_options,
    without_admin_token,
)
from molecule_core.ground.errors import CommandFailed


@click.group("admin")
def command() -> None:
    """The server's own token."""


@command.command("token")
@state_options
def token(**flags: Any) -> None:
    """Print the admin token. It opens every organisation: treat it like a root password."""
    settings = settings_from(**flags)
    if not has_admin_token(settings):
        reason = f"{without_admin_token(settings)}; name the right --state-dir. A server makes it at its first start"
        raise CommandFailed(reason=reason)
    click.echo(admin_token(settings))
