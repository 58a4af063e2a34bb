"""`molecule budget`: budgets of workspaces, teams, message chains and delegations, over the API of a running server."""

from decimal import Decimal, InvalidOperation
from typing import Any

import click

from molecule_core.cli._client import add_command, client_options, org_option, run_with_api
from molecule_core.cli._context import JSON_OPTION, print_result, printable_line
from molecule_core.cli._lookup import find_org_id, find_workspace_id
from molecule_core.client.api import ApiClient
from molecule_core.common.errors import CommandFailed

_MICROS = 1_000_000
_PERIODS = ("total", "day", "week", "month")
_STATE_TEXTS = {
    "ok": "ok",
    "noticed": "80 % spent",
    "exhausted": "over budget, waits for a decision",
    "stopped": "over budget, stopped",
}


@click.group("budget")
def command() -> None:
    """List, set and delete budgets, and set what a turn leases."""


async def _find_path(api: ApiClient, org: str | None) -> str:
    return f"/orgs/{await find_org_id(api, org)}/budgets"


@JSON_OPTION
async def _list(api: ApiClient, path: str, as_json: bool) -> None:
    """List the budgets, with what is spent and leased in the current period."""
    rows = (await api.get(path))["budgets"]
    names = {row["id"]: row["name"] for row in await api.get("/workspaces")}
    print_result(rows, as_json, lambda found: _print_rows(found, names))


def _print_rows(rows: list[dict[str, Any]], names: dict[str, str]) -> None:
    for row in rows:
        target = printable_line(names.get(row["target_id"], row["target_id"]))
        limit = row["limit"] + row["raised"]
        used = f"{_amount(row, row['spent'])} spent, {_amount(row, row['leased'])} leased of {_amount(row, limit)}"
        per = "" if row["period"] == "total" else f" per {row['period']}"
        click.echo(f"{row['budget_id']}  {row['scope']} {target}: {used}{per}  {_STATE_TEXTS[row['state']]}")
    if not rows:
        click.echo("no budgets")


@click.option("--workspace", help="Limit this workspace alone.")
@click.option("--team", help="Limit this workspace and all below it.")
@click.option("--chain", help="Limit all that a message causes; its id.")
@click.option("--delegation", help="Limit a delegation; its id.")
@click.option("--money", help="The limit in the organisation's currency, such as 5.00.")
@click.option("--tokens", type=click.IntRange(min=1), help="The limit in tokens.")
@click.option("--per", type=click.Choice(_PERIODS), default="total", show_default=True, help="The period of the limit.")
async def _set(api: ApiClient, path: str, per: str, money: str | None, tokens: int | None, **targets: Any) -> None:
    """Create a budget, or change its limit if there is one of this kind."""
    named = [(scope, wanted) for scope, wanted in targets.items() if wanted]
    if len(named) != 1:
        raise CommandFailed(reason="a budget has one target. Use --workspace, --team, --chain or --delegation.")
    if (money is None) == (tokens is None):
        raise CommandFailed(reason="a budget has one unit. Use --money or --tokens.")
    (scope, wanted) = named[0]
    scope = "subtree" if scope == "team" else scope
    target_id = await find_workspace_id(api, wanted) if scope in ("workspace", "subtree") else wanted
    unit, limit = ("tokens", tokens) if money is None else ("money", _parse_money(money))
    kind = {"scope": scope, "target_id": target_id, "unit": unit, "period": per}
    for row in (await api.get(path))["budgets"]:
        if all(row[name] == value for name, value in kind.items()):
            await api.call("PUT", f"{path}/{row['budget_id']}", body={"limit": limit})
            click.echo(f"changed {row['budget_id']}")
            return
    created = await api.post(path, {**kind, "limit": limit})
    click.echo(f"created {created['budget_id']}")


@click.argument("budget_id")
async def _delete(api: ApiClient, path: str, budget_id: str) -> None:
    """Delete a budget, and what was counted of it."""
    await api.call("DELETE", f"{path}/{budget_id}")
    click.echo(f"deleted {budget_id}")


@command.command("lease")
@click.argument("workspace")
@click.option("--money", help="What a turn leases from a budget of money.")
@click.option("--tokens", type=click.IntRange(min=1), help="What a turn leases from a budget of tokens.")
@client_options
def _lease(workspace: str, money: str | None, tokens: int | None, **flags: Any) -> None:
    """Show or set what each turn of a workspace leases before it begins."""

    async def work(api: ApiClient) -> None:
        workspace_id = await find_workspace_id(api, workspace)
        sizes = (await api.get(f"/workspaces/{workspace_id}/budgets"))["turn_lease"]
        if money is not None or tokens is not None:
            wanted = {
                "money": sizes["money"] if money is None else _parse_money(money),
                "tokens": tokens or sizes["tokens"],
            }
            sizes = await api.call("PUT", f"/workspaces/{workspace_id}/turn-lease", body=wanted)
        click.echo(f"a turn leases {_money_text(sizes['money'])} or {sizes['tokens']:,} tokens")

    run_with_api(work, flags)


def _parse_money(text: str) -> int:
    """Return an amount in micro-units. Raises CommandFailed."""
    try:
        micros = Decimal(text) * _MICROS
    except InvalidOperation:
        raise CommandFailed(reason=f"{text!r} is not an amount. Use a number such as 5.00.") from None
    if not micros.is_finite() or micros < 1 or micros != int(micros):
        raise CommandFailed(reason=f"{text!r} is not a valid amount. Use at least 0.000001, with at most six decimals.")
    return int(micros)


def _money_text(micros: int) -> str:
    whole, rest = divmod(micros, _MICROS)
    return f"{whole}.{f'{rest:06d}'.rstrip('0').ljust(2, '0')}"


def _amount(row: dict[str, Any], amount: int) -> str:
    return _money_text(amount) if row["unit"] == "money" else f"{amount:,} tokens"


for _name, _work in (("list", _list), ("set", _set), ("delete", _delete)):
    add_command(command, _name, org_option(_work), _find_path, by="org")
