"""`molecule prune`: deletes old, handled messages now, or reports what would be deleted."""

import asyncio
from typing import Any

import click

from molecule_core.cli._options import has_admin_token, load_cli_settings, missing_token_reason, state_options
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import PruneFailed
from molecule_core.server.state_folder import ensure_admin_token


@click.command("prune")
@state_options
@click.option("--port", type=int, help="Of the running server.  [default: 8080]")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def command(dry_run: bool, **flags: Any) -> None:
    """Ask the running server to delete what is older than MOLECULE_LIMIT_RETENTION_DAYS and handled. It does so by
    itself every hour."""
    settings = load_cli_settings(**flags)
    if not has_admin_token(settings):
        raise PruneFailed(url=settings.url, reason=f"{missing_token_reason(settings)}; name the right --state-dir")
    try:
        result = asyncio.run(_request_prune(settings.url, ensure_admin_token(settings), dry_run=dry_run))
    except (ApiError, NoAnswerError) as error:
        raise PruneFailed(url=settings.url, reason=error) from None
    if result["before"] is None:
        click.echo("retention_days is 0: everything is kept for ever")
    elif dry_run:
        click.echo(f"older than {result['before']} and settled:")
        for what, count in result["rows"].items():
            click.echo(f"  {count:>12,}  {what}")
        click.echo("nothing was deleted" if result["rows"] else "  nothing")
    else:
        click.echo(f"begun: what is older than {result['before']} and settled goes; /metrics counts it")


async def _request_prune(url: str, token: str, *, dry_run: bool) -> dict[str, Any]:
    async with ApiClient(url, token) as api:
        result: dict[str, Any] = await api.post("/admin/prune", dry_run="true" if dry_run else "false")
        return result
