"""`molecule doctor`: looks for what is wrong, and gives one advice for each thing it finds."""

import asyncio
import os
import shutil
import sys
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import click

from molecule_core.cli.options import serve_options, settings_from
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.ground.settings import Settings
from molecule_core.store.backup import database_in, fault_of, is_in_use

# Below this, a flood or a backup fills the disk before somebody looks.
_LEAST_FREE_BYTES = 1 << 30
_ANSWER_SECONDS = 5.0


class Finding(NamedTuple):
    """One look: what was looked at, what was seen, and what to do if that is bad."""

    what: str
    seen: str
    advice: str = ""


@click.command("doctor")
@serve_options
def command(**flags: Any) -> None:
    """Look at the state folder, the store and the server. Exit code 1 if one of them needs help."""
    settings = settings_from(**flags)
    findings = [check_folder(settings.state), check_database(settings), check_canvas(), check_server(settings)]
    for finding in findings:
        click.echo(f"{'FAIL' if finding.advice else 'ok':4}  {finding.what:13} {finding.seen}")
        if finding.advice:
            click.echo(f"      {'':13} -> {finding.advice}")
    sys.exit(1 if any(finding.advice for finding in findings) else 0)


def check_folder(state: Path) -> Finding:
    """The folder is there, belongs to us alone, can be written, and has room."""
    what = "state folder"
    if not state.is_dir():
        return Finding(what, f"{state} is not there", "start `molecule serve` once, or name the right --state-dir")
    mode = state.stat().st_mode & 0o777
    if mode & 0o077:
        return Finding(what, f"others can look into {state} (mode {mode:o})", f"chmod 700 {state}")
    if not os.access(state, os.W_OK):
        return Finding(what, f"{state} cannot be written", "run as the user that owns it")
    free = shutil.disk_usage(state).free
    if free < _LEAST_FREE_BYTES:
        return Finding(what, f"{free >> 20} MiB free", "make room on that disk: at least 1 GiB")
    return Finding(what, f"{state}, {free >> 30} GiB free")


def check_database(settings: Settings) -> Finding:
    """The store can be read and is whole."""
    what = "store"
    if settings.database:
        return Finding(what, "PostgreSQL; GET /ready tells whether it answers")
    database = database_in(settings.state)
    if not database.exists():
        return Finding(what, "there is none yet: the first start makes it")
    if fault := fault_of(database):
        return Finding(what, fault, "stop the server and put a backup back: molecule restore COPY")
    return Finding(what, "sound" + (", in use by a server" if is_in_use(settings.state) else ""))


def check_canvas() -> Finding:
    """The page has been built into the package."""
    if resources.files("molecule_core").joinpath("canvas_assets", "index.html").is_file():
        return Finding("canvas", "built")
    return Finding("canvas", "not built", "scripts/canvas build, in the checkout; or install a wheel, which carries it")


def check_server(settings: Settings) -> Finding:
    """The server answers at its address, and is ready."""
    what, url = "server", f"{settings.url}/ready"
    start = f"start it with `molecule serve --port {settings.port}`, or name its --host and --port"
    try:
        status = asyncio.run(_readiness(settings.url))
    except ApiError as error:
        return Finding(
            what, f"{url} answers {error.status}", "look into its log: it says why the store does not answer"
        )
    except NoAnswer as error:
        return Finding(what, f"no answer from {url}: {error}", start)
    if status != "ready":
        return Finding(what, f"{url} is answered by something else", start)
    return Finding(what, f"ready at {settings.url}")


async def _readiness(url: str) -> str:
    async with Api(url, seconds=_ANSWER_SECONDS) as api:
        return str((await api.get("/ready")).get("status", ""))
