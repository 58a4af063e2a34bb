"""`molecule org`: an organisation as a file: plan, apply, export."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from molecule_core.cli._arguments import encoding_error
from molecule_core.cli._options import (
    TOKEN_VARIABLE,
    load_cli_settings,
    missing_token_reason,
    owner_token,
    server_address,
    state_options,
)
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.org_apply import OrgPlanApplier, find_org, list_workspaces
from molecule_core.client.org_file import list_nodes, org_file_from_rows, read_org_file, render_org_file
from molecule_core.client.org_plan import OrgPlan, format_path, make_plan
from molecule_core.common.errors import MoleculeError, OrgFileFailed

EXIT_DIFFERENT, EXIT_FAILED = 2, 1
"""Exit codes: the organisation differs from the file; the command failed. 0: no difference."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("org")
def command() -> None:
    """An organisation as a file. Needs the server's own token, or an owner's in MOLECULE_TOKEN."""


def org_options(verb: F) -> F:
    """Add the options for server and organisation. An error exits with 1, since 2 means "different"."""

    @wraps(verb)
    def guarded(*args: Any, **flags: Any) -> Any:
        try:
            return verb(*args, **flags)
        except MoleculeError as error:
            click.echo(f"molecule: {error.text}", err=True)
            sys.exit(EXIT_FAILED)
        except UnicodeEncodeError:
            reason = encoding_error(sys.argv[1:])
            if reason is None:
                raise
            click.echo(f"molecule: {reason}", err=True)
            sys.exit(EXIT_FAILED)

    options = (
        click.option("--org", help="The organisation's name, if it is not the one in the file."),
        click.option("--url", help="Of the server.  [default: the one on this machine]"),
        click.option("--port", type=int, help="Of the server on this machine.  [default: 8080]"),
    )
    for option in options:
        guarded = option(guarded)
    return state_options(guarded)  # type: ignore[return-value]


@command.command()
@org_options
@_FILE
def plan(file: Path, org: str | None, url: str | None, **flags: Any) -> None:
    """Show what differs between FILE and the organisation. Exit code 0: nothing; 2: something."""
    org_file = read_org_file(file)

    async def look(api: ApiClient) -> int:
        found = await find_org(api, org or org_file.name)
        rows = [] if found is None else await list_workspaces(api, found["id"])
        org_plan = make_plan(list_nodes(org_file), rows)
        if found is None:
            click.echo(f"+ the organisation {org or org_file.name}")
        _print_plan(org_plan)
        return 0 if found is not None and org_plan.is_empty else EXIT_DIFFERENT

    sys.exit(_run_with_api(look, url, flags))


@command.command()
@org_options
@click.option("--yes", is_flag=True, help="Remove what the file does not have, without asking.")
@click.option(
    "--tokens-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the tokens of new workspaces in this folder, a file each, instead of showing them.",
)
@_FILE
def apply(file: Path, org: str | None, url: str | None, yes: bool, tokens_dir: Path | None, **flags: Any) -> None:
    """Make the organisation what FILE says. Can be run again and again, also after an interruption."""
    org_file = read_org_file(file)

    async def make(api: ApiClient) -> None:
        found = await find_org(api, org or org_file.name)
        if found is None:
            found = await api.post("/orgs", {"name": org or org_file.name})
            click.echo(f"+ the organisation {found['name']}")
        applier = OrgPlanApplier(api, found["id"], save_token=_token_sink(tokens_dir), report=click.echo)
        await applier.apply(list_nodes(org_file), lambda plan: _confirm_removals(plan, yes=yes))
        click.echo("The organisation is as the file says.")

    _run_with_api(make, url, flags)


@command.command()
@org_options
def export(org: str | None, url: str | None, **flags: Any) -> None:
    """Print the organisation as a file. No secret is in it."""

    async def write(api: ApiClient) -> None:
        found = await find_org(api, org)
        if found is None:
            raise OrgFileFailed(reason=f"there is no organisation named {org!r}")
        click.echo(
            render_org_file(org_file_from_rows(found["name"], await list_workspaces(api, found["id"]))), nl=False
        )

    _run_with_api(write, url, flags)


# -- helpers -----------------------------------------------------------------------------------------------------------


def _run_with_api(work: Callable[[ApiClient], Coroutine[Any, Any, T]], url: str | None, flags: dict[str, Any]) -> T:
    """Run work with a client of the server. Raises OrgFileFailed."""
    settings = load_cli_settings(**flags)
    address = server_address(url, "--url", settings)

    async def call(token: str) -> T:
        async with ApiClient(address, token) as api:
            return await work(api)

    token = owner_token(settings)
    if token is None:
        raise OrgFileFailed(
            reason=f"{missing_token_reason(settings)}; put an owner's token into {TOKEN_VARIABLE}, "
            "or name the right --state-dir"
        )
    try:
        return asyncio.run(call(token))
    except ApiError as error:
        raise OrgFileFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise OrgFileFailed(reason=f"what answers on {address} is no Molecule server; name its --url") from None
    except NoAnswerError:
        raise OrgFileFailed(
            reason=f"no server answers on {address}; start it, or name its --url or --port. "
            "What was done is done: run it again, and it goes on from there"
        ) from None


def _print_plan(plan: OrgPlan) -> None:
    if plan.is_empty:
        click.echo("Nothing differs.")
    for line in () if plan.is_empty else plan.lines():
        click.echo(line)


def _confirm_removals(plan: OrgPlan, *, yes: bool) -> bool:
    """Print the plan and ask before a removal. Raises OrgFileFailed without a terminal."""
    _print_plan(plan)
    if not plan.removal_count or yes:
        return True
    if not sys.stdin.isatty():
        raise OrgFileFailed(
            reason=f"{plan.removal_count} workspaces would be removed; repeat with --yes if that is meant"
        )
    return click.confirm(f"Remove {plan.removal_count} workspaces with all that they know?")


def _token_sink(folder: Path | None) -> Callable[[str, tuple[str, ...], str], None]:
    """Return a function for new tokens: it writes each to a private file, or prints it."""

    if folder is None:
        return lambda _id, path, token: click.echo(f"  token of {format_path(path)}, shown this once: {token}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OrgFileFailed(reason=f"the folder {folder} cannot be made: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise OrgFileFailed(reason=f"the folder {folder} cannot be written to")

    def save_token(id_: str, _path: tuple[str, ...], token: str) -> None:
        file = folder / f"{id_}.token"
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as token_file:
            token_file.write(token + "\n")
        click.echo(f"  its token is in {file}")

    return save_token
