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

from molecule_core.cli import _lookup
from molecule_core.cli._arguments import encoding_error
from molecule_core.cli._options import (
    TOKEN_VARIABLE,
    load_client_settings,
    missing_token_reason,
    owner_token,
    server_address,
    server_options,
)
from molecule_core.cli._os_errors import describe_os_error
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.org_apply import OrgPlanApplier, find_org, list_workspaces
from molecule_core.client.org_file import list_nodes, org_file_from_rows, read_org_file, render_org_file
from molecule_core.client.org_plan import OrgPlan, format_path, make_plan
from molecule_core.client.org_schedules import (
    SchedulePlan,
    apply_schedules,
    list_schedules,
    plan_schedules,
    render_schedules,
    schedules_from_rows,
)
from molecule_core.common.errors import CommandFailed, MoleculeError

EXIT_DIFFERENT, EXIT_FAILED = 2, 1
"""Exit codes: the organisation differs from the file; the command failed. 0: no difference."""

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")
_FILE = click.argument("file", type=click.Path(path_type=Path))


@click.group("org")
def command() -> None:
    """Plan, apply and export an organisation as a file.

    Uses the admin token of this machine's server, or the token of an owner in MOLECULE_TOKEN."""


def org_options(verb: F) -> F:
    """Add the options for server and organisation. An error exits with 1, since 2 means "different"."""

    @wraps(verb)
    def guarded(*args: Any, **flags: Any) -> Any:
        try:
            return verb(*args, **flags)
        except MoleculeError as error:
            click.echo(f"molecule: {error.text}", err=True)
            sys.exit(EXIT_FAILED)
        except (UnicodeEncodeError, OSError) as error:
            reason = describe_os_error(error) if isinstance(error, OSError) else encoding_error(sys.argv[1:])
            if reason is None:
                raise
            click.echo(f"molecule: {reason}", err=True)
            sys.exit(EXIT_FAILED)

    options = (click.option("--org", help="Name of the organisation, if it differs from the name in the file."),)
    for option in options:
        guarded = option(guarded)
    return server_options(guarded)  # type: ignore[return-value]


@command.command()
@org_options
@_FILE
def plan(file: Path, org: str | None, **flags: Any) -> None:
    """Show the changes that `apply` would make. Exit code 0 if there are none, 2 if there are some."""
    org_file = read_org_file(file)

    async def print_plan(api: ApiClient) -> int:
        found = await find_org(api, org or org_file.name)
        rows = [] if found is None else await list_workspaces(api, found["id"])
        known = [] if found is None or org_file.schedules is None else await list_schedules(api, found["id"])
        schedule_plan = plan_schedules(org_file.schedules, known, rows)
        org_plan = make_plan(list_nodes(org_file), rows)
        if found is None:
            click.echo(f"+ organisation {org or org_file.name}")
        _print_plan(org_plan, schedule_plan)
        is_same = found is not None and org_plan.is_empty and schedule_plan.is_empty
        return 0 if is_same else EXIT_DIFFERENT

    sys.exit(_run_with_api(print_plan, flags))


@command.command()
@org_options
@click.option("--yes", is_flag=True, help="Remove what is not in the file, without asking.")
@click.option(
    "--tokens-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write the token of each new workspace to a file in this folder, instead of printing it.",
)
@_FILE
def apply(file: Path, org: str | None, yes: bool, tokens_dir: Path | None, **flags: Any) -> None:
    """Change the organisation to match FILE. It is safe to run this again, also after an interruption."""
    org_file = read_org_file(file)

    async def make(api: ApiClient) -> None:
        found = await find_org(api, org or org_file.name)
        if found is None:
            found = await api.post("/orgs", {"name": org or org_file.name})
            click.echo(f"+ organisation {found['name']}")
        applier = OrgPlanApplier(api, found["id"], save_token=_token_sink(tokens_dir), report=click.echo)
        await applier.apply(list_nodes(org_file), lambda plan: _confirm_removals(plan, yes=yes))
        if org_file.schedules is not None:
            rows = await list_workspaces(api, found["id"])
            plan = plan_schedules(org_file.schedules, await list_schedules(api, found["id"]), rows)
            _confirm_schedule_removals(plan, yes=yes)
            await apply_schedules(api, found["id"], plan, rows, click.echo)
        click.echo("The organisation matches the file.")

    _run_with_api(make, flags)


@command.command()
@org_options
def export(org: str | None, **flags: Any) -> None:
    """Print the organisation as a file. It contains no secrets."""

    async def write(api: ApiClient) -> None:
        found = _lookup.find_org(await _lookup.list_orgs(api), org)
        rows = await list_workspaces(api, found["id"])
        click.echo(render_org_file(org_file_from_rows(found["name"], rows)), nl=False)
        schedules = schedules_from_rows(await list_schedules(api, found["id"]), rows)
        click.echo(render_schedules(schedules), nl=False)

    _run_with_api(write, flags)


# -- helpers -----------------------------------------------------------------------------------------------------------


def _run_with_api(work: Callable[[ApiClient], Coroutine[Any, Any, T]], flags: dict[str, Any]) -> T:
    """Run work with a client of the server. Raises CommandFailed."""
    settings = load_client_settings(**flags)
    address = server_address(flags, settings)

    async def call(token: str) -> T:
        async with ApiClient(address, token) as api:
            return await work(api)

    token = owner_token(settings, address)
    if token is None:
        raise CommandFailed(
            reason=f"{missing_token_reason(settings)}. Set --state-dir to the server's state folder, "
            f"or {TOKEN_VARIABLE} to the token of an owner."
        )
    try:
        return asyncio.run(call(token))
    except ApiError as error:
        raise CommandFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise CommandFailed(reason=f"{address} is not a Molecule server. Set --server to the address of one.") from None
    except NoAnswerError:
        raise CommandFailed(
            reason=f"no server responds at {address}. Start it, or set --server, and run this command "
            "again: it continues where it stopped."
        ) from None


def _print_plan(plan: OrgPlan, schedules: SchedulePlan | None = None) -> None:
    schedules = schedules or SchedulePlan()
    if plan.is_empty and schedules.is_empty:
        click.echo("No changes.")
    for line in () if plan.is_empty else plan.lines():
        click.echo(line)
    for line in schedules.lines():
        click.echo(line)


def _confirm_schedule_removals(plan: SchedulePlan, *, yes: bool) -> None:
    """Ask before schedules are removed. Raises CommandFailed without a terminal, and if a person declines."""
    if not plan.removed or yes:
        return
    names = ", ".join(row["name"] for row in plan.removed)
    if not sys.stdin.isatty():
        raise CommandFailed(reason=f"schedules would be removed: {names}. To confirm, run this again with --yes.")
    if not click.confirm(f"Remove these schedules: {names}?"):
        raise CommandFailed(reason="the schedules were not changed")


def _confirm_removals(plan: OrgPlan, *, yes: bool) -> bool:
    """Print the plan and ask before a removal. Raises CommandFailed without a terminal."""
    _print_plan(plan)
    if not plan.removal_count or yes:
        return True
    if not sys.stdin.isatty():
        raise CommandFailed(
            reason=f"{_count_workspaces(plan)} would be removed. To confirm, run this again with --yes."
        )
    return click.confirm(f"Remove {_count_workspaces(plan)}? This cannot be undone.")


def _count_workspaces(plan: OrgPlan) -> str:
    return "1 workspace" if plan.removal_count == 1 else f"{plan.removal_count} workspaces"


def _token_sink(folder: Path | None) -> Callable[[str, tuple[str, ...], str], None]:
    """Return a function for new tokens: it writes each to a private file, or prints it."""

    if folder is None:
        return lambda _id, path, token: click.echo(f"  token of {format_path(path)}, shown only once: {token}")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CommandFailed(reason=f"the folder {folder} cannot be created: {error.strerror}") from None
    if not os.access(folder, os.W_OK):
        raise CommandFailed(reason=f"the folder {folder} cannot be written to")

    def save_token(id_: str, _path: tuple[str, ...], token: str) -> None:
        file = folder / f"{id_}.token"
        with os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="ascii") as token_file:
            token_file.write(token + "\n")
        click.echo(f"  its token is in {file}")

    return save_token
