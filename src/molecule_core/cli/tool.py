"""`molecule tool`, and the commands that call a tool: for runtimes without MCP, from a shell.

The environment names the caller. Arguments never do, since others on the machine can read them."""

import asyncio
import codecs
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import click
import msgspec

from molecule_core.agent.client.retry import BoundedRetry
from molecule_core.agent.config import Configuration, ConfigurationError, read_configuration, select_workspace
from molecule_core.client.api import ApiClient
from molecule_core.client.claims import ActingWorkspace
from molecule_core.client.task_headers import acting_for
from molecule_core.client.tool_runner import ToolRunner
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import CommandFailed
from molecule_core.common.ids import IdGenerator, SystemRandomness
from molecule_core.common.settings import environment
from molecule_core.common.text import is_valid_client_id
from molecule_core.common.version import VERSION
from molecule_core.tools.registry import TOOLS, find_tool
from molecule_core.tools.runners.file_tools import local_files
from molecule_core.tools.runners.requester import RetryingRequester
from molecule_core.tools.spec import BadArgumentsError, ToolError, ToolSpec

# 60 s: longer than the longest poll of a tool, so that a timeout is the server's.
_TIMEOUT_SECONDS = 60.0
_TASK_VARIABLE, _MAX_ID = "MOLECULE_TASK_ID", 128
# The call was valid but rejected, unlike exit code 2.
_EXIT_REJECTED = 1
WORKSPACE_OPTION = click.option("--workspace", help="Workspace that calls, if MOLECULE_WORKSPACES names several.")


@click.command("tool")
@click.argument("name", required=False)
@click.option("--json", "given", default="{}", help="Arguments, as a JSON object (- for standard input).")
@WORKSPACE_OPTION
@click.option("--list", "listing", is_flag=True, help="List the tools and their arguments.")
def command(name: str | None, given: str, workspace: str | None, listing: bool) -> None:
    """Call a platform tool as the workspace in the environment, and print its result as JSON.

    WORKSPACE_ID, MOLECULE_WORKSPACE_TOKEN (or MOLECULE_WORKSPACE_TOKEN_FILE) and PLATFORM_URL select the workspace;
    MOLECULE_WORKSPACES names several. Exit code 0: success; 1: the call was rejected; 2: invalid arguments. Errors are
    one line on standard error."""
    if listing or name is None:
        _print_tools()
        return
    spec = find_tool(name)
    if spec is None:
        raise CommandFailed(
            reason=f"tool {name!r} does not exist. Use one of: {', '.join(each.name for each in TOOLS)}."
        )
    text = sys.stdin.buffer.read().removeprefix(codecs.BOM_UTF8) if given == "-" else given
    click.echo(msgspec.json.format(msgspec.json.encode(run_tool(spec, _decode_json(text), workspace))).decode())


def _print_tools() -> None:
    for spec in TOOLS:
        click.echo(f"{spec.name}: {spec.summary}")
        for name, about in spec.input_schema["properties"].items():
            needed = " (required)" if name in spec.input_schema.get("required", ()) else ""
            click.echo(f"    {name}{needed}: {about['description']}")


def _decode_json(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise CommandFailed(reason=f"--json is not JSON ({error})") from None


def run_tool(spec: ToolSpec, arguments: Any, workspace: str | None) -> dict[str, Any]:
    """Run a tool and return its result. On an error, report it and exit."""
    try:
        configuration = read_configuration(environment())
        with acting_for(_delegation_id()):
            return asyncio.run(_run_tool(spec, arguments, select_workspace(configuration, workspace)))
    except (ConfigurationError, BadArgumentsError) as error:
        raise CommandFailed(reason=error) from None
    except ToolError as error:
        click.echo(f"molecule: {' '.join(error.text.split())}", err=True)
        sys.exit(_EXIT_REJECTED)


def _delegation_id() -> str:
    """Return the delegated task that the caller works on, as its bridge has set it; empty if none is set."""
    named = environment().get(_TASK_VARIABLE, "")
    return named if is_valid_client_id(named, _MAX_ID) else ""


async def _run_tool(spec: ToolSpec, raw_arguments: Any, configuration: Configuration) -> dict[str, Any]:
    arguments = spec.parse_arguments(raw_arguments)
    if note := spec.unknown_note(raw_arguments):
        click.echo(note, err=True)
    clock, randomness = SystemClock(), SystemRandomness()
    async with AsyncExitStack() as stack:
        workspaces = []
        for connection in configuration.workspaces:
            api = await stack.enter_async_context(ApiClient(connection.url, connection.token, seconds=_TIMEOUT_SECONDS))
            requester = RetryingRequester(api, BoundedRetry(clock=clock, randomness=randomness))
            workspaces.append(ActingWorkspace(connection.id, connection.url, requester, api))
        runner = ToolRunner(
            workspaces,
            clock=clock,
            ids=IdGenerator(clock, randomness),
            runtime="cli",
            version=VERSION,
            lease=configuration.settings.lease_seconds,
            files=local_files(configuration.state),
        )
        stack.push_async_callback(runner.close)
        return await runner.call(spec, arguments)


# -- commands that call a tool -----------------------------------------------------------------------------------------


def _print_peers(result: dict[str, Any]) -> None:
    for peer in result["peers"]:
        role = f"  {peer['role']}" if peer["role"] else ""
        click.echo(f"{peer['id']}  {peer['status']}  {peer['name']}{role}")
    if not result["peers"]:
        click.echo("no peers")


def _print_info(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if name != "agent_card" and value is not None:
            click.echo(f"{name}: {value}")


_PRINTERS: dict[str, Callable[[dict[str, Any]], None]] = {"peers": _print_peers, "info": _print_info}


def tool_command(name: str) -> click.Command:
    """Return the command that the registry names for a tool."""
    (spec,) = (each for each in TOOLS if each.cli == name)

    @click.command(name, help=f"{spec.summary} (Tool: {spec.name}.)")
    @WORKSPACE_OPTION
    def run(workspace: str | None) -> None:
        _PRINTERS[name](run_tool(spec, {}, workspace))

    return run


# These texts are read from standard input if left out: they are long, have quotes, and stay out of process lists.
_TEXT_ARGUMENTS = {"reply": "text", "decline": "reason"}


def reply_command(name: str) -> click.Command:
    """Return a command that answers a message by its handle."""
    (spec,) = (each for each in TOOLS if each.cli == name)
    progress = "progress" in spec.arguments_type.__struct_fields__

    @click.command(
        name, help=f"{spec.summary} (Tool: {spec.name}.) Without TEXT, or with -, it is read from standard input."
    )
    @click.argument("handle")
    @click.argument("text", required=False)
    @WORKSPACE_OPTION
    def run(handle: str, text: str | None, workspace: str | None, **flags: bool) -> None:
        content = read_standard_input() if text in (None, "-") else text
        result = run_tool(spec, {"handle": handle, _TEXT_ARGUMENTS[name]: content, **flags}, workspace)
        click.echo(result["note"] or result["state"])

    if progress:
        run = click.option("--progress", is_flag=True, help="Only report progress. The message stays open.")(run)
    return run


def read_standard_input() -> str:
    """Read standard input as text. Raises CommandFailed if it is not UTF-8."""
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise CommandFailed(reason=f"standard input is not UTF-8 ({error})") from None
