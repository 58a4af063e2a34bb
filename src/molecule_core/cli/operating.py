"""What verbs have in common that speak to a running server as its owner or admin: their flags, and how they fail."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click
import msgspec

from molecule_core.cli.options import owner_token, settings_from, state_options, without_admin_token
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.ground.errors import CommandFailed

Work = Callable[[Api], Awaitable[None]]


def operating(command: Any) -> Any:
    """The flags of such a verb."""
    return state_options(click.option("--port", type=int, help="Of the running server.  [default: 8080]")(command))


def run(work: Work, flags: dict[str, Any]) -> None:
    """Does something as the owner whose token MOLECULE_TOKEN holds, else as the admin of the running server. Raises
    CommandFailed."""
    settings = settings_from(**flags)
    token = owner_token(settings)
    if token is None:
        raise CommandFailed(reason=f"{without_admin_token(settings)}; name the right --state-dir")
    asyncio.run(_with_api(work, settings.url, token))


async def _with_api(work: Work, url: str, token: str) -> None:
    async with Api(url, token) as api:
        try:
            await work(api)
        except NoAnswer:
            raise CommandFailed(reason=f"no server answers on {url}; start it, or name its --port") from None
        except ApiError as error:
            raise CommandFailed(reason=error.problem.get("error", error)) from None
        except (msgspec.DecodeError, TypeError, KeyError):
            raise CommandFailed(reason=f"what answers on {url} is no Molecule server; name its --port") from None
