"""`molecule bridge`: connects a program that is not an MCP host to a workspace. docs/agents.md lists its settings."""

import asyncio
import logging
import os
import sys

import click

from molecule_core.agent.bridges.main import BridgeOptions, run_bridge
from molecule_core.agent.bridges.settings import read_bridge_settings
from molecule_core.agent.config import ConfigurationError, read_configuration, select_workspace
from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import configure_logging, register_secret


@click.group("bridge")
def command() -> None:
    """Connect a program that is not an MCP host to a workspace."""


@command.command("command", context_settings={"ignore_unknown_options": True})
@click.argument("program", nargs=-1, type=click.UNPROCESSED)
@click.option("--workspace", help="Which of the workspaces in MOLECULE_WORKSPACES to carry.")
@click.option(
    "--preamble", is_flag=True, help="Before each message, tell how people and peers are reached from a shell."
)
@click.option("--shell", is_flag=True, help="PROGRAM is one line for /bin/sh; left out: no shell ever reads it.")
@click.option("--stream", is_flag=True, help="One process for all messages, in lines of JSON, instead of one for each.")
@click.option("--until-eof", is_flag=True, help="End when standard input ends, and so with whoever started it.")
def per_message(program: tuple[str, ...], workspace: str | None, **flags: bool) -> None:
    """Start PROGRAM for each message: it reads the message on standard input, and its output is its final text.

    The final text is kept as the draft of the answer, unless the program has answered by `molecule reply` or another
    tool; the workspace's settings decide whether drafts are sent at once. The environment names the workspace, as for
    `molecule mcp`. Exit code 0 after a signal, 2 for wrong arguments, 3 if the server rejects the token."""
    try:
        configuration = select_workspace(read_configuration(os.environ), workspace)
        options = BridgeOptions(command=program, settings=read_bridge_settings(os.environ), **flags)
        for connection in configuration.workspaces:
            register_secret(connection.token)
        configure_logging("debug" if configuration.settings.verbose else "info", "text")
        for name in ("httpx2", "httpcore2", "asyncio"):
            logging.getLogger(name).setLevel(logging.WARNING)
        sys.exit(asyncio.run(run_bridge(configuration, options, os.environ)))
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None
