"""Shared by commands that call a running server as its owner or admin: options and error handling."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import click
import msgspec

from molecule_core.cli._options import load_cli_settings, missing_token_reason, owner_token, state_options
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import CommandFailed

ApiWork = Callable[[ApiClient], Awaitable[None]]


def client_options(command: Any) -> Any:
    """Add the options of a command that calls a server."""
    return state_options(click.option("--port", type=int, help="Of the running server.  [default: 8080]")(command))


def run_with_api(work: ApiWork, flags: dict[str, Any]) -> None:
    """Run work as the owner whose token is in MOLECULE_TOKEN, else as the admin of the running server.

    Raises CommandFailed."""
    settings = load_cli_settings(**flags)
    token = owner_token(settings)
    if token is None:
        raise CommandFailed(reason=f"{missing_token_reason(settings)}; name the right --state-dir")
    asyncio.run(_run_with_errors(work, settings.url, token))


async def _run_with_errors(work: ApiWork, url: str, token: str) -> None:
    async with ApiClient(url, token) as api:
        try:
            await work(api)
        except NoAnswerError:
            raise CommandFailed(reason=f"no server answers on {url}; start it, or name its --port") from None
        except ApiError as error:
            raise CommandFailed(reason=error.problem.get("error", error)) from None
        except (msgspec.DecodeError, TypeError, KeyError):
            raise CommandFailed(reason=f"what answers on {url} is no Molecule server; name its --port") from None
