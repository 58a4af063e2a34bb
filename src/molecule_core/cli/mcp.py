"""`molecule mcp`: an agent's process on standard input and output. Without options it begins in entry.py, sooner."""

import sys

import click

from molecule_core.agent.main import main


@click.command(
    help="Seat an agent in its workspaces, as an MCP server on stdio. Its settings are environment variables."
)
def command() -> None:
    """Runs until the host closes its end."""
    sys.exit(main())
