"""`molecule agent`: runs an agent from a folder. docs/reference/configuration.md documents its config.yaml."""

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
    """Run an agent from a folder, without another host."""


@command.command("run")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--once", is_flag=True, help="Exit when there is no waiting message and no work in progress.")
@click.option(
    "--until-eof", is_flag=True, help="Exit when standard input ends, for example when the parent process exits."
)
@click.option("--workspace", help="Workspace to run as, if MOLECULE_WORKSPACES names several.")
def run_folder(folder: Path, once: bool, until_eof: bool, workspace: str | None) -> None:
    """Run the agent whose config.yaml, prompts and skills are in FOLDER.

    The environment names its workspace, as for `molecule mcp`. State that must survive a restart is stored in
    FOLDER/.molecule, or in the folder that CONFIGS_DIR names. Exit code 0: ended by a signal; 2: the configuration is
    invalid; 3: the server rejects the token."""
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
