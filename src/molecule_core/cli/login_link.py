"""`molecule login-link`: prints a one-time link into the canvas."""

import asyncio
from typing import Any

import click
import msgspec

from molecule_core.cli._options import has_admin_token, load_cli_settings, missing_token_reason, state_options
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import LoginLinkFailed
from molecule_core.server.state_folder import ensure_admin_token


@click.command("login-link")
@state_options
@click.option("--port", type=int, help="Of the running server.  [default: 8080]")
@click.option("--org", help="The organisation's name, if there are several.")
@click.option("--person", help="The person's name; the organisation's first owner if left out.")
def command(org: str | None, person: str | None, **flags: Any) -> None:
    """Ask the running server for a one-time login link, and print it. It logs in as that person."""
    settings = load_cli_settings(**flags)
    if not has_admin_token(settings):
        raise LoginLinkFailed(
            reason=f"{missing_token_reason(settings)}; start `molecule up` once, or name the right --state-dir"
        )
    try:
        click.echo(asyncio.run(_request_link(settings.url, ensure_admin_token(settings), org, person)))
    except ApiError as error:
        raise LoginLinkFailed(reason=error) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise LoginLinkFailed(reason=f"what answers on {settings.url} is no Molecule server; name its --port") from None
    except NoAnswerError:
        raise LoginLinkFailed(reason=f"no server answers on {settings.url}; start it, or name its --port") from None


async def _request_link(url: str, token: str, org: str | None, person: str | None) -> str:
    async with ApiClient(url, token) as api:
        org_id = _find_id(await api.get("/orgs"), org, "organisation")
        wanted = None
        if person is not None:
            wanted = _find_id(await api.get(f"/orgs/{org_id}/people"), person, "person")
        link = await api.post(f"/orgs/{org_id}/login-links", {"person_id": wanted})
        return str(link["url"])


def _find_id(found: list[dict[str, Any]], name: str | None, what: str) -> str:
    """Return the id of the item with this name, or of the first if no name is given."""
    for each in found:
        if name in (None, each["name"]):
            return str(each["id"])
    names = ", ".join(str(each["name"]) for each in found)
    raise LoginLinkFailed(reason=f"there is no {what} named {name!r}; there are: {names}")
