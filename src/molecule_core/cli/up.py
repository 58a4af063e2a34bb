"""`molecule up`: runs the server for a person who tries it, optionally with a demo company."""

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from molecule_core.agent.runner.configuration import CONFIGURATION_FILE
from molecule_core.cli._options import load_cli_settings, serve_options
from molecule_core.cli._own_runner import RUNNER_FOLDER, start_runner
from molecule_core.cli._sample_team import SampleTeams
from molecule_core.cli.login_link import request_link
from molecule_core.client.api import ApiError, NoAnswerError
from molecule_core.common.errors import BadSettings, CommandFailed, MoleculeError, StateInUse
from molecule_core.common.logs import configure_logging
from molecule_core.common.net.lan_address import find_lan_address
from molecule_core.common.own_command import login_link_command, own_command, state_dir_option
from molecule_core.common.settings import Settings
from molecule_core.common.state_files import ADMIN_TOKEN_FILE
from molecule_core.server.composition import Server
from molecule_core.server.listener import run
from molecule_core.server.server_record import read_server_record
from molecule_core.server.state_folder import (
    ensure_admin_token,
    prepare_state_folder,
    server_admin_token,
)

_EVERY_ADDRESS = "0.0.0.0"
_DEFAULTS = {"log_level": "warning", "instruction_adaptive": True}


@click.command("up")
@click.option("--demo", is_flag=True, help="Also start a small company of scripted agents, in a separate state folder.")
@click.option(
    "--lan",
    is_flag=True,
    help="Also serve other machines of the local network, over unencrypted HTTP. Do not use it in a network that you "
    "do not trust.",
)
@click.option("--fresh", is_flag=True, help="With --demo: delete the demo's folder first, and start over.")
@click.option(
    "--company",
    type=click.Path(path_type=Path),
    help="With --demo: file of another company. Later starts use it again.  [default: the built-in company]",
)
@click.option("--no-runner", is_flag=True, help="Do not start a runner, with which the page starts agents here.")
@serve_options
def command(demo: bool, lan: bool, fresh: bool, company: Path | None, no_runner: bool, **flags: Any) -> None:
    """Run the server, and print how to open and use it. Ctrl-C stops it cleanly; the next start continues from
    there."""
    if not demo and (fresh or company is not None):
        raise BadSettings(reason="--fresh and --company require --demo. Add --demo.")
    if demo and lan:
        raise BadSettings(reason="the demo is for this machine only. Use --lan without --demo.")
    settings = load_cli_settings(_DEFAULTS, **flags)
    if lan:
        settings = apply_lan_settings(settings, find_lan_address())
    configure_logging(settings.log_level, settings.log_format)
    if demo:
        _serve_with_demo(settings, company, fresh=fresh)
    else:
        _serve(settings, with_runner=not no_runner)


def apply_lan_settings(settings: Settings, address: str | None) -> Settings:
    """Return the settings of a server for the local network. Raises BadSettings if this machine has no address in one,
    or if an address is set already."""
    if settings.public_url:
        raise BadSettings(reason="--lan sets the public url, which is set already. Remove --lan or --public-url.")
    if address is None:
        raise BadSettings(
            reason="--lan needs a network, and this machine has no address in one. Connect it to a network."
        )
    if not settings.port:
        raise BadSettings(reason="--lan needs a port that other machines can know. Set --port.")
    return msgspec.structs.replace(settings, host=_EVERY_ADDRESS, public_url=f"http://{address}:{settings.port}")


def _lan_lines(settings: Settings) -> list[str]:
    """Return what a person on another machine has to type, for a server of the local network."""
    if settings.host != _EVERY_ADDRESS or not settings.public_url.startswith("http:"):
        return []
    command = f"molecule connect HOST --workspace NAME --server {settings.url} --own-token --apply"
    return [f"  other machine  {command}", "                 (unencrypted HTTP: only for a network that you trust)"]


def _serve(settings: Settings, *, with_runner: bool) -> None:
    folder = prepare_state_folder(settings)
    try:
        _run_server(settings, folder, with_runner=with_runner)
    except StateInUse:
        _print_running(settings, folder)


def _print_running(settings: Settings, folder: Path) -> None:
    """Print how to open the server that already runs on this state folder. Raises StateInUse if it does not respond."""
    record = read_server_record(folder)
    if record is None:
        raise StateInUse(place=folder)
    try:
        link = asyncio.run(request_link(record.address, ensure_admin_token(settings)))
    except (ApiError, NoAnswerError, MoleculeError):
        raise StateInUse(place=folder) from None
    click.echo(f"Molecule {record.version} is already running on {record.url} (process {record.pid}), open {link}")


def _run_server(settings: Settings, folder: Path, *, with_runner: bool) -> None:
    extra_lines = ["  connect      molecule connect HOST --workspace NAME --create --apply", *_lan_lines(settings)]
    runner_folder = folder / RUNNER_FOLDER
    if with_runner:
        extra_lines.append(f"  runner       {runner_folder / CONFIGURATION_FILE}  (what the page may start here)")

    token = server_admin_token(settings)
    server = Server(settings, admin_token=token)
    teams = server.sample_team_host = SampleTeams(server, folder, token)
    runners: list[object] = []  # kept: the runner ends with its process object

    async def on_ready(server: Server) -> None:
        if with_runner:
            try:
                runners.append(await start_runner(server, runner_folder))
            except (CommandFailed, OSError) as error:  # such as a Python that the server's user may not start
                reason = error.strerror if isinstance(error, OSError) else error.text
                click.echo(f"molecule: the runner of this machine cannot start: {reason}. Use --no-runner.", err=True)
        await teams.resume_teams()
        await print_summary(server, folder, extra_lines)

    run(server, on_ready, teams.stop)


def _serve_with_demo(settings: Settings, file: Path | None, *, fresh: bool) -> None:
    from molecule_core.cli._demo import plan_demo, prepare_demo, run_demo  # imported only for the demo

    demo = plan_demo(settings, file, fresh=fresh)
    server = prepare_demo(demo, fresh=fresh)
    click.echo(f"Starting {demo.company.name} ...")

    async def announce(extra_lines: list[str], chat_id: str | None) -> None:
        await print_summary(server, demo.settings.state_folder, extra_lines, chat_id)

    asyncio.run(run_demo(demo, server, announce))


async def print_summary(server: Server, folder: Path, extra_lines: list[str], chat_id: str | None = None) -> None:
    """Print addresses, paths and a one-time link into the canvas, once the server listens.

    `chat_id`: the workspace whose chat the link opens."""
    print_token = f"{own_command()} admin token {state_dir_option(server.settings)}"
    lines = [
        f"Molecule {server.version} on {server.settings.url}",
        "",
        f"  open         {await server.login_link(chat_id)}",
        f"               (works once; for another link: {login_link_command(server.settings)})",
        "",
        f"  state        {folder}",
        f"  admin token  {folder / ADMIN_TOKEN_FILE}  (print it: {print_token})",
        *extra_lines,
        f"  docs         {server.settings.url}/docs",
        "  stop         Ctrl-C",
    ]
    click.echo("\n".join(lines))
