"""`molecule host-hook`, as the help of the command line lists it. entry.py starts it, which is faster."""

import sys

import click

from molecule_core.client.host_hook import WAIT_OPTION, main


@click.command("host-hook")
@click.option("--wait", is_flag=True, help="Wait for the next message, then end with code 2, which wakes the host.")
def command(*, wait: bool) -> None:
    """Pass an event of a host's hook to its `molecule mcp`, and print the answer.

    For hooks of Claude Code, which `molecule connect claude-code` writes. Reads the event from standard input."""
    sys.exit(main([WAIT_OPTION] if wait else []))
