"""`molecule apps`: apps that are connected to workspaces by OAuth, and OAuth clients, over the API of a server."""

from typing import Any

import click

from molecule_core.cli._client import add_command, client_options, org_option, run_with_api
from molecule_core.cli._context import JSON_OPTION, print_result, printable_line
from molecule_core.cli._lookup import find_org_id, find_workspace_id
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed

_ANY_ORG = click.option("--org", help="Name or id of the organisation of the workspace.  [default: any]")


@click.group("apps")
def command() -> None:
    """List and disconnect apps that are connected to a workspace by OAuth, and register OAuth clients."""


@command.command("list")
@click.argument("workspace")
@_ANY_ORG
@JSON_OPTION
@client_options
def list_apps(workspace: str, org: str | None, as_json: bool, **flags: Any) -> None:
    """List the apps that are connected to a workspace."""

    async def work(api: ApiClient) -> None:
        workspace_id = await find_workspace_id(api, workspace, org)
        print_result(await api.get(f"/workspaces/{workspace_id}/oauth-grants"), as_json, _print_apps)

    run_with_api(work, flags)


def _print_apps(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        access = "reads and acts" if "molecule:act" in row["scope"].split() else "reads only"
        click.echo(f"{row['id']}  {printable_line(row['client_name'])}: {access}, until {row['expires_at']}")
    if not rows:
        click.echo("no connected apps")


@command.command("disconnect")
@click.argument("workspace")
@click.argument("app")
@_ANY_ORG
@client_options
def disconnect_app(workspace: str, app: str, org: str | None, **flags: Any) -> None:
    """Disconnect an app from a workspace: its tokens end at once. APP is an id that `molecule apps list` prints."""

    async def work(api: ApiClient) -> None:
        workspace_id = await find_workspace_id(api, workspace, org)
        path = f"/workspaces/{workspace_id}/oauth-grants"
        if app not in {row["id"] for row in await api.get(path)}:
            raise CommandFailed(reason=f"no connected app of this workspace has the id {printable_line(app)}.")
        await api.call("DELETE", f"{path}/{app}")
        click.echo("disconnected")

    run_with_api(work, flags)


async def _find_path(api: ApiClient, org: str | None) -> str:
    return f"/orgs/{await find_org_id(api, org)}/oauth-clients"


async def _list_clients(api: ApiClient, path: str) -> None:
    """List the registered OAuth clients."""
    rows = await api.get(path)
    for row in rows:
        click.echo(f"{row['client_id']}  {printable_line(row['name'])}: {' '.join(row['redirect_uris'])}")
    if not rows:
        click.echo("no OAuth clients")


@click.argument("name")
@click.argument("redirect_uris", nargs=-1, required=True, metavar="REDIRECT-URI...")
async def _register(api: ApiClient, path: str, name: str, redirect_uris: tuple[str, ...]) -> None:
    """Register an OAuth client, and print its client ID. It has no secret."""
    client = await api.post(path, {"name": name, "redirect_uris": list(redirect_uris)})
    click.echo(f"client ID: {client['client_id']}")


@click.argument("client_id")
async def _remove(api: ApiClient, path: str, client_id: str) -> None:
    """Remove an OAuth client: what it was granted ends at once."""
    if client_id not in {row["client_id"] for row in await api.get(path)}:
        raise CommandFailed(reason=f"no OAuth client has the ID {printable_line(client_id)}.")
    await api.call("DELETE", f"{path}/{client_id}")
    click.echo("removed")


for _name, _work in (("clients", _list_clients), ("register", _register), ("remove", _remove)):
    add_command(command, _name, org_option(_work), _find_path, by="org")
