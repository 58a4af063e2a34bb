"""What verbs have in common that are called as whoever the environment names: a workspace, as agents have it, or the
owner of the server on this machine.

Above: the verbs. Below: the client.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import click
import msgspec

from molecule_core.agent.config import BadConfiguration, read_configuration, with_only
from molecule_core.cli.operating import run
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.ground.errors import CommandFailed
from molecule_core.ground.settings import environment

REFUSED = 1
# From here on HTTP's statuses are refusals.
_REFUSALS = 400
JSON = click.option("--json", "as_json", is_flag=True, help="As JSON, with all that the server tells.")
_SEATS = ("WORKSPACE_ID", "MOLECULE_WORKSPACES")
Work = Callable[[Api, str], Awaitable[None]]


def _as_agent() -> bool:
    return any(environment().get(name, "").strip() for name in _SEATS)


def do(work: Work, workspace: str | None, flags: dict[str, Any]) -> None:
    """Does something as whoever the environment says; a workspace as itself."""
    if not _as_agent():
        run(lambda api: work(api, workspace or ""), flags)
        return
    try:
        configuration = with_only(read_configuration(environment()), workspace)
    except BadConfiguration as error:
        raise CommandFailed(reason=error) from None
    if len(configuration.seats) > 1:
        yours = ", ".join(each.id for each in configuration.seats)
        raise CommandFailed(reason=f"say with --workspace as which one you call: {yours}")
    (seat,) = configuration.seats
    asyncio.run(_as_seat(work, seat.id, seat.url, seat.token))


async def _as_seat(work: Work, own: str, url: str, token: str) -> None:
    async with Api(url, token) as api:
        try:
            await work(api, own)
        except NoAnswer:
            raise CommandFailed(reason=f"no server answers on {url}") from None
        except (msgspec.DecodeError, TypeError, KeyError):
            raise CommandFailed(
                reason=f"what answers on {url} is no Molecule server; set PLATFORM_URL to one"
            ) from None
        except ApiError as error:
            if error.status < _REFUSALS:  # somebody else answers, or leads on
                raise CommandFailed(reason=error.problem["error"]) from None
            click.echo(f"molecule: {' '.join(str(error.problem.get('error', error)).split())}", err=True)
            sys.exit(REFUSED)


def say(told: Any, as_json: bool, show: Callable[[Any], None]) -> None:
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(told)).decode())
    else:
        show(told)


def plain(text: str) -> str:
    """What somebody wrote, in one line that no terminal takes for orders."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
