"""`molecule up`: runs the server for a person who tries it, optionally with a demo company."""

import asyncio
from pathlib import Path
from typing import Any

import click

from molecule_core.cli._options import load_cli_settings, serve_options
from molecule_core.common.errors import BadSettings
from molecule_core.common.logs import configure_logging
from molecule_core.common.settings import Settings
from molecule_core.server.composition import Server
from molecule_core.server.listener import run
from molecule_core.server.state_folder import ADMIN_TOKEN_FILE, ensure_admin_token, prepare_state_folder

_DEFAULTS = {"log_level": "warning", "push_instructions_enabled": True, "instruction_adaptive": True}


@click.command("up")
@click.option(
    "--demo", is_flag=True, help="Start a small company of scripted agents too, in a state folder of its own."
)
@click.option("--fresh", is_flag=True, help="With --demo: delete the demo's folder first, and start over.")
@click.option(
    "--company",
    type=click.Path(path_type=Path),
    help="With --demo: another org file; later starts remember it.  [default: the packaged company]",
)
@serve_options
def command(demo: bool, fresh: bool, company: Path | None, **flags: Any) -> None:
    """Serve, and print how to connect. Ctrl-C shuts down cleanly; the next start continues from there."""
    if not demo and (fresh or company is not None):
        raise BadSettings(reason="--fresh and --company belong to the demo; add --demo")
    settings = load_cli_settings(_DEFAULTS, **flags)
    configure_logging(settings.log_level, settings.log_format)
    if demo:
        _serve_with_demo(settings, company, fresh=fresh)
    else:
        _serve(settings)


def _serve(settings: Settings) -> None:
    folder = prepare_state_folder(settings)
    extra_lines = ["  try it       sh examples/walk.sh, or python examples/agent.py; README tells how"]
    run(
        Server(settings, admin_token=ensure_admin_token(settings)),
        lambda server: print_summary(server, folder, extra_lines),
    )


def _serve_with_demo(settings: Settings, file: Path | None, *, fresh: bool) -> None:
    from molecule_core.cli._demo import plan_demo, prepare_demo, run_demo  # imported only for the demo

    demo = plan_demo(settings, file, fresh=fresh)
    server = prepare_demo(demo, fresh=fresh)
    click.echo(f"Starting {demo.company.name} ...")
    asyncio.run(
        run_demo(demo, server, lambda extra_lines: print_summary(server, demo.settings.state_folder, extra_lines))
    )


async def print_summary(server: Server, folder: Path, extra_lines: list[str]) -> None:
    """Print addresses, paths and a one-time link into the canvas, once the server listens."""
    login_command = f"molecule login-link --state-dir {folder} --port {server.settings.port}"
    lines = [
        f"Molecule {server.version} on {server.settings.url}",
        "",
        f"  open         {await server.login_link()}",
        f"               (good once; for another: {login_command})",
        "",
        f"  state        {folder}",
        f"  admin token  {folder / ADMIN_TOKEN_FILE}  (molecule admin token --state-dir {folder} prints it)",
        *extra_lines,
        "  stop         Ctrl-C",
    ]
    click.echo("\n".join(lines))
