"""`molecule tool`, and the words that are tools too: what a runtime without MCP calls from its shell.

As whom it calls is told by the environment, never by arguments, which others on the machine can read.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import click
import msgspec

from molecule_core.agent.config import BadConfiguration, Configuration, read_configuration, with_only
from molecule_core.agent.speaking import Speaker
from molecule_core.client.api import Api
from molecule_core.client.calling import Caller
from molecule_core.client.claiming import Seat
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.errors import CommandFailed
from molecule_core.ground.ids import Ids, SystemRandomness
from molecule_core.ground.settings import environment
from molecule_core.ground.version import VERSION
from molecule_core.wire.tools import TOOLS, find
from molecule_core.wire.toolspec import BadArguments, ToolError, ToolSpec

# Longer than the longest poll that a tool makes, so that a silent answer is the server's doing and not ours.
_PATIENCE_SECONDS = 60.0
# What was asked for properly and could not be done, unlike what was asked wrongly.
_REFUSED = 1
WORKSPACE = click.option("--workspace", help="As which of the workspaces in MOLECULE_WORKSPACES to call.")


@click.command("tool")
@click.argument("name", required=False)
@click.option("--json", "given", default="{}", help="The arguments, a JSON object; - reads it from standard input.")
@WORKSPACE
@click.option("--list", "listing", is_flag=True, help="Say which tools there are, and what each takes.")
def command(name: str | None, given: str, workspace: str | None, listing: bool) -> None:
    """Call a platform tool as the workspace that the environment names, and print its result as JSON.

    WORKSPACE_ID, MOLECULE_WORKSPACE_TOKEN (or MOLECULE_WORKSPACE_TOKEN_FILE) and PLATFORM_URL say who calls, or
    MOLECULE_WORKSPACES for several. Ends with 0, with 1 if the tool was refused, with 2 if it was called wrongly; the
    reason is one line on standard error."""
    if listing or name is None:
        _list()
        return
    spec = find(name)
    if spec is None:
        raise CommandFailed(reason=f"there is no tool {name!r}; there are: {', '.join(each.name for each in TOOLS)}")
    text = sys.stdin.buffer.read() if given == "-" else given
    click.echo(msgspec.json.format(msgspec.json.encode(called(spec, _decoded(text), workspace))).decode())


def _list() -> None:
    for spec in TOOLS:
        click.echo(f"{spec.name}: {spec.short}")
        for name, about in spec.input_schema["properties"].items():
            needed = " (needed)" if name in spec.input_schema.get("required", ()) else ""
            click.echo(f"    {name}{needed}: {about['description']}")


def _decoded(text: str | bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise CommandFailed(reason=f"--json is not JSON ({error})") from None


def called(spec: ToolSpec, given: Any, workspace: str | None) -> dict[str, Any]:
    """What a tool gives; else the process ends, and says why."""
    try:
        configuration = read_configuration(environment())
        return asyncio.run(_call(spec, given, with_only(configuration, workspace)))
    except (BadConfiguration, BadArguments) as error:
        raise CommandFailed(reason=error) from None
    except ToolError as error:
        click.echo(f"molecule: {' '.join(error.text.split())}", err=True)
        sys.exit(_REFUSED)


async def _call(spec: ToolSpec, given: Any, configuration: Configuration) -> dict[str, Any]:
    arguments = spec.arguments(given)
    clock, randomness = SystemClock(), SystemRandomness()
    async with AsyncExitStack() as stack:
        seats = []
        for seat in configuration.seats:
            api = await stack.enter_async_context(Api(seat.url, seat.token, seconds=_PATIENCE_SECONDS))
            speaker = Speaker(api, clock=clock, randomness=randomness)
            seats.append(Seat(seat.id, seat.url, speaker))
        caller = Caller(
            seats,
            clock=clock,
            ids=Ids(clock, randomness),
            runtime="cli",
            version=VERSION,
            lease=configuration.wishes.lease_seconds,
        )
        stack.push_async_callback(caller.close)
        return await caller.call(spec, arguments)


# -- the words ---------------------------------------------------------------------------------------------------------


def _peers(result: dict[str, Any]) -> None:
    for peer in result["peers"]:
        role = f"  {peer['role']}" if peer["role"] else ""
        click.echo(f"{peer['id']}  {peer['status']}  {peer['name']}{role}")
    if not result["peers"]:
        click.echo("no peers")


def _info(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if name != "agent_card" and value is not None:
            click.echo(f"{name}: {value}")


_SHOWN: dict[str, Callable[[dict[str, Any]], None]] = {"peers": _peers, "info": _info}


def word(name: str) -> click.Command:
    """The command of a word that the registry gives to a tool."""
    (spec,) = (each for each in TOOLS if each.cli == name)

    @click.command(name, help=f"{spec.short} (The tool {spec.name}.)")
    @WORKSPACE
    def run(workspace: str | None) -> None:
        _SHOWN[name](called(spec, {}, workspace))

    return run


# What is said is read from standard input where it is not given: texts are long, hold quotes, and stand in no list of
# processes then.
_SAID = {"reply": "text", "decline": "reason"}


def answering(name: str) -> click.Command:
    """The command of a word that answers the message of a handle."""
    (spec,) = (each for each in TOOLS if each.cli == name)
    progress = "progress" in spec.takes.__struct_fields__

    @click.command(name, help=f"{spec.short} (The tool {spec.name}.) TEXT is read from standard input if left out.")
    @click.argument("handle")
    @click.argument("text", required=False)
    @WORKSPACE
    def run(handle: str, text: str | None, workspace: str | None, **flags: bool) -> None:
        said = standard_input() if text in (None, "-") else text
        told = called(spec, {"handle": handle, _SAID[name]: said, **flags}, workspace)
        click.echo(told["note"] or told["state"])

    if progress:
        run = click.option("--progress", is_flag=True, help="Only say that you are at it; it stays open.")(run)
    return run


def standard_input() -> str:
    """What is given there. Raises CommandFailed if it is no text."""
    try:
        return sys.stdin.buffer.read().decode().strip()
    except UnicodeDecodeError as error:
        raise CommandFailed(reason=f"standard input is no UTF-8 ({error})") from None
