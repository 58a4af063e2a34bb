"""`molecule org`: an organisation as a file: what differs, make it so, write it down."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from molecule_core.cli.arguments import not_text
from molecule_core.cli.options import (
    TOKEN_VARIABLE,
    address_of,
    owner_token,
    settings_from,
    state_options,
    without_admin_token,
)
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.client.org_apply import Applier, find_org, rows_of
from molecule_core.client.org_file import file_of, nodes, read_file, written
from molecule_core.client.org_plan import Plan, plan_of, shown
from molecule_core.ground.errors import MoleculeError, OrgFileFailed

DIFFERENT, FAILED = 2, 1
"""Exit codes: the organisation is not as the file says; it did not work. 0: it is."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("org")
def command() -> None:
    """An organisation as a file. Needs the server's own token, or an owner's in MOLECULE_TOKEN."""


def server_options(verb: F) -> F:
    """Which server, which organisation; and a refusal is one line and exit code 1, since 2 says "different"."""

    @wraps(verb)
    def guarded(*args: Any, **flags: Any) -> Any:
        try:
            return verb(*args, **flags)
        except MoleculeError as error:
            click.echo(f"molecule: {error.text}", err=True)
            sys.exit(FAILED)
        except UnicodeEncodeError:
            told = not_text(sys.argv[1:])
            if told is None:
                raise
            click.echo(f"molecule: {told}", err=True)
            sys.exit(FAILED)

    options = (
        click.option("--org", help="The organisation's name, if it is not the one in the file."),
        click.option("--url", help="Of the server.  [default: the one on this machine]"),
        click.option("--port", type=int, help="Of the server on this machine.  [default: 8080]"),
    )
    for option in options:
        guarded = option(guarded)
    return state_options(guarded)  # type: ignore[return-value]


@command.command()
@server_options
@_FILE
def plan(file: Path, org: str | None, url: str | None, **flags: Any) -> None:
    """Show what differs between FILE and the organisation. Exit code 0: nothing; 2: something."""
    wanted = read_file(file)

    async def look(api: Api) -> int:
        found = await find_org(api, org or wanted.name)
        rows = [] if found is None else await rows_of(api, found["id"])
        made = plan_of(nodes(wanted), rows)
        if found is None:
            click.echo(f"+ the organisation {org or wanted.name}")
        _show(made)
        return 0 if found is not None and made.is_empty else DIFFERENT

    sys.exit(_run(look, url, flags))


@command.command()
@server_options
@click.option("--yes", is_flag=True, help="Remove what the file does not have, without asking.")
@click.option(
    "--tokens-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the tokens of new workspaces in this folder, a file each, instead of showing them.",
)
@_FILE
def apply(file: Path, org: str | None, url: str | None, yes: bool, tokens_dir: Path | None, **flags: Any) -> None:
    """Make the organisation what FILE says. Can be run again and again, also after an interruption."""
    wanted = read_file(file)

    async def make(api: Api) -> None:
        found = await find_org(api, org or wanted.name)
        if found is None:
            found = await api.post("/orgs", {"name": org or wanted.name})
            click.echo(f"+ the organisation {found['name']}")
        applier = Applier(api, found["id"], keep=_keeper(tokens_dir), say=click.echo)
        await applier.apply(nodes(wanted), lambda plan: _may_remove(plan, yes=yes))
        click.echo("The organisation is as the file says.")

    _run(make, url, flags)


@command.command()
@server_options
def export(org: str | None, url: str | None, **flags: Any) -> None:
    """Print the organisation as a file. No secret is in it."""

    async def write(api: Api) -> None:
        found = await find_org(api, org)
        if found is None:
            raise OrgFileFailed(reason=f"there is no organisation named {org!r}")
        click.echo(written(file_of(found["name"], await rows_of(api, found["id"]))), nl=False)

    _run(write, url, flags)


# -- parts -------------------------------------------------------------------------------------------------------------


def _run(work: Callable[[Api], Coroutine[Any, Any, T]], url: str | None, flags: dict[str, Any]) -> T:
    """Does something with a client of the server. Raises OrgFileFailed."""
    settings = settings_from(**flags)
    address = address_of(url, "--url", settings)

    async def connected(token: str) -> T:
        async with Api(address, token) as api:
            return await work(api)

    token = owner_token(settings)
    if token is None:
        raise OrgFileFailed(
            reason=f"{without_admin_token(settings)}; put an owner's token into {TOKEN_VARIABLE}, "
            "or name the right --state-dir"
        )
    try:
        return asyncio.run(connected(token))
    except ApiError as error:
        raise OrgFileFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise OrgFileFailed(reason=f"what answers on {address} is no Molecule server; name its --url") from None
    except NoAnswer:
        raise OrgFileFailed(
            reason=f"no server answers on {address}; start it, or name its --url or --port. "
            "What was done is done: run it again, and it goes on from there"
        ) from None


def _show(plan: Plan) -> None:
    if plan.is_empty:
        click.echo("Nothing differs.")
    for line in () if plan.is_empty else plan.lines():
        click.echo(line)


def _may_remove(plan: Plan, *, yes: bool) -> bool:
    """Shows the plan; asks before something goes. Raises OrgFileFailed where nobody can be asked."""
    _show(plan)
    if not plan.removals or yes:
        return True
    if not sys.stdin.isatty():
        raise OrgFileFailed(reason=f"{plan.removals} workspaces would be removed; repeat with --yes if that is meant")
    return click.confirm(f"Remove {plan.removals} workspaces with all that they know?")


def _keeper(folder: Path | None) -> Callable[[str, tuple[str, ...], str], None]:
    """Where new tokens go: a file for each, readable for its owner alone; or, this once, the terminal."""

    if folder is None:
        return lambda _id, path, token: click.echo(f"  token of {shown(path)}, shown this once: {token}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OrgFileFailed(reason=f"the folder {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise OrgFileFailed(reason=f"the folder {folder} cannot be written to")

    def keep(id_: str, _path: tuple[str, ...], token: str) -> None:
        file = folder / f"{id_}.token"
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as opened:
            opened.write(token + "\n")
        click.echo(f"  its token is in {file}")

    return keep
