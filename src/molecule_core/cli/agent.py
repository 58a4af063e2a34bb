"""`molecule agent`: runs an agent from a folder. docs/agent-run.md documents its config.yaml."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import click

from molecule_core.agent.config import ConfigurationError, read_configuration, select_workspace
from molecule_core.agent.engines.runner import run_agent
from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import configure_logging, register_secret

_STATE_FOLDER = ".molecule"


@click.group("agent")
def command() -> None:
    """Run an agent of our own."""


@command.command("run")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--once", is_flag=True, help="End when nothing waits and nothing is worked on.")
@click.option("--until-eof", is_flag=True, help="End when standard input ends, and so with whoever started it.")
@click.option("--workspace", help="Which of the workspaces in MOLECULE_WORKSPACES to sit in.")
def run_folder(folder: Path, once: bool, until_eof: bool, workspace: str | None) -> None:
    """Run the agent whose config.yaml, prompts and skills are in FOLDER.

    The environment names its workspace, as for `molecule mcp`. State that must survive a restart is kept in
    FOLDER/.molecule, unless CONFIGS_DIR names another place. Exit code 0 after a signal, 2 if the configuration is
    wrong, 3 if the server rejects the token."""
    try:
        environ = {"CONFIGS_DIR": str(folder / _STATE_FOLDER), **os.environ}
        configuration = select_workspace(read_configuration(environ), workspace)
        for connection in configuration.workspaces:
            register_secret(connection.token)
        configure_logging("debug" if configuration.settings.verbose else "info", "text")
        for name in ("httpx2", "httpcore2", "httpx", "httpcore", "openai", "anthropic", "any_llm", "asyncio"):
            logging.getLogger(name).setLevel(logging.WARNING)
        sys.exit(asyncio.run(run_agent(configuration, folder, environ, once=once, until_eof=until_eof)))
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None
