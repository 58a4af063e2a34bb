"""`molecule schedule`: messages and tasks at planned times, over the API of a running server."""

import json
from pathlib import Path
from typing import Any

import click

from molecule_core.cli._client import add_command, org_option
from molecule_core.cli._context import JSON_OPTION, print_result, printable_line
from molecule_core.cli._lookup import find_named, find_org_id, find_workspace_id
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed


@click.group("schedule")
def command() -> None:
    """Send messages and delegate tasks at planned times."""


async def _find_path(api: ApiClient, org: str | None) -> str:
    return f"/orgs/{await find_org_id(api, org)}/schedules"


async def _find_schedule(api: ApiClient, path: str, wanted: str) -> dict[str, Any]:
    rows = (await api.get(path))["schedules"]
    return find_named([{**row, "id": row["schedule_id"]} for row in rows], wanted, "schedule")


@JSON_OPTION
async def _list(api: ApiClient, path: str, as_json: bool) -> None:
    """List the schedules, each with its next run."""
    rows = (await api.get(path))["schedules"]
    names = {row["id"]: row["name"] for row in await api.get("/workspaces")}
    print_result(rows, as_json, lambda found: _print_rows(found, names))


def _print_rows(rows: list[dict[str, Any]], names: dict[str, str]) -> None:
    for row in rows:
        target = printable_line(names.get(row["target_id"], row["target_id"]))
        when = row["cron"] or "once"
        state = f"next {row['next_runs'][0]}" if row["next_runs"] else row["state"]
        reason = f": {printable_line(row['pause_reason'])}" if row["pause_reason"] else ""
        click.echo(
            f"{row['schedule_id']}  {printable_line(row['name'])}  {row['action']} to {target}  "
            f"{when} {row['time_zone']}  {state}{reason}"
        )
    if not rows:
        click.echo("no schedules")


@click.argument("name")
@click.option("--to", "target", required=True, help="The workspace that gets the message or task.")
@click.option("--text", required=True, help="The message, or the task.")
@click.option("--cron", help='When, as five fields: minute, hour, day, month, weekday, such as "30 8 * * MON-FRI".')
@click.option("--once", help="When, as one time with an offset, such as 2027-01-04T09:00:00+01:00.")
@click.option("--time-zone", default="UTC", show_default=True, help="IANA time zone of --cron, such as Europe/Berlin.")
@click.option("--from", "source", help="The workspace that it acts for.  [default: you, for messages]")
@click.option("--delegate", is_flag=True, help="Delegate the text as a task; needs --from.")
@click.option("--deadline", type=click.IntRange(min=1), help="Seconds until the deadline of the task.")
@click.option("--accept", type=click.Path(path_type=Path, dir_okay=False), help="JSON file of checks of the answer.")
@click.option(
    "--misses",
    type=click.Choice(("skip", "once")),
    default="skip",
    show_default=True,
    help="What to do about times for which no server was running.",
)
@click.option(
    "--overlap",
    type=click.Choice(("skip", "queue")),
    default="skip",
    show_default=True,
    help="What to do while the run before is not done.",
)
@click.option("--paused", is_flag=True, help="Save it paused.")
async def _add(api: ApiClient, path: str, target: str, source: str | None, accept: Path | None, **options: Any) -> None:
    """Add a schedule."""
    delegate, deadline = options.pop("delegate"), options.pop("deadline")
    body = {
        **options,
        "target_id": await find_workspace_id(api, target),
        "source_id": None if source is None else await find_workspace_id(api, source),
        "action": "delegate" if delegate else "message",
        "deadline_seconds": deadline,
        "accept": None if accept is None else _read_checks(accept),
    }
    created = await api.post(path, body)
    click.echo(f"created {created['schedule_id']}")
    _print_times(created["next_runs"])


def _read_checks(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandFailed(reason=f"the file {file} cannot be read: {error.strerror}") from None
    except ValueError:
        raise CommandFailed(reason=f"the file {file} is not JSON. Write a list of checks.") from None


@click.argument("schedule")
@JSON_OPTION
async def _show(api: ApiClient, path: str, schedule: str, as_json: bool) -> None:
    """Show a schedule."""
    row = await _find_schedule(api, path, schedule)
    names = {each["id"]: each["name"] for each in await api.get("/workspaces")}
    print_result(row, as_json, lambda found: _print_schedule(found, names))


def _print_schedule(row: dict[str, Any], names: dict[str, str]) -> None:
    source = row["author"] if row["source_id"] is None else names.get(row["source_id"], row["source_id"])
    lines = {
        "name": row["name"],
        "state": f"{row['state']}: {row['pause_reason']}" if row["pause_reason"] else row["state"],
        "acts for": source,
        "to": names.get(row["target_id"], row["target_id"]),
        "when": f"{row['cron'] or row['once']} {row['time_zone']}",
        "does": f"{row['action']}: {row['text']}",
        "misses": row["misses"],
        "overlap": row["overlap"],
    }
    for name, text in lines.items():
        click.echo(f"{name:<9} {printable_line(str(text))}")
    _print_times(row["next_runs"])


def _print_times(times: list[str]) -> None:
    for each in times:
        click.echo(f"next      {each}")


@click.argument("schedule")
async def _pause(api: ApiClient, path: str, schedule: str) -> None:
    """Pause a schedule."""
    row = await _find_schedule(api, path, schedule)
    await api.call("PUT", f"{path}/{row['schedule_id']}/paused", body={"paused": True})
    click.echo(f"paused {row['schedule_id']}")


@click.argument("schedule")
async def _resume(api: ApiClient, path: str, schedule: str) -> None:
    """Resume a schedule. Times that passed meanwhile are not run."""
    row = await _find_schedule(api, path, schedule)
    changed = await api.call("PUT", f"{path}/{row['schedule_id']}/paused", body={"paused": False})
    click.echo(f"resumed {row['schedule_id']}")
    _print_times(changed["next_runs"])


@click.argument("schedule")
async def _remove(api: ApiClient, path: str, schedule: str) -> None:
    """Remove a schedule and its history. What it sent and delegated stays."""
    row = await _find_schedule(api, path, schedule)
    await api.call("DELETE", f"{path}/{row['schedule_id']}")
    click.echo(f"removed {row['schedule_id']}")


@click.argument("schedule")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of runs.")
@JSON_OPTION
async def _runs(api: ApiClient, path: str, schedule: str, limit: int, as_json: bool) -> None:
    """Show what was done at the planned times of a schedule, newest first."""
    row = await _find_schedule(api, path, schedule)
    found = (await api.get(f"{path}/{row['schedule_id']}/runs", limit=limit))["runs"]
    print_result(found, as_json, _print_runs)


def _print_runs(runs: list[dict[str, Any]]) -> None:
    for run in runs:
        work = f"  {run['work_id']}" if run["work_id"] else ""
        reason = f"  {printable_line(run['reason'])}" if run["reason"] else ""
        click.echo(f"{run['planned_at']}  {run['outcome']}{work}{reason}")
    if not runs:
        click.echo("no runs")


@click.argument("schedule")
@click.option("--count", type=click.IntRange(1, 50), default=5, show_default=True, help="Number of times.")
async def _next(api: ApiClient, path: str, schedule: str, count: int) -> None:
    """Show the next planned times of a schedule, in its time zone."""
    row = await _find_schedule(api, path, schedule)
    found = (await api.get(f"{path}/{row['schedule_id']}/next", count=count))["next_runs"]
    for each in found:
        click.echo(each)
    if not found:
        click.echo(f"none: it is {row['state']}")


_WORK = {
    "list": _list,
    "add": _add,
    "show": _show,
    "pause": _pause,
    "resume": _resume,
    "remove": _remove,
    "runs": _runs,
    "next": _next,
}
for _name, _work in _WORK.items():
    add_command(command, _name, org_option(_work), _find_path, by="org")
