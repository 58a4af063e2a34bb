"""`molecule chains`: message chains that reached a limit, over the API of a running server."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import click
import msgspec

from molecule_core.cli._options import has_admin_token, load_cli_settings, missing_token_reason, state_options
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import ChainsFailed
from molecule_core.server.state_folder import ensure_admin_token


@click.group("chains")
def command() -> None:
    """Chains of messages that ran into a limit: look at them, release them, or end them."""


def _server_command(name: str) -> Callable[[Callable[..., Awaitable[None]]], click.Command]:
    """Return a decorator for commands that call the server. The function gets a client and the organisation's path."""

    def decorate(work: Callable[..., Awaitable[None]]) -> click.Command:
        @wraps(work)
        def run(org: str | None, state_dir: str | None, database: str | None, port: int | None, **rest: Any) -> None:
            asyncio.run(_call_server(work, org, rest, state_dir=state_dir, database=database, port=port))

        run = click.option("--org", help="The organisation's name, if there are several.")(run)
        run = click.option("--port", type=int, help="Of the running server.  [default: 8080]")(run)
        return command.command(name)(state_options(run))

    return decorate


async def _call_server(
    work: Callable[..., Awaitable[None]], org: str | None, rest: dict[str, Any], **flags: Any
) -> None:
    settings = load_cli_settings(**flags)
    if not has_admin_token(settings):
        raise ChainsFailed(reason=f"{missing_token_reason(settings)}; name the right --state-dir")
    try:
        async with ApiClient(settings.url, ensure_admin_token(settings)) as api:
            await work(api, f"/orgs/{_find_org_id(await api.get('/orgs'), org)}/chains", **rest)
    except ApiError as error:
        raise ChainsFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise ChainsFailed(reason=f"what answers on {settings.url} is no Molecule server; name its --port") from None
    except NoAnswerError:
        raise ChainsFailed(reason=f"no server answers on {settings.url}; start it, or name its --port") from None


def _find_org_id(orgs: list[dict[str, Any]], name: str | None) -> str:
    for each in orgs:
        if name in (None, each["name"]):
            return str(each["id"])
    names = ", ".join(str(each["name"]) for each in orgs)
    raise ChainsFailed(reason=f"there is no organisation named {name!r}; there are: {names}")


@click.option("--all", "every", is_flag=True, help="Released and ended ones too.")
async def _list(api: ApiClient, path: str, every: bool) -> None:
    """List the frozen chains, newest first."""
    page = await api.get(path, state="all" if every else "frozen")
    for chain in page["chains"]:
        click.echo(_chain_line(chain))
    if not page["chains"]:
        click.echo("no chains" if every else "no frozen chains")
    elif not page["reached_end"]:
        click.echo("... and older ones")


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
            click.echo(
                f"{line['no']:>5}  hop {line['hop']:>2}  {line['at']}  {sender} -> {receiver}: {line['summary']}"
            )
            after = line["no"]
        if page["reached_end"]:
            return


@click.argument("root_id")
@click.option("--messages", type=click.IntRange(min=1), help="So many more.  [default: up to each limit once more]")
async def _release(api: ApiClient, path: str, root_id: str, messages: int | None) -> None:
    """Release a frozen chain."""
    click.echo(_chain_line(await api.post(f"{path}/{root_id}/release", {"messages": messages})))


@click.argument("root_id")
async def _end(api: ApiClient, path: str, root_id: str) -> None:
    """End a chain for good."""
    click.echo(_chain_line(await api.post(f"{path}/{root_id}/end", {})))


def _chain_line(chain: dict[str, Any]) -> str:
    stopped_at = chain["workspace_name"] or chain["workspace_id"]
    totals = f"{chain['messages']} messages, {chain['hops']} hops"
    head = f"{chain['root_id']}  {chain['state']}  {chain['reason']}"
    return f"{head}  {totals}  stopped at {stopped_at}, {chain['frozen_at']}"


for _name, _work in (("list", _list), ("show", _show), ("release", _release), ("end", _end)):
    _server_command(_name)(_work)
