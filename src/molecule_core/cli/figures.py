"""`molecule instructions figures` and `canary`: how a template does, and the share of a new version.

The group of these verbs, and how they find the server, is `instructions`."""

from typing import Any, Protocol

import click

from molecule_core.client.api import Api

_COLUMNS = ("version", "in force", "deliveries", "answered", "declined", "outside", "overdue", "open", "rate", "tokens")


class Desk(Protocol):
    """A client, and where an organisation's templates are."""

    @property
    def api(self) -> Api:
        """The client."""

    @property
    def every(self) -> str:
        """The path of all templates."""


@click.argument("template_id")
async def figures(desk: Desk, template_id: str) -> None:
    """Show what became of the messages that each version of a template told about."""
    found = await desk.api.get(f"{desk.every}/{template_id}/figures")
    trial = found["trial"]
    rows = [_COLUMNS, *(_row(each, found["version"], trial) for each in found["versions"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
    if trial is not None:
        click.echo(_tale(trial))


def _row(version: dict[str, Any], in_force: int, trial: dict[str, Any] | None) -> tuple[str, ...]:
    number = version["version"]
    share = "yes" if number == in_force else ""
    if trial is not None and number == trial["canary"]["version"]:
        share = f"{trial['percent']} %"
    counts = ("deliveries", "answered", "declined", "answered_outside", "overdue", "open")
    mean = version["tokens"] / version["deliveries"] if version["deliveries"] else 0
    return str(number), share, *(str(version[name]) for name in counts), _percent(version["rate"]), f"{mean:.0f}"


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.0%}".replace("%", " %")


def _tale(trial: dict[str, Any]) -> str:
    canary, base = (f"{each['good']} of {each['good'] + each['missed']}" for each in (trial["canary"], trial["base"]))
    tale = f"trial since {trial['since']}: {canary} good beside {base}; a version as good would look so, or worse, "
    return f"{tale}with a chance of {trial['chance']:.2g}"


@click.argument("template_id")
@click.argument("version", type=click.IntRange(1))
@click.argument("percent", type=click.IntRange(0, 100))
async def canary(desk: Desk, template_id: str, version: int, percent: int) -> None:
    """Tell PERCENT of the messages with another version: 0 ends its trial, 100 puts it in force. A canary that does
    worse is ended by itself."""
    body = {"version": version, "percent": percent}
    choice = await desk.api.post(f"{desk.every}/{template_id}/canary", body)
    tried = (
        "" if choice["canary"] is None else f"; version {choice['canary']} tells {choice['percent']} % of the messages"
    )
    click.echo(f"{template_id}: version {choice['version']} is in force{tried}")
