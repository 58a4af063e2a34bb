"""`molecule delegations`: tasks that workspaces have delegated, over the API of a running server."""

from typing import Any

import click
import msgspec

from molecule_core.cli._client import client_options, run_with_api
from molecule_core.cli._context import printable_line, printable_text
from molecule_core.cli._lookup import find_optional_org_id, find_org, read_own_org
from molecule_core.client.api import ApiClient
from molecule_core.wire.schemas.delegations import DelegationStatus

_STATES = ("open", *(each.value for each in DelegationStatus))
_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON, with all fields.")


def _print_json(result: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(result)).decode())


@click.group("delegations")
def command() -> None:
    """List, cancel and retry the tasks that workspaces have delegated."""


@command.command("list")
@click.option("--org", help="Only delegations of this organisation (name or id).")
@click.option(
    "--state", type=click.Choice(_STATES), help="Only delegations in this state; open: all that have not ended."
)
@click.option("--limit", type=click.IntRange(1, 500), help="Maximum number of delegations.  [default: 50]")
@click.option("--before", help="Only delegations older than this one (its id).")
@_JSON_OPTION
@client_options
def list_delegations(
    org: str | None, state: str | None, limit: int | None, before: str | None, as_json: bool, **flags: Any
) -> None:
    """List delegations, newest first."""

    async def work(api: ApiClient) -> None:
        items = await _list_delegations(api, org, state=state, limit=limit, before=before)
        if as_json:
            _print_json(items)
            return
        for item in items:
            _print_line(item)
        if not items:
            click.echo("no delegations")

    run_with_api(work, flags)


async def _list_delegations(api: ApiClient, org: str | None, **query: Any) -> list[dict[str, Any]]:
    """Return delegations of one organisation; without one, of all that the caller can see."""
    own = await read_own_org(api)
    if own:
        page = await api.get(f"/orgs/{find_org(own, org)['id']}/delegations", **query)
        return list(page["delegations"])
    org_id = None if org is None else find_org(await api.get("/orgs"), org)["id"]
    return list(await api.get("/admin/delegations", org_id=org_id, **query))


def _print_line(item: dict[str, Any]) -> None:
    stuck = " (stuck)" if item["stuck"] else ""
    reason_text = f" [{item['reason']}]" if item["reason"] else ""
    head = f"{item['delegation_id']}  {item['created_at'][:19]}  {item['status']}{reason_text}{stuck}"
    click.echo(f"{head}  {item['source_name']} -> {item['target_name']}: {printable_line(item['summary'])}")


@command.command("show")
@click.argument("delegation_id")
@_JSON_OPTION
@client_options
def show(delegation_id: str, as_json: bool, **flags: Any) -> None:
    """Show a delegation: its timeline, its result, and the delegations below it."""

    async def work(api: ApiClient) -> None:
        full = await api.get(f"/delegations/{delegation_id}")
        if as_json:
            _print_json(full)
            return
        _print_line(full["delegation"])
        if full["earlier"]:
            click.echo(f"  ({full['earlier']} earlier entries not shown)")
        for entry in full["timeline"]:
            late = "  (late)" if entry["late"] else ""
            click.echo(f"  {entry['at'][:19]}  {entry['fact']:<12} {entry['status']}/{entry['phase']}{late}")
        if full["delegation"]["error"]:
            click.echo(printable_line(f"{full['delegation']['error']} {full['delegation']['advice'] or ''}"))
        click.echo(f"task: {printable_text(full['task'])}")
        if full["result"]:
            click.echo(f"result: {printable_text(full['result'])}")
        for child in full["tree"]["children"]:
            _print_branch(child, 1)

    run_with_api(work, flags)


def _print_branch(node: dict[str, Any], depth: int) -> None:
    parties = f"{node['source_name']} -> {node['target_name']}"
    click.echo(f"{'  ' * depth}{node['delegation_id']}  {node['status']}  {parties}: {printable_line(node['summary'])}")
    for child in node["children"]:
        _print_branch(child, depth + 1)


async def _source_workspace_id(api: ApiClient, delegation_id: str) -> str:
    """Return the id of the workspace that delegated it."""
    return str((await api.get(f"/delegations/{delegation_id}"))["delegation"]["source_id"])


@command.command("cancel")
@click.argument("delegation_ids", nargs=-1, required=True)
@click.option("--reason", default="", help="Reason, in one sentence. The agent that works on the task reads it.")
@client_options
def cancel(delegation_ids: tuple[str, ...], reason: str, **flags: Any) -> None:
    """Cancel delegations, and notify the agents that work on them."""

    async def work(api: ApiClient) -> None:
        for each in delegation_ids:
            path = f"/workspaces/{await _source_workspace_id(api, each)}/delegations/{each}/cancel"
            _print_line(await api.post(path, {"reason": reason} if reason else {}))

    run_with_api(work, flags)


@command.command("retry")
@click.argument("delegation_ids", nargs=-1, required=True)
@client_options
def retry(delegation_ids: tuple[str, ...], **flags: Any) -> None:
    """Retry delegations: send the same task to the same workspace, under a new id."""

    async def work(api: ApiClient) -> None:
        for each in delegation_ids:
            result = await api.post(f"/workspaces/{await _source_workspace_id(api, each)}/delegations/{each}/retry")
            click.echo(f"{result['delegation_id']}  {result['state']}  retry of {each}")

    run_with_api(work, flags)


@command.command("stats")
@click.option("--org", help="Count only delegations of this organisation (name or id).")
@_JSON_OPTION
@client_options
def stats(org: str | None, as_json: bool, **flags: Any) -> None:
    """Count delegations by status, and failures by reason."""

    async def work(api: ApiClient) -> None:
        result = await api.get("/admin/delegations/stats", org_id=await find_optional_org_id(api, org))
        if as_json:
            _print_json(result)
            return
        for name, count in result["by_status"].items():
            click.echo(f"{name:<20} {count}")
        for name, count in result["by_reason"].items():
            click.echo(f"  {name:<18} {count}")
        median = "none has ended" if result["median_seconds"] is None else f"{result['median_seconds']:.1f} s"
        click.echo(f"open {result['open']}, stuck {result['stuck']}, median duration: {median}")

    run_with_api(work, flags)
