"""`molecule up`: the server, for a person who wants to see it work; with a company of agents, if asked for."""

import asyncio
from pathlib import Path
from typing import Any

import click

from molecule_core.cli.options import ADMIN_TOKEN_FILE, admin_token, prepare_state, serve_options, settings_from
from molecule_core.ground.errors import BadSettings
from molecule_core.ground.logs import set_up_logs
from molecule_core.ground.settings import Settings
from molecule_core.server import Server
from molecule_core.serving import run

_USUAL = {"log_level": "warning", "push_instructions_enabled": True, "instruction_adaptive": True}


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
    """Serve, and say how to connect. Ctrl-C ends cleanly; the next start goes on where this one was."""
    if not demo and (fresh or company is not None):
        raise BadSettings(reason="--fresh and --company belong to the demo; add --demo")
    settings = settings_from(_USUAL, **flags)
    set_up_logs(settings.log_level, settings.log_format)
    if demo:
        _up_with_demo(settings, company, fresh=fresh)
    else:
        _up(settings)


def _up(settings: Settings) -> None:
    folder = prepare_state(settings)
    more = ["  try it       sh examples/walk.sh, or python examples/agent.py; README tells how"]
    run(Server(settings, admin_token=admin_token(settings)), lambda server: announce(server, folder, more))


def _up_with_demo(settings: Settings, file: Path | None, *, fresh: bool) -> None:
    from molecule_core.cli.demo import live, plan_demo, prepare_demo  # without the demo, none of it is loaded

    demo = plan_demo(settings, file, fresh=fresh)
    server = prepare_demo(demo, fresh=fresh)
    click.echo(f"Starting {demo.company.name} ...")
    asyncio.run(live(demo, server, lambda more: announce(server, demo.settings.state, more)))


async def announce(server: Server, folder: Path, more: list[str]) -> None:
    """Tells a person where everything is, once the server listens; with a link into the canvas that is good once."""
    again = f"molecule login-link --state-dir {folder} --port {server.settings.port}"
    lines = [
        f"Molecule {server.version} on {server.settings.url}",
        "",
        f"  open         {await server.login_link()}",
        f"               (good once; for another: {again})",
        "",
        f"  state        {folder}",
        f"  admin token  {folder / ADMIN_TOKEN_FILE}  (molecule admin token --state-dir {folder} prints it)",
        *more,
        "  stop         Ctrl-C",
    ]
    click.echo("\n".join(lines))
