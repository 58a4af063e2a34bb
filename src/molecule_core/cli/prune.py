"""`molecule prune`: deletes old, handled messages now, or reports what would be deleted."""

import asyncio
from typing import Any

import click

from molecule_core.cli._options import (
    load_client_settings,
    missing_token_reason,
    owner_token,
    server_address,
    server_options,
)
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import PruneFailed


@click.command("prune")
@server_options
@click.option("--dry-run", is_flag=True, help="Only count what would be deleted.")
def command(dry_run: bool, **flags: Any) -> None:
    """Delete handled data that is older than MOLECULE_LIMIT_RETENTION_DAYS. The running server also does this every
    hour."""
    settings = load_client_settings(**flags)
    url = server_address(flags, settings)
    token = owner_token(settings, url)
    if token is None:
        raise PruneFailed(url=url, reason=missing_token_reason(settings))
    try:
        result = asyncio.run(_request_prune(url, token, dry_run=dry_run))
    except ApiError as error:
        raise PruneFailed(url=url, reason=error) from None
    except NoAnswerError:
        raise PruneFailed(url=url, reason="no server responds there") from None
    if result["before"] is None:
        click.echo("retention_days is 0: nothing is ever deleted")
    elif dry_run:
        click.echo(f"handled and older than {result['before']}:")
        for what, count in result["rows"].items():
            click.echo(f"  {count:>12,}  {what}")
        click.echo("nothing was deleted" if result["rows"] else "  nothing")
    else:
        click.echo(f"started: deletes handled data older than {result['before']}; /metrics counts the rows")


async def _request_prune(url: str, token: str, *, dry_run: bool) -> dict[str, Any]:
    async with ApiClient(url, token) as api:
        result: dict[str, Any] = await api.post("/admin/prune", dry_run="true" if dry_run else "false")
        return result
