"""`molecule dead-letters`: messages that were given up, over the API of a running server."""

from typing import Any

import click

from molecule_core.cli.operating import operating, run
from molecule_core.client.api import Api
from molecule_core.ground.errors import CommandFailed

_PAGE = 500


async def _letters(api: Api, org_id: str | None) -> list[dict[str, Any]]:
    """All dead letters of one organisation or of all, newest first in each."""
    org_ids = [org_id] if org_id else [org["id"] for org in await api.get("/orgs")]
    found: list[dict[str, Any]] = []
    for each in org_ids:
        before, reached_end = None, False
        while not reached_end:
            page = await api.get(f"/orgs/{each}/dead-letters", limit=_PAGE, before=before)
            found += page["dead_letters"]
            reached_end, before = page["reached_end"], found[-1]["activity_id"] if found else None
    return found


async def _letter(api: Api, activity_id: str) -> dict[str, Any]:
    """One dead letter. Raises CommandFailed."""
    for letter in await _letters(api, None):
        if letter["activity_id"] == activity_id:
            return letter
    raise CommandFailed(reason=f"there is no dead letter {activity_id}; molecule dead-letters list shows all")


@click.group("dead-letters")
def command() -> None:
    """Messages that were given up: look, requeue, discard."""


@command.command("list")
@click.option("--org", "org_id", help="Only of this organisation.")
@operating
def list_letters(org_id: str | None, **flags: Any) -> None:
    """One line a letter, newest first."""

    async def work(api: Api) -> None:
        letters = await _letters(api, org_id)
        for letter in letters:
            head = f"{letter['activity_id']}  {letter['died_at'][:19]}  {letter['reason']:<11}"
            click.echo(f"{head}  {letter['workspace_name']}: {letter['summary'] or ''}")
        if not letters:
            click.echo("no dead letters")

    run(work, flags)


@command.command("show")
@click.argument("activity_id")
@operating
def show(activity_id: str, **flags: Any) -> None:
    """All about one, and what became of it before."""

    async def work(api: Api) -> None:
        letter = await _letter(api, activity_id)
        for name, value in letter.items():
            click.echo(f"{name:<15} {'' if value is None else value}")
        path = f"/workspaces/{letter['workspace_id']}/messages/{activity_id}/ticks"
        for tick in (await api.get(path))["ticks"]:
            attempt = f" attempt {tick['attempt']}" if "attempt" in tick else ""
            click.echo(f"  {tick['at'][:19]}  {tick['tick']}{attempt}")

    run(work, flags)


@command.command("requeue")
@click.argument("activity_ids", nargs=-1, required=True)
@operating
def requeue(activity_ids: tuple[str, ...], **flags: Any) -> None:
    """Hand them out again."""

    async def work(api: Api) -> None:
        for activity_id in activity_ids:
            letter = await _letter(api, activity_id)
            await api.post(f"/workspaces/{letter['workspace_id']}/dead-letters/{activity_id}/requeue")
            click.echo(f"requeued {activity_id} for {letter['workspace_name']}")

    run(work, flags)


@command.command("discard")
@click.argument("activity_ids", nargs=-1, required=True)
@operating
def discard(activity_ids: tuple[str, ...], **flags: Any) -> None:
    """Be done with them for good."""

    async def work(api: Api) -> None:
        for activity_id in activity_ids:
            letter = await _letter(api, activity_id)
            await api.call("DELETE", f"/workspaces/{letter['workspace_id']}/dead-letters/{activity_id}")
            click.echo(f"discarded {activity_id} of {letter['workspace_name']}")

    run(work, flags)
