"""`molecule settings`: the settings that a running server uses."""

from typing import Any

import click

from molecule_core.cli._client import client_options, run_with_api
from molecule_core.cli._context import JSON_OPTION, print_result
from molecule_core.client.api import ApiClient


@click.command("settings")
@click.option("--all", "every", is_flag=True, help="Also settings that have their default.")
@JSON_OPTION
@client_options
def command(every: bool, as_json: bool, **flags: Any) -> None:
    """Show the settings in force in the running server, without secrets. Needs the admin token.

    A line with * differs from the default."""

    async def work(api: ApiClient) -> None:
        rows = (await api.get("/admin/settings"))["settings"]
        print_result([row for row in rows if every or as_json or row["changed"]], as_json, _print_rows)

    run_with_api(work, flags)


def _print_rows(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        click.echo(f"{'*' if row['changed'] else ' '} {row['name']} = {row['value']}")
    if not rows:
        click.echo("all settings have their defaults")
