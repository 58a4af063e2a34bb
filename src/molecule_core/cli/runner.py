"""`molecule runner`: starts agents on this machine as operators request. docs/how-to/runner.md explains it."""

import asyncio
import logging
import os
import sys
from pathlib import Path

import click

from molecule_core.agent.bridges.program_input import public_environment
from molecule_core.agent.config import ConfigurationError
from molecule_core.agent.runner.configuration import load_runner_configuration
from molecule_core.agent.runner.machine_runner import RunnerOptions
from molecule_core.agent.runner.main import prepare_runner_folder, read_runner_token, run_runner, save_runner_token
from molecule_core.agent.runner.settings import TOKEN_VARIABLE, read_runner_settings
from molecule_core.cli._options import SERVER_OPTION, SERVER_VARIABLE
from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import configure_logging, register_secret
from molecule_core.common.net.server_url import URL_EXAMPLES, parse_server_url

DEFAULT_STATE = "~/.molecule/runner"


@click.command("runner")
@click.option(
    SERVER_OPTION,
    "server",
    envvar=SERVER_VARIABLE,
    default="http://127.0.0.1:8080",
    show_default=True,
    help=f"Address of the server. Also {SERVER_VARIABLE} in the environment.",
)
@click.option(
    "--state",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(DEFAULT_STATE),
    show_default=True,
    help="Folder of runner.toml, which says what may be started, of the token and of the agents' state.",
)
@click.option(
    "--until-eof", is_flag=True, help="Exit when standard input ends, for example when the parent process exits."
)
def command(server: str, state: Path, *, until_eof: bool) -> None:
    """Start and stop agents on this machine, as operators request on the page or with `molecule agents`.

    The runner connects out to the server. Its token, of `molecule agents enrol`, is in MOLECULE_RUNNER_TOKEN at the
    first start, and saved in the state folder. Exit code 0: ended by a signal; 2: the configuration is invalid; 3: the
    runner was removed."""
    url = parse_server_url(server)
    if url is None:
        raise CommandFailed(reason=f"{SERVER_OPTION} is not a server address. {URL_EXAMPLES}")
    configure_logging("info", "text")
    for name in ("httpx2", "httpcore2", "asyncio"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        folder = prepare_runner_folder(state.expanduser().absolute())
        options = RunnerOptions(
            url=url,
            token=_find_token(folder),
            state=folder,
            configuration=load_runner_configuration(folder),
            settings=read_runner_settings(os.environ),
            environment=public_environment(os.environ),
        )
        sys.exit(asyncio.run(run_runner(options, until_eof=until_eof)))
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None


def _find_token(state: Path) -> str:
    """Return the token in the environment, which is saved, or the saved one."""
    given = os.environ.get(TOKEN_VARIABLE, "").strip()
    token = given or read_runner_token(state)
    if not token:
        raise CommandFailed(
            reason=f"this machine is not enrolled. Run `molecule agents enrol NAME`, and set {TOKEN_VARIABLE}."
        )
    register_secret(token)
    if given:
        save_runner_token(state, given)
    return token
