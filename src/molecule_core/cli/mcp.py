"""`molecule mcp`: runs an agent's MCP server on stdio. Without options entry.py starts it, which is faster."""

import sys

import click

from molecule_core.agent.main import main


@click.command(
    help="Seat an agent in its workspaces, as an MCP server on stdio. Its settings are environment variables."
)
def command() -> None:
    """Run until the host closes standard input."""
    sys.exit(main())
