"""`molecule delegations`: tasks that workspaces have delegated, over the API of a running server."""

from typing import Any

import click
import msgspec

from molecule_core.cli._client import client_options, run_with_api
from molecule_core.client.api import ApiClient

_STATES = ("open", "pending", "dispatched", "queued", "unknown_after_send", "completed", "failed", "cancelled")
_JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="As JSON, with all that the server tells.")


def _print_json(result: Any) -> None:
    click.echo(msgspec.json.format(msgspec.json.encode(result)).decode())


@click.group("delegations")
def command() -> None:
    """Tasks that workspaces give each other: look, cancel, retry."""


@command.command("list")
@click.option("--org", "org_id", help="Only of this organisation (its id).")
@click.option("--state", type=click.Choice(_STATES), help="Only those that stand so; open: all that have not ended.")
@click.option("--limit", type=click.IntRange(1, 500), help="At most so many.  [default: 50]")
@click.option("--before", help="Only those before this one.")
@_JSON_OPTION
@client_options
def list_delegations(
    org_id: str | None, state: str | None, limit: int | None, before: str | None, as_json: bool, **flags: Any
) -> None:
    """One line each, newest first."""

    async def work(api: ApiClient) -> None:
        items = await api.get("/admin/delegations", org_id=org_id, state=state, limit=limit, before=before)
        if as_json:
            _print_json(items)
            return
        for item in items:
            _print_line(item)
        if not items:
            click.echo("no delegations")

    run_with_api(work, flags)


def _print_line(item: dict[str, Any]) -> None:
    stuck = " (stuck)" if item["stuck"] else ""
    reason_text = f" [{item['reason']}]" if item["reason"] else ""
    head = f"{item['delegation_id']}  {item['created_at'][:19]}  {item['status']}{reason_text}{stuck}"
    click.echo(f"{head}  {item['source_name']} -> {item['target_name']}: {item['summary']}")


@command.command("show")
@click.argument("delegation_id")
@_JSON_OPTION
@client_options
def show(delegation_id: str, as_json: bool, **flags: Any) -> None:
    """All about one: what happened to it, its result, and the tasks below it."""

    async def work(api: ApiClient) -> None:
        full = await api.get(f"/delegations/{delegation_id}")
        if as_json:
            _print_json(full)
            return
        _print_line(full["delegation"])
        if full["earlier"]:
            click.echo(f"  ({full['earlier']} earlier lines are left out)")
        for entry in full["timeline"]:
            late = "  (late)" if entry["late"] else ""
            click.echo(f"  {entry['at'][:19]}  {entry['fact']:<12} {entry['status']}/{entry['phase']}{late}")
        if full["delegation"]["error"]:
            click.echo(f"{full['delegation']['error']} {full['delegation']['advice'] or ''}".rstrip())
        click.echo(f"task: {full['task']}")
        if full["result"]:
            click.echo(f"result: {full['result']}")
        for child in full["tree"]["children"]:
            _print_branch(child, 1)

    run_with_api(work, flags)


def _print_branch(node: dict[str, Any], depth: int) -> None:
    parties = f"{node['source_name']} -> {node['target_name']}"
    click.echo(f"{'  ' * depth}{node['delegation_id']}  {node['status']}  {parties}: {node['summary']}")
    for child in node["children"]:
        _print_branch(child, depth + 1)


async def _source_workspace_id(api: ApiClient, delegation_id: str) -> str:
    """Return the id of the workspace that delegated it."""
    return str((await api.get(f"/delegations/{delegation_id}"))["delegation"]["source_id"])


@command.command("cancel")
@click.argument("delegation_ids", nargs=-1, required=True)
@click.option("--reason", default="", help="Why, in a sentence; whoever works on it reads it.")
@client_options
def cancel(delegation_ids: tuple[str, ...], reason: str, **flags: Any) -> None:
    """Cancel delegations, and notify the workspaces that work on them."""

    async def work(api: ApiClient) -> None:
        for each in delegation_ids:
            path = f"/workspaces/{await _source_workspace_id(api, each)}/delegations/{each}/cancel"
            _print_line(await api.post(path, {"reason": reason} if reason else {}))

    run_with_api(work, flags)


@command.command("retry")
@click.argument("delegation_ids", nargs=-1, required=True)
@client_options
def retry(delegation_ids: tuple[str, ...], **flags: Any) -> None:
    """Begin them again: the same task to the same workspace, as new ones."""

    async def work(api: ApiClient) -> None:
        for each in delegation_ids:
            result = await api.post(f"/workspaces/{await _source_workspace_id(api, each)}/delegations/{each}/retry")
            click.echo(f"{result['delegation_id']}  {result['state']}  retry of {each}")

    run_with_api(work, flags)


@command.command("stats")
@click.option("--org", "org_id", help="Only of this organisation (its id).")
@_JSON_OPTION
@client_options
def stats(org_id: str | None, as_json: bool, **flags: Any) -> None:
    """Count delegations by status, and failures by reason."""

    async def work(api: ApiClient) -> None:
        result = await api.get("/admin/delegations/stats", org_id=org_id)
        if as_json:
            _print_json(result)
            return
        for name, count in result["by_status"].items():
            click.echo(f"{name:<20} {count}")
        for name, count in result["by_reason"].items():
            click.echo(f"  {name:<18} {count}")
        median = "none has ended" if result["median_seconds"] is None else f"{result['median_seconds']:.1f} s"
        click.echo(f"open {result['open']}, stuck {result['stuck']}, median from begin to end: {median}")

    run_with_api(work, flags)
