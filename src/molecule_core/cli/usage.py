"""`molecule usage`: what agents cost, and the prices of models, over the API of a running server."""

from decimal import Decimal, InvalidOperation
from typing import Any

import click
import msgspec

from molecule_core.cli._client import client_options, org_option, run_with_api
from molecule_core.cli._context import JSON_OPTION, printable_line
from molecule_core.cli._lookup import find_org_id, find_workspace_id
from molecule_core.client.api import ApiClient

_MICROS = 1_000_000
_NAME_WIDTH = 40
_GROUPINGS = ("agent", "team", "model", "day", "request")


class PriceParam(click.ParamType[int]):
    """A price of a million tokens in units of the currency, such as 1.25; converted to micro-units."""

    name = "price"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the price in micro-units."""
        if isinstance(value, int):
            return value
        try:
            micros = Decimal(str(value)) * _MICROS
        except InvalidOperation:
            self.fail(f"{value} is not a number.", param, ctx)
        if not micros.is_finite() or micros < 0 or micros != int(micros):
            self.fail(f"{value} is not a price. Use a number of at least 0 with up to six decimals.", param, ctx)
        return int(micros)


@click.group("usage", invoke_without_command=True)
@click.option("--by", type=click.Choice(_GROUPINGS), default="agent", show_default=True, help="What to sum up.")
@click.option("--from", "since", help="First day, such as 2026-11-01.  [default: 29 days before the last]")
@click.option("--to", "until", help="Last day.  [default: today]")
@click.option("--workspace", help="Only this workspace (an id, a unique name or a path) and those below it.")
@JSON_OPTION
@org_option
@client_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    by: str,
    since: str | None,
    until: str | None,
    workspace: str | None,
    as_json: bool,
    org: str | None,
    **flags: Any,
) -> None:
    """Show tokens and costs of agents, teams, models, days or requests, the most expensive first."""
    if ctx.invoked_subcommand is not None:
        return

    async def work(api: ApiClient) -> None:
        if workspace is None:
            path = f"/orgs/{await find_org_id(api, org)}/usage"
        else:
            path = f"/workspaces/{await find_workspace_id(api, workspace, org)}/usage"
        report = await api.get(path, **{"by": by, "from": since, "to": until})
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
        else:
            _print_report(report)

    run_with_api(work, flags)


@command.command("prices")
@JSON_OPTION
@org_option
@client_options
def list_prices(as_json: bool, org: str | None, **flags: Any) -> None:
    """List the prices from which costs are computed that programs do not report."""

    async def work(api: ApiClient) -> None:
        found = await api.get(f"/orgs/{await find_org_id(api, org)}/usage/prices")
        if as_json:
            click.echo(msgspec.json.format(msgspec.json.encode(found)).decode())
        else:
            _print_prices(found)

    run_with_api(work, flags)


@command.command("set-price")
@click.argument("model")
@click.option("--input", "input_micros", type=PriceParam(), required=True, help="Price of a million input tokens.")
@click.option("--output", "output_micros", type=PriceParam(), required=True, help="Price of a million output tokens.")
@click.option("--cached", "cached_micros", type=PriceParam(), default=0, help="Of a million cached input tokens.")
@click.option("--currency", help="Currency of all costs, such as EUR. It cannot be changed once there is usage.")
@org_option
@client_options
def set_price(
    model: str,
    input_micros: int,
    output_micros: int,
    cached_micros: int,
    currency: str | None,
    org: str | None,
    **flags: Any,
) -> None:
    """Set the price of MODEL: its name, or the start of several names followed by *."""

    async def work(api: ApiClient) -> None:
        path = f"/orgs/{await find_org_id(api, org)}/usage/prices"
        found = await api.get(path)
        price = {"model": model, "input_micros": input_micros, "output_micros": output_micros}
        kept = [each for each in found["prices"] if each["model"] != model]
        prices = sorted([*kept, {**price, "cached_micros": cached_micros}], key=lambda each: str(each["model"]))
        body = {"currency": currency or found["currency"], "prices": prices}
        _print_prices(await api.call("PUT", path, body=body))

    run_with_api(work, flags)


@command.command("remove-price")
@click.argument("model")
@org_option
@client_options
def remove_price(model: str, org: str | None, **flags: Any) -> None:
    """Remove the price of MODEL."""

    async def work(api: ApiClient) -> None:
        path = f"/orgs/{await find_org_id(api, org)}/usage/prices"
        found = await api.get(path)
        kept = [each for each in found["prices"] if each["model"] != model]
        if len(kept) == len(found["prices"]):
            raise click.ClickException(f"there is no price of {model}. `molecule usage prices` lists them.")
        _print_prices(await api.call("PUT", path, body={"currency": found["currency"], "prices": kept}))

    run_with_api(work, flags)


def _print_report(report: dict[str, Any]) -> None:
    click.echo(f"{report['since']} to {report['until']}, costs in {report['currency']}")
    click.echo(f"{report['by']:<{_NAME_WIDTH}}  {'turns':>7} {'input':>12} {'cached':>12} {'output':>12} {'cost':>12}")
    for row in report["rows"]:
        _print_row(printable_line(row["name"] or row["key"] or "unknown"), row)
    if not report["is_complete"]:
        click.echo("... and more rows")
    _print_row("total", report["total"])
    if unknown := report["total"]["turns_without_cost"]:
        click.echo(f"The cost of {unknown} turns is unknown: set the price of their model.")


def _print_row(name: str, row: dict[str, Any]) -> None:
    tokens = f"{row['input_tokens']:>12} {row['cached_tokens']:>12} {row['output_tokens']:>12}"
    click.echo(f"{name[:_NAME_WIDTH]:<{_NAME_WIDTH}}  {row['turns']:>7} {tokens} {_money(row['cost_micros']):>12}")


def _print_prices(found: dict[str, Any]) -> None:
    for each in found["prices"]:
        amounts = "  ".join(f"{name} {_money(each[f'{name}_micros'])}" for name in ("input", "cached", "output"))
        click.echo(f"{printable_line(each['model'])}  {amounts}  {found['currency']} per million tokens")
    if not found["prices"]:
        click.echo("no prices")


def _money(micros: int) -> str:
    """Return an amount with two to six decimals."""
    whole, part = divmod(micros, _MICROS)
    return f"{whole}.{f'{part:06d}'.rstrip('0'):0<2}"
