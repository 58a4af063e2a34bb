"""`molecule search`: search all texts of an organisation, over the API of a running server."""

from typing import Any

import click

from molecule_core.cli._client import client_options, org_option, run_with_api
from molecule_core.cli._context import printable_line
from molecule_core.cli._lookup import find_org_id, find_workspace_id
from molecule_core.client.api import ApiClient

_KINDS = click.Choice(["message", "delegation", "thread", "memory"])
_TIME_LENGTH = len("2026-11-21T22:41:07")


@click.command("search")
@click.argument("words", nargs=-1, required=True)
@click.option("--kind", "kinds", multiple=True, type=_KINDS, help="Only this kind; may be repeated.")
@click.option("--workspace", help="Only what this workspace (an id, a unique name or a path) takes part in.")
@click.option("--since", help="Only from this time on, such as 2026-11-21T22:41:07Z.")
@click.option("--until", help="Only before this time.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Number of results.")
@click.option("--cursor", help="The cursor that the page before has printed.")
@org_option
@client_options
def command(
    words: tuple[str, ...],
    kinds: tuple[str, ...],
    workspace: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    cursor: str | None,
    org: str | None,
    **flags: Any,
) -> None:
    """Search messages, delegations, threads and memories for all of these words, newest first.

    The last word may be a prefix of three to eight characters. Words in quotation marks must be adjacent."""

    async def work(api: ApiClient) -> None:
        org_id = await find_org_id(api, org)
        page = await api.get(
            f"/orgs/{org_id}/search",
            q=" ".join(words),
            kind=",".join(kinds) or None,
            workspace=workspace and await find_workspace_id(api, workspace, org),
            since=since,
            until=until,
            limit=limit,
            cursor=cursor,
        )
        _print_page(page)

    run_with_api(work, flags)


def _print_page(page: dict[str, Any]) -> None:
    for found in page["results"]:
        id_ = found["id"] if found["ordinal"] is None else f"{found['id']} item {found['ordinal']}"
        names = ", ".join(printable_line(each["name"] or each["id"]) for each in found["workspaces"])
        click.echo(f"{found['at'][:_TIME_LENGTH]}  {found['kind']:<10}  {id_}  {names}")
        click.echo(f"    {printable_line(found['snippet']['text'])}")
    if not page["results"]:
        click.echo("no results")
    if page["next_cursor"] is not None:
        click.echo(f"... older results: --cursor {page['next_cursor']}")
    if not page["complete"]:
        click.echo("Older texts are still being indexed.")
