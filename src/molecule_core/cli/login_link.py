"""`molecule login-link`: prints a one-time link into the canvas."""

import asyncio
from typing import Any

import click
import msgspec

from molecule_core.cli._lookup import find_named, find_org_id
from molecule_core.cli._options import (
    load_client_settings,
    missing_token_reason,
    owner_token,
    server_address,
    server_options,
)
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import LoginLinkFailed


@click.command("login-link")
@server_options
@click.option("--org", help="Name or id of the organisation.  [default: the first one]")
@click.option("--person", help="Name of the person.  [default: the first owner of the organisation]")
def command(org: str | None, person: str | None, **flags: Any) -> None:
    """Print a one-time login link to the canvas. The link logs in as the person."""
    settings = load_client_settings(**flags)
    url = server_address(flags, settings)
    token = owner_token(settings, url)
    if token is None:
        raise LoginLinkFailed(reason=f"{missing_token_reason(settings)}. Start `molecule up` once, or set --state-dir.")
    try:
        click.echo(asyncio.run(request_link(url, token, org, person)))
    except ApiError as error:
        raise LoginLinkFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise LoginLinkFailed(reason=f"{url} is not a Molecule server. Set --server to the address of one.") from None
    except NoAnswerError:
        raise LoginLinkFailed(reason=f"no server responds at {url}. Start it, or set --server.") from None


async def request_link(url: str, token: str, org: str | None = None, person: str | None = None) -> str:
    """Return a one-time login link. Raises ApiError, NoAnswerError, CommandFailed, LoginLinkFailed."""
    async with ApiClient(url, token) as api:
        org_id = await find_org_id(api, org)
        wanted = None
        if person is not None:
            wanted = str(find_named(await api.get(f"/orgs/{org_id}/people"), person)["id"])
        link = await api.post(f"/orgs/{org_id}/login-links", {"person_id": wanted})
        return str(link["url"])
