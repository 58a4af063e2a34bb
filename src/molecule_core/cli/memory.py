"""`molecule memory`: memories of workspaces, over the API of a running server."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import click
import msgspec

from molecule_core.cli._options import has_admin_token, load_cli_settings, missing_token_reason, state_options
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import MemoryFailed
from molecule_core.server.state_folder import ensure_admin_token

_SCOPES = click.Choice(["local", "team", "global"], case_sensitive=False)


@click.group("memory")
def command() -> None:
    """What workspaces remember: list it, search it, have it forgotten. WORKSPACE is a name or an id."""


def _server_command(name: str) -> Callable[[Callable[..., Awaitable[None]]], click.Command]:
    """Return a decorator for commands that call the server. The function gets a client and the workspace's path."""

    def decorate(work: Callable[..., Awaitable[None]]) -> click.Command:
        @wraps(work)
        def run(workspace: str, state_dir: str | None, database: str | None, port: int | None, **rest: Any) -> None:
            asyncio.run(_call_server(work, workspace, rest, state_dir=state_dir, database=database, port=port))

        run = click.option("--port", type=int, help="Of the running server.  [default: 8080]")(run)
        return command.command(name)(state_options(run))

    return decorate


async def _call_server(
    work: Callable[..., Awaitable[None]], workspace: str, rest: dict[str, Any], **flags: Any
) -> None:
    settings = load_cli_settings(**flags)
    if not has_admin_token(settings):
        raise MemoryFailed(reason=f"{missing_token_reason(settings)}; name the right --state-dir")
    try:
        async with ApiClient(settings.url, ensure_admin_token(settings)) as api:
            await work(api, f"/workspaces/{_find_workspace_id(await api.get('/workspaces'), workspace)}", **rest)
    except ApiError as error:
        raise MemoryFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise MemoryFailed(reason=f"what answers on {settings.url} is no Molecule server; name its --port") from None
    except NoAnswerError:
        raise MemoryFailed(reason=f"no server answers on {settings.url}; start it, or name its --port") from None


def _find_workspace_id(workspaces: list[dict[str, Any]], wanted: str) -> str:
    """Return the id of a workspace, by its id or by a name that only one has."""
    found = [str(each["id"]) for each in workspaces if wanted in (each["id"], each["name"])]
    if len(found) == 1:
        return found[0]
    if found:
        raise MemoryFailed(reason=f"{len(found)} workspaces are named {wanted!r}; take an id: {', '.join(found)}")
    raise MemoryFailed(reason=f"there is no workspace {wanted!r}")


@click.argument("workspace")
@click.option("--scope", type=_SCOPES, help="Only what was written for these readers.")
@click.option("--namespace", help="Only this one.")
@click.option("--before", help="Only those written before this memory (its id).")
async def _list(api: ApiClient, path: str, scope: str | None, namespace: str | None, before: str | None) -> None:
    """List what a workspace may recall, newest first."""
    await _print_memories(api, path, scope=scope, namespace=namespace, before=before)


@click.argument("workspace")
@click.argument("words", nargs=-1, required=True)
async def _search(api: ApiClient, path: str, words: tuple[str, ...]) -> None:
    """Search what a workspace may recall for memories that hold all these words."""
    await _print_memories(api, path, q=" ".join(words))


async def _print_memories(api: ApiClient, path: str, **query: Any) -> None:
    rows = await api.get(f"{path}/memories", **query)
    for row in rows:
        author = row["workspace_name"] or row["workspace_id"]
        click.echo(
            f"{row['id']}  {row['created_at']}  {row['scope']:<6}  {row['namespace']}  {author}: {_printable_text(row)}"
        )
    if not rows:
        click.echo("no memories")


def _printable_text(row: dict[str, Any]) -> str:
    """Return an agent's text on one line, without control characters, which a terminal could interpret."""
    return "".join(each if each.isprintable() else " " for each in row["content"])


@click.argument("workspace")
@click.argument("memory_id")
async def _forget(api: ApiClient, path: str, memory_id: str) -> None:
    """Have a workspace forget one of its own memories."""
    await api.call("DELETE", f"{path}/memories/{memory_id}")
    click.echo("forgotten")


@click.argument("workspace")
@click.option("--after", help="Only keys behind this one.")
async def _keys(api: ApiClient, path: str, after: str | None) -> None:
    """List the keys of a workspace with their versions and values."""
    rows = await api.get(f"{path}/memory", after=after)
    for row in rows:
        until = f", until {row['expires_at']}" if row["expires_at"] else ""
        value = msgspec.json.encode(row["value"]).decode()
        click.echo(f"{row['key']}  version {row['version']}{until}  {_printable_text({'content': value})}")
    if not rows:
        click.echo("no keys")


for _name, _work in (("list", _list), ("search", _search), ("forget", _forget), ("keys", _keys)):
    _server_command(_name)(_work)
