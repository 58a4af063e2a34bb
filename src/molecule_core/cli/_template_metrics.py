"""`molecule instructions figures` and `canary`: outcomes of a template, and the share of a new version.

The command group is in `instructions`."""

from typing import Any

import click

from molecule_core.client.api import ApiClient

_COLUMNS = ("version", "active", "deliveries", "answered", "declined", "outside", "overdue", "open", "rate", "tokens")


def templates_path(org_id: str) -> str:
    """Return the path of an organisation's templates."""
    return f"/orgs/{org_id}/instruction-templates"


@click.argument("template_id")
async def show_metrics(api: ApiClient, org_id: str, template_id: str) -> None:
    """Show the outcomes of the messages that were delivered with each version of a template."""
    found = await api.get(f"{templates_path(org_id)}/{template_id}/figures")
    trial = found["trial"]
    rows = [_COLUMNS, *(_version_row(each, found["version"], trial) for each in found["versions"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
    if trial is not None:
        click.echo(_describe_trial(trial))


def _version_row(version: dict[str, Any], active_version: int, trial: dict[str, Any] | None) -> tuple[str, ...]:
    number = version["version"]
    share = "yes" if number == active_version else ""
    if trial is not None and number == trial["canary"]["version"]:
        share = f"{trial['percent']} %"
    counts = ("deliveries", "answered", "declined", "answered_outside", "overdue", "open")
    mean = version["tokens"] / version["deliveries"] if version["deliveries"] else 0
    return str(number), share, *(str(version[name]) for name in counts), _format_rate(version["rate"]), f"{mean:.0f}"


def _format_rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}".replace("%", " %")


def _describe_trial(trial: dict[str, Any]) -> str:
    canary, base = (f"{each['good']} of {each['good'] + each['missed']}" for each in (trial["canary"], trial["base"]))
    outcomes = f"canary since {trial['since']}: {canary} good; base version: {base} good"
    return f"{outcomes}; probability that an equally good version performs this badly or worse: {trial['chance']:.2g}"


@click.argument("template_id")
@click.argument("version", type=click.IntRange(1))
@click.argument("percent", type=click.IntRange(0, 100))
async def set_canary(api: ApiClient, org_id: str, template_id: str, version: int, percent: int) -> None:
    """Deliver PERCENT of the messages with another version: 0 ends the trial, 100 activates the version.

    A canary that performs worse is ended automatically."""
    body = {"version": version, "percent": percent}
    choice = await api.post(f"{templates_path(org_id)}/{template_id}/canary", body)
    trial = (
        ""
        if choice["canary"] is None
        else f"; version {choice['canary']} is used for {choice['percent']} % of messages"
    )
    click.echo(f"{template_id}: version {choice['version']} is active{trial}")
