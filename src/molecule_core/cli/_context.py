"""Shared by commands that run as the workspace in the environment, or else as the owner of the local server."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import click
import msgspec

from molecule_core.agent.config import ConfigurationError, read_configuration, select_workspace
from molecule_core.cli._client import run_with_api
from molecule_core.cli._lookup import find_workspace
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.common.errors import CommandFailed
from molecule_core.common.settings import environment
from molecule_core.common.text import remove_terminal_codes

EXIT_REJECTED = 1
# HTTP statuses from 400 on are errors.
_FIRST_ERROR_STATUS = 400
_NOT_FOUND = 404
JSON_OPTION = click.option("--json", "as_json", is_flag=True, help="Print JSON, with all fields.")
_WORKSPACE_VARIABLES = ("WORKSPACE_ID", "MOLECULE_WORKSPACES")
CallerWork = Callable[[ApiClient, str], Awaitable[None]]


def _is_agent() -> bool:
    return any(environment().get(name, "").strip() for name in _WORKSPACE_VARIABLES)


def run_as_caller(work: CallerWork, workspace: str | None, flags: dict[str, Any]) -> None:
    """Run work as the workspace in the environment, else as the owner, who may name a workspace by its name."""
    if not _is_agent():
        run_with_api(lambda api: _run_as_owner(api, work, workspace or ""), flags)
        return
    try:
        configuration = select_workspace(read_configuration(environment()), workspace)
    except ConfigurationError as error:
        raise CommandFailed(reason=error) from None
    if len(configuration.workspaces) > 1:
        choices = ", ".join(each.id for each in configuration.workspaces)
        raise CommandFailed(reason=f"the environment names several workspaces. Choose one with --workspace: {choices}.")
    (connection,) = configuration.workspaces
    asyncio.run(_run_as_workspace(work, connection.id, connection.url, connection.token))


async def _run_as_owner(api: ApiClient, work: CallerWork, wanted: str) -> None:
    """Run work for a workspace, by its id or by a name that only one has. Raises CommandFailed."""
    if wanted and not await _is_workspace_id(api, wanted):
        wanted = str(find_workspace(await api.get("/workspaces"), wanted)["id"])
    await work(api, wanted)


async def _is_workspace_id(api: ApiClient, text: str) -> bool:
    """Return whether a workspace has this id, also a removed one, whose data can still be read."""
    try:
        await api.get(f"/workspaces/{quote(text, safe='')}", include_removed="true")
    except ApiError as error:
        if error.status != _NOT_FOUND:
            raise
        return False
    return True


async def _run_as_workspace(work: CallerWork, workspace_id: str, url: str, token: str) -> None:
    async with ApiClient(url, token) as api:
        try:
            await work(api, workspace_id)
        except NoAnswerError:
            raise CommandFailed(
                reason=f"no server responds at {url}. Start it, or set PLATFORM_URL to its address."
            ) from None
        except (msgspec.DecodeError, TypeError, KeyError):
            raise CommandFailed(
                reason=f"{url} is not a Molecule server. Set PLATFORM_URL to the address of one."
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
    """Return text on one line without terminal codes and control characters."""
    visible = remove_terminal_codes(text)
    return " ".join("".join(each if each.isprintable() else " " for each in visible).split())


def printable_text(text: str) -> str:
    """Return text with its lines, without terminal codes and other control characters."""
    visible = remove_terminal_codes(text).replace("\r\n", "\n")
    return "".join(each if each.isprintable() or each in "\n\t" else " " for each in visible)
