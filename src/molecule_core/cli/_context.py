"""Shared by commands that run as the workspace in the environment, or else as the owner of the local server."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import click
import msgspec

from molecule_core.agent.config import ConfigurationError, read_configuration, select_workspace
from molecule_core.cli._client import run_with_api
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import CommandFailed
from molecule_core.common.settings import environment

EXIT_REJECTED = 1
# HTTP statuses from 400 on are errors.
_FIRST_ERROR_STATUS = 400
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="As JSON, with all that the server tells.")
_WORKSPACE_VARIABLES = ("WORKSPACE_ID", "MOLECULE_WORKSPACES")
CallerWork = Callable[[ApiClient, str], Awaitable[None]]


def _is_agent() -> bool:
    return any(environment().get(name, "").strip() for name in _WORKSPACE_VARIABLES)


def run_as_caller(work: CallerWork, workspace: str | None, flags: dict[str, Any]) -> None:
    """Run work as the workspace that the environment names, else as the owner."""
    if not _is_agent():
        run_with_api(lambda api: work(api, workspace or ""), flags)
        return
    try:
        configuration = select_workspace(read_configuration(environment()), workspace)
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None
    if len(configuration.workspaces) > 1:
        choices = ", ".join(each.id for each in configuration.workspaces)
        raise CommandFailed(reason=f"say with --workspace as which one you call: {choices}")
    (connection,) = configuration.workspaces
    asyncio.run(_run_as_workspace(work, connection.id, connection.url, connection.token))


async def _run_as_workspace(work: CallerWork, workspace_id: str, url: str, token: str) -> None:
    async with ApiClient(url, token) as api:
        try:
            await work(api, workspace_id)
        except NoAnswerError:
            raise CommandFailed(reason=f"no server answers on {url}") from None
        except (msgspec.DecodeError, TypeError, KeyError):
            raise CommandFailed(
                reason=f"what answers on {url} is no Molecule server; set PLATFORM_URL to one"
            ) from None
        except ApiError as error:
            if error.status < _FIRST_ERROR_STATUS:  # a redirect or another kind of server
                raise CommandFailed(reason=error.problem["error"]) from None
            click.echo(f"molecule: {' '.join(str(error.problem.get('error', error)).split())}", err=True)
            sys.exit(EXIT_REJECTED)


def print_result(result: Any, as_json: bool, render: Callable[[Any], None]) -> None:
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(result)).decode())
    else:
        render(result)


def printable_line(text: str) -> str:
    """Return text on one line without control characters, which a terminal could interpret."""
    return " ".join("".join(each if each.isprintable() else " " for each in text).split())
