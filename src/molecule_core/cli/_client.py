"""Shared by commands that call a running server as its owner or admin: options, look-ups and error handling."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

import click
import msgspec

from molecule_core.cli._options import (
    TOKEN_VARIABLE,
    load_client_settings,
    missing_token_reason,
    owner_token,
    server_address,
    server_options,
)
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import CommandFailed

_SERVER_FLAGS = ("state_dir", "database", "port", "server")
ApiWork = Callable[[ApiClient], Awaitable[None]]


def client_options(command: Any) -> Any:
    """Add the options of a command that calls a server."""
    return server_options(command)


def org_option(command: Any) -> Any:
    """Add the option that `find_org_id` resolves."""
    return click.option("--org", help="Name or id of the organisation.  [default: the first one]")(command)


def add_command(
    group: click.Group, name: str, work: Callable[..., Awaitable[None]], find: Callable[..., Awaitable[Any]], by: str
) -> None:
    """Add a command that calls `work` with a client, with what `find` returns for the option `by`, and with the rest.

    It is named `name` in `group`, and has the options of `client_options`."""

    @wraps(work)
    def run(**options: Any) -> None:
        wanted, flags = options.pop(by), {name: options.pop(name) for name in _SERVER_FLAGS}

        async def find_and_work(api: ApiClient) -> None:
            await work(api, await find(api, wanted), **options)

        run_with_api(find_and_work, flags)

    group.command(name)(client_options(run))


def run_with_api(work: ApiWork, flags: dict[str, Any]) -> None:
    """Run work as the owner whose token is in MOLECULE_TOKEN, else as the admin of the running server.

    Raises CommandFailed."""
    settings = load_client_settings(**flags)
    address = server_address(flags, settings)
    token = owner_token(settings, address)
    if token is None:
        raise CommandFailed(
            reason=f"{missing_token_reason(settings)}. Set --state-dir to the server's state folder, "
            f"or {TOKEN_VARIABLE} to the token of a person."
        )
    asyncio.run(_run_with_errors(work, address, token))


async def _run_with_errors(work: ApiWork, url: str, token: str) -> None:
    async with ApiClient(url, token) as api:
        try:
            await work(api)
        except NoAnswerError:
            raise CommandFailed(reason=f"no server responds at {url}. Start it, or set --server.") from None
        except ApiError as error:
            raise CommandFailed(reason=error.problem.get("error", error)) from None
        except (msgspec.DecodeError, TypeError, KeyError):
            raise CommandFailed(reason=f"{url} is not a Molecule server. Set --server to the address of one.") from None
