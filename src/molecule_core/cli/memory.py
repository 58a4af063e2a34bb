"""`molecule memory`: memories of workspaces, over the API of a running server."""

from typing import Any

import click
import msgspec

from molecule_core.cli._client import add_command
from molecule_core.cli._context import printable_line
from molecule_core.cli._lookup import find_workspace_id
from molecule_core.client.api import ApiClient

_SCOPES = click.Choice(["local", "team", "global"], case_sensitive=False)


@click.group("memory")
def command() -> None:
    """List, search and delete the memories of a workspace. WORKSPACE is an id, a unique name or a path."""


async def _find_path(api: ApiClient, workspace: str) -> str:
    return f"/workspaces/{await find_workspace_id(api, workspace)}"


@click.argument("workspace")
@click.option("--scope", type=_SCOPES, help="Only memories of this scope.")
@click.option("--namespace", help="Only memories of this namespace.")
@click.option("--before", help="Only memories older than this memory (its id).")
async def _list(api: ApiClient, path: str, scope: str | None, namespace: str | None, before: str | None) -> None:
    """List the memories that a workspace can recall, newest first."""
    await _print_memories(api, path, scope=scope, namespace=namespace, before=before)


@click.argument("workspace")
@click.argument("words", nargs=-1, required=True)
async def _search(api: ApiClient, path: str, words: tuple[str, ...]) -> None:
    """Search the memories that a workspace can recall for all of these words."""
    await _print_memories(api, path, q=" ".join(words))


async def _print_memories(api: ApiClient, path: str, **query: Any) -> None:
    rows = await api.get(f"{path}/memories", **query)
    for row in rows:
        author = row["workspace_name"] or row["workspace_id"]
        head = f"{row['id']}  {row['created_at']}  {row['scope']:<6}  {row['namespace']}  {author}"
        click.echo(f"{head}: {printable_line(row['content'])}")
    if not rows:
        click.echo("no memories")


@click.argument("workspace")
@click.argument("memory_id")
async def _forget(api: ApiClient, path: str, memory_id: str) -> None:
    """Delete one of a workspace's own memories."""
    await api.call("DELETE", f"{path}/memories/{memory_id}")
    click.echo("deleted")


@click.argument("workspace")
@click.option("--after", help="Only keys after this key.")
async def _keys(api: ApiClient, path: str, after: str | None) -> None:
    """List the keys of a workspace with their versions and values."""
    rows = await api.get(f"{path}/memory", after=after)
    for row in rows:
        until = f", expires {row['expires_at']}" if row["expires_at"] else ""
        value = msgspec.json.encode(row["value"]).decode()
        click.echo(f"{row['key']}  version {row['version']}{until}  {printable_line(value)}")
    if not rows:
        click.echo("no keys")


for _name, _work in (("list", _list), ("search", _search), ("forget", _forget), ("keys", _keys)):
    add_command(command, _name, _work, _find_path, by="workspace")
