"""`molecule chains`: message chains that reached a limit, over the API of a running server."""

from typing import Any

import click

from molecule_core.cli._client import add_command, org_option
from molecule_core.cli._context import printable_line
from molecule_core.cli._lookup import find_org_id
from molecule_core.client.api import ApiClient


@click.group("chains")
def command() -> None:
    """List, release and end message chains that reached a limit."""


async def _find_path(api: ApiClient, org: str | None) -> str:
    return f"/orgs/{await find_org_id(api, org)}/chains"


@click.option("--all", "every", is_flag=True, help="Include released and ended chains.")
async def _list(api: ApiClient, path: str, every: bool) -> None:
    """List the frozen chains, newest first."""
    page = await api.get(path, state="all" if every else "frozen")
    for chain in page["chains"]:
        click.echo(_chain_line(chain))
    if not page["chains"]:
        click.echo("no chains" if every else "no frozen chains")
    elif not page["reached_end"]:
        click.echo("... and older chains")


@click.argument("root_id")
async def _show(api: ApiClient, path: str, root_id: str) -> None:
    """Show a chain and its messages."""
    after = None
    while True:
        page = await api.get(f"{path}/{root_id}", after=after)
        if after is None and page["chain"] is not None:
            click.echo(_chain_line(page["chain"]))
        for line in page["messages"]:
            sender = line["source_name"] or "a person"
            receiver = "its user" if line["method"] == "notify" else line["workspace_name"]
            head = f"{line['no']:>5}  hop {line['hop']:>2}  {line['at']}  {sender} -> {receiver}"
            click.echo(f"{head}: {printable_line(line['summary'])}")
            after = line["no"]
        if page["reached_end"]:
            return


@click.argument("root_id")
@click.option(
    "--messages", type=click.IntRange(min=1), help="Number of further messages to allow.  [default: each limit again]"
)
async def _release(api: ApiClient, path: str, root_id: str, messages: int | None) -> None:
    """Resume a frozen chain. It freezes again at its next limit."""
    click.echo(_chain_line(await api.post(f"{path}/{root_id}/release", {"messages": messages})))


@click.argument("root_id")
async def _end(api: ApiClient, path: str, root_id: str) -> None:
    """End a chain permanently. Its further messages are rejected."""
    click.echo(_chain_line(await api.post(f"{path}/{root_id}/end", {})))


def _chain_line(chain: dict[str, Any]) -> str:
    stopped_at = chain["workspace_name"] or chain["workspace_id"]
    totals = f"{chain['messages']} messages, {chain['hops']} hops"
    head = f"{chain['root_id']}  {chain['state']}  {chain['reason']}"
    return f"{head}  {totals}  stopped at {stopped_at}, {chain['frozen_at']}"


for _name, _work in (("list", _list), ("show", _show), ("release", _release), ("end", _end)):
    add_command(command, _name, org_option(_work), _find_path, by="org")
