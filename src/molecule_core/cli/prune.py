"""`molecule prune`: what is old and handled goes now, or it is only said what would go."""

import asyncio
from typing import Any

import click

from molecule_core.cli.options import (
    admin_token,
    has_admin_token,
    settings_from,
    state_options,
    without_admin_token,
)
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.ground.errors import PruneFailed


@click.command("prune")
@state_options
@click.option("--port", type=int, help="Of the running server.  [default: 8080]")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def command(dry_run: bool, **flags: Any) -> None:
    """Ask the running server to delete what is older than MOLECULE_LIMIT_RETENTION_DAYS and handled. It does so by
    itself every hour."""
    settings = settings_from(**flags)
    if not has_admin_token(settings):
        raise PruneFailed(url=settings.url, reason=f"{without_admin_token(settings)}; name the right --state-dir")
    try:
        told = asyncio.run(_asked(settings.url, admin_token(settings), dry_run=dry_run))
    except (ApiError, NoAnswer) as error:
        raise PruneFailed(url=settings.url, reason=error) from None
    if told["before"] is None:
        click.echo("retention_days is 0: everything is kept for ever")
    elif dry_run:
        click.echo(f"older than {told['before']} and settled:")
        for what, count in told["rows"].items():
            click.echo(f"  {count:>12,}  {what}")
        click.echo("nothing was deleted" if told["rows"] else "  nothing")
    else:
        click.echo(f"begun: what is older than {told['before']} and settled goes; /metrics counts it")


async def _asked(url: str, token: str, *, dry_run: bool) -> dict[str, Any]:
    async with Api(url, token) as api:
        told: dict[str, Any] = await api.post("/admin/prune", dry_run="true" if dry_run else "false")
        return told
