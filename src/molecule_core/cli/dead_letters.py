"""`molecule dead-letters`: messages that could not be delivered, over the API of a running server."""

from typing import Any

import click

from molecule_core.cli._client import client_options, run_with_api
from molecule_core.cli._context import printable_line
from molecule_core.cli._lookup import find_org_id, list_orgs
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed

_PAGE = 500


async def _list_dead_letters(api: ApiClient, wanted: str | None) -> list[dict[str, Any]]:
    """Return all dead letters of one organisation or of all, newest first in each."""
    org_ids = [await find_org_id(api, wanted)] if wanted else [org["id"] for org in await list_orgs(api)]
    found: list[dict[str, Any]] = []
    for each in org_ids:
        before, reached_end = None, False
        while not reached_end:
            page = await api.get(f"/orgs/{each}/dead-letters", limit=_PAGE, before=before)
            found += page["dead_letters"]
            reached_end, before = page["reached_end"], found[-1]["activity_id"] if found else None
    return found


async def _find_dead_letter(api: ApiClient, activity_id: str) -> dict[str, Any]:
    """Return one dead letter. Raises CommandFailed."""
    for dead_letter in await _list_dead_letters(api, None):
        if dead_letter["activity_id"] == activity_id:
            return dead_letter
    raise CommandFailed(reason=f"there is no dead letter {activity_id}. Run molecule dead-letters list to see all.")


@click.group("dead-letters")
def command() -> None:
    """List, requeue and discard messages that could not be delivered."""


@command.command("list")
@click.option("--org", help="Only dead letters of this organisation (name or id).")
@client_options
def list_dead_letters(org: str | None, **flags: Any) -> None:
    """List dead letters, newest first."""

    async def work(api: ApiClient) -> None:
        dead_letters = await _list_dead_letters(api, org)
        for dead_letter in dead_letters:
            head = f"{dead_letter['activity_id']}  {dead_letter['died_at'][:19]}  {dead_letter['reason']:<11}"
            click.echo(f"{head}  {dead_letter['workspace_name']}: {printable_line(dead_letter['summary'] or '')}")
        if not dead_letters:
            click.echo("no dead letters")

    run_with_api(work, flags)


@command.command("show")
@click.argument("activity_id")
@client_options
def show(activity_id: str, **flags: Any) -> None:
    """Show a dead letter and its delivery log."""

    async def work(api: ApiClient) -> None:
        dead_letter = await _find_dead_letter(api, activity_id)
        for name, value in dead_letter.items():
            click.echo(f"{name:<15} {'' if value is None else printable_line(str(value))}")
        path = f"/workspaces/{dead_letter['workspace_id']}/messages/{activity_id}/ticks"
        for tick in (await api.get(path))["ticks"]:
            attempt = f" attempt {tick['attempt']}" if "attempt" in tick else ""
            click.echo(f"  {tick['at'][:19]}  {tick['tick']}{attempt}")

    run_with_api(work, flags)


@command.command("requeue")
@click.argument("activity_ids", nargs=-1, required=True)
@client_options
def requeue(activity_ids: tuple[str, ...], **flags: Any) -> None:
    """Deliver dead letters again."""

    async def work(api: ApiClient) -> None:
        for activity_id in activity_ids:
            dead_letter = await _find_dead_letter(api, activity_id)
            await api.post(f"/workspaces/{dead_letter['workspace_id']}/dead-letters/{activity_id}/requeue")
            click.echo(f"requeued {activity_id} for {dead_letter['workspace_name']}")

    run_with_api(work, flags)


@command.command("discard")
@click.argument("activity_ids", nargs=-1, required=True)
@client_options
def discard(activity_ids: tuple[str, ...], **flags: Any) -> None:
    """Discard dead letters permanently."""

    async def work(api: ApiClient) -> None:
        for activity_id in activity_ids:
            dead_letter = await _find_dead_letter(api, activity_id)
            await api.call("DELETE", f"/workspaces/{dead_letter['workspace_id']}/dead-letters/{activity_id}")
            click.echo(f"discarded {activity_id} of {dead_letter['workspace_name']}")

    run_with_api(work, flags)
