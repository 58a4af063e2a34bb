"""`molecule mcp`: runs an agent's MCP server on stdio. Without options entry.py starts it, which is faster."""

import sys

import click

from molecule_core.agent.main import main


@click.command(
    help="Run the MCP server of an agent on stdio, connected to its workspaces. Environment variables configure it."
)
def command() -> None:
    """Run until the host closes standard input."""
    sys.exit(main())
