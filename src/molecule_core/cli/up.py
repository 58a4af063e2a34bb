"""`molecule up`: the server, for a person who wants to see it work."""

from typing import Any

import click

from molecule_core.cli.options import ADMIN_TOKEN_FILE, admin_token, prepare_state, serve_options, settings_from
from molecule_core.ground.logs import set_up_logs
from molecule_core.server import Server, run


@click.command("up")
@serve_options
def command(**flags: Any) -> None:
    """Serve, and say how to connect. Ctrl-C ends cleanly; the next start goes on where this one was."""
    settings = settings_from(**flags)
    set_up_logs(settings.log_level, settings.log_format)
    folder = prepare_state(settings)
    server = Server(settings, admin_token=admin_token(settings))
    click.echo(
        f"Molecule {server.version} on {settings.url}\n"
        f"  state        {folder}\n"
        f"  admin token  {folder / ADMIN_TOKEN_FILE}  (molecule admin token prints it)\n"
        f"  try it       sh examples/walk.sh, or python examples/agent.py; README tells how\n"
        f"  stop         Ctrl-C"
    )
    run(server)
