"""`molecule connect`: puts an agent's host into a seat: a token, the host's configuration, a look whether it came."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from molecule_core.cli.connecting import Arrival, Wish, find_seat, fresh_token, kept_token, still_good, wait_for_agent
from molecule_core.cli.options import (
    TOKEN_VARIABLE,
    address_of,
    owner_token,
    settings_from,
    state_options,
    without_admin_token,
)
from molecule_core.client.api import Api, ApiError, NoAnswer
from molecule_core.client.host_config import hook_command, with_hooks, with_seat, without_hooks, without_seat
from molecule_core.client.host_files import (
    PROJECT,
    USER,
    Applied,
    Edit,
    HostFiles,
    config_file,
    settings_file,
)
from molecule_core.ground.clock import SystemClock
from molecule_core.ground.errors import CommandFailed
from molecule_core.ground.logs import hide
from molecule_core.ground.settings import Settings, environment
from molecule_core.wire import hosts
from molecule_core.wire.hosts import Host, Seat, entry_of_seat

AGENTS_FOLDER = "agents"
NOT_SEEN = 3
"""Exit code: all is configured, and the agent was not seen in time."""
_USUAL_WAIT = 120
_ENTRY, _HOOKS = "our entry", "our hooks"
COMMAND = (sys.executable, "-m", "molecule_core", "mcp")
"""What a host runs: works from any folder and without a PATH."""

T = TypeVar("T")


class Place(NamedTuple):
    """Where things are on this machine: the host, its files, what is edited in them, and our own folder."""

    host: Host
    config: Path
    settings: Path
    files: HostFiles

    def edits(self, seat: Seat, *, hooks: bool) -> dict[str, tuple[Path, Edit]]:
        """What each file is to become."""
        found: dict[str, tuple[Path, Edit]] = {
            _ENTRY: (self.config, lambda text: with_seat(self.host, text, COMMAND, seat))
        }
        if hooks:
            found[_HOOKS] = (self.settings, lambda text: with_hooks(text, self.hook))
        return found

    @property
    def hook(self) -> str:
        """What the hooks run."""
        return hook_command(sys.executable, str(self.config))


class Asked(NamedTuple):
    """What stands on the command line beside the host."""

    workspace: str | None
    create: bool
    parent: str | None
    org: str | None
    server: str | None
    own_token: bool
    apply: bool
    undo: bool
    hooks: bool
    scope: str
    file: Path | None
    wait: int


@click.command("connect")
@click.argument("host", type=click.Choice(hosts.NAMES))
@click.option("--workspace", metavar="ID|NAME", help="The seat that the agent takes.")
@click.option("--create", is_flag=True, help="Make the seat if there is none of this name.")
@click.option("--parent", metavar="ID|NAME", help="With --create: the seat that the new one answers to.")
@click.option("--org", help="The organisation's name, if there are several.")
@click.option("--server", help="Address of the server.  [default: the one on this machine]")
@click.option("--own-token", is_flag=True, help="Ask for the seat's own token instead of making a fresh one.")
@click.option("--apply", is_flag=True, help="Write it into the host's file, with a backup beside it.")
@click.option("--undo", is_flag=True, help="Take the last --apply back.")
@click.option("--hooks", is_flag=True, help="Claude Code: name waiting mail at the start and at each prompt.")
@click.option(
    "--scope",
    type=click.Choice([PROJECT, USER]),
    default=PROJECT,
    help="Claude Code: for this folder, or for all of this person's.  [default: project]",
)
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Another file of the host than usual.")
@click.option(
    "--wait",
    type=click.IntRange(min=0),
    default=_USUAL_WAIT,
    envvar="MOLECULE_CONNECT_WAIT",
    help=f"Seconds to wait until the agent is seen; 0: do not wait.  [default: {_USUAL_WAIT}]",
)
@click.option("--port", type=int, help="Of the server on this machine.  [default: 8080]")
@state_options
def command(host: str, **flags: Any) -> None:
    """Put an agent that lives in HOST into a seat. Prints the host's configuration, or writes it with --apply; then
    waits until the agent is seen. No token stands in the configuration: it is kept in a file of its own."""
    asked = Asked(**{name: flags.pop(name) for name in Asked._fields})
    settings = settings_from(**flags)
    place = _place(host, settings, asked)
    address = address_of(asked.server, "--server", settings)
    _refuse_what_fits_ill(place.host, asked)
    if asked.undo:
        _undo(place, settings, address)
    else:
        _connect(place, settings, asked, address)


def _connect(place: Place, settings: Settings, asked: Asked, address: str) -> None:
    if asked.workspace is None:
        raise CommandFailed(reason="name the seat with --workspace (and --create, if it is to be made)")
    if asked.apply:  # what cannot be written is refused before anything is made
        for named, edit in place.edits(Seat("", address, ""), hooks=asked.hooks).values():
            place.files.changed(named, edit)
    wish = Wish(asked.workspace, asked.create, asked.parent, asked.org, place.host.runtime)
    found = _found(place, wish, settings, address, own_token=asked.own_token)
    file = place.files.token_file(place.host.name, found.workspace_id)
    place.files.keep_token(file, found.token)
    click.echo(f"{found.name!r} ({found.workspace_id}): its token is in {file}", err=True)
    seat = Seat(found.workspace_id, address, str(file))
    if asked.apply:
        about = (seat.workspace_id, seat.token_file, found.token_id)
        _say_applied(place, place.files.apply(place.edits(seat, hooks=asked.hooks), place.host.name, about))
    else:
        _print(place, seat, hooks=asked.hooks)
    _wait(address, found, asked.wait, place.host)


def _place(name: str, settings: Settings, asked: Asked) -> Place:
    host = hosts.host_of(name)
    assert host is not None  # click knows the names
    environ, home, folder, scope = environment(), Path.home(), Path.cwd(), asked.scope
    config = config_file(host, environ, home, folder, scope) if asked.file is None else asked.file.absolute()
    beside = folder if asked.file is None else config.parent
    files = HostFiles(settings.state.absolute() / AGENTS_FOLDER, SystemClock())
    return Place(host, config, settings_file(environ, home, beside, scope), files)


def _refuse_what_fits_ill(host: Host, asked: Asked) -> None:
    if asked.hooks and host.name != "claude-code":
        raise CommandFailed(reason=f"{host.title} has no hooks that Molecule knows; leave --hooks away")
    if (asked.apply or asked.undo) and not host.place:
        raise CommandFailed(reason=f"{host.title} has no file of its own; leave --apply and --undo away")


# -- seat and token ----------------------------------------------------------------------------------------------------


def _found(place: Place, wish: Wish, settings: Settings, address: str, *, own_token: bool) -> Arrival:
    """The seat with a token for this host. Raises CommandFailed."""
    if own_token:
        token = _asked_for_token()
        return _asking(address, token, lambda api: _own_seat(api, wish.workspace, token))
    owner = owner_token(settings)
    if owner is None:
        raise CommandFailed(
            reason=f"{without_admin_token(settings)}; put an owner's token into {TOKEN_VARIABLE}, name the "
            "right --state-dir, or bring the seat's token with --own-token"
        )

    async def work(api: Api) -> Arrival:
        seat = await find_seat(api, wish)
        if seat.token:
            return seat
        kept = place.files.token_in(place.files.token_file(place.host.name, seat.workspace_id))
        if kept and await still_good(address, kept, seat.workspace_id):
            return await kept_token(api, seat, kept)
        return await fresh_token(api, seat)

    return _asking(address, owner, work)


def _asked_for_token() -> str:
    """A token from the terminal, which does not show it, or from standard input; never from an argument."""
    terminal = sys.stdin.isatty()
    token = click.prompt("Token of the seat", hide_input=True, err=True) if terminal else sys.stdin.readline()
    token = str(token).strip()
    if not token:
        raise CommandFailed(reason="no token came; paste it when it is asked for, or send it to standard input")
    hide(token)
    return token


async def _own_seat(api: Api, workspace_id: str, token: str) -> Arrival:
    try:
        row = await api.get(f"/workspaces/{workspace_id}/waiting")
    except ApiError as error:
        why = error.problem.get("error", error)
        raise CommandFailed(reason=f"this token does not open the seat {workspace_id}: {why}") from None
    return Arrival(str(row["workspace_id"]), str(row["name"]), token)


def _asking(address: str, token: str, work: Callable[[Api], Coroutine[Any, Any, T]]) -> T:
    """Does something with a client of the server. Raises CommandFailed."""

    async def connected() -> T:
        async with Api(address, token) as api:
            return await work(api)

    try:
        return asyncio.run(connected())
    except ApiError as error:
        raise CommandFailed(reason=error.problem.get("error", error)) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise CommandFailed(reason=f"what answers on {address} is no Molecule server; name its --server") from None
    except NoAnswer:
        raise CommandFailed(reason=f"no server answers on {address}; start it, or name its --server") from None


# -- words -------------------------------------------------------------------------------------------------------------


def _print(place: Place, seat: Seat, *, hooks: bool) -> None:
    """The configuration on standard output, and nothing else there."""
    host, others = place.host, []
    if host.place:
        click.echo(f"Put this into {place.config}, beside what stands there (--apply does it):", err=True)
        others = [each for each in place.files.seats(host, place.config) if each["id"] != seat.workspace_id]
    seats = [*others, entry_of_seat(seat)]
    click.echo(hosts.configuration(host, COMMAND, seats), nl=False)
    if hooks:
        click.echo(f"And this into {place.settings}:", err=True)
        click.echo(with_hooks("", place.hook), nl=False)
    if line := hosts.own_command(host, COMMAND, seats):
        click.echo(f"Or let it write this itself: {line}", err=True)
    if host.note:
        click.echo(host.note, err=True)


def _say_applied(place: Place, applied: list[Applied]) -> None:
    for change in applied:
        kept = "it was not there before" if change.backup is None else f"the file as it was: {change.backup}"
        click.echo(f"{change.file}: wrote {change.what}; {kept}", err=True)
    if not applied:
        click.echo("Nothing to write: it is all there already.", err=True)
    elif place.host.note:
        click.echo(place.host.note, err=True)


def _wait(address: str, seat: Arrival, seconds: int, host: Host) -> None:
    """Says that the agent came, or ends with an exit code of its own."""
    if seconds == 0:
        return
    words = f"Start {host.title} now; waiting {seconds} s for the agent (Ctrl-C ends only the waiting) ..."

    def listening() -> None:
        click.echo(words, err=True)

    try:
        seen = asyncio.run(wait_for_agent(address, seat.token, seat.workspace_id, seconds, listening))
    except ApiError as error:
        why = error.problem.get("error", error)
        raise CommandFailed(reason=f"all is configured, but the server lets nobody in with its token: {why}") from None
    if seen is None:
        click.echo(
            f"Nobody came within {seconds} s. The configuration stands: it counts whenever {host.title} starts. "
            "If it runs already, start it anew; its list of MCP servers says what is wrong.",
            err=True,
        )
        sys.exit(NOT_SEEN)
    tools = f", {seen.tools} tools" if seen.tools else ""
    click.echo(f"connected{tools}{' (it was there before)' if seen.before else ''}", err=True)


# -- the way back ------------------------------------------------------------------------------------------------------


def _undo(place: Place, settings: Settings, address: str) -> None:
    changes = place.files.last(place.host.name, [place.config, place.settings])
    if not changes:
        raise CommandFailed(reason=f"nothing that was applied to {place.config} is known; so there is nothing to undo")
    for change in reversed(changes):

        def take_out(text: str, change: Applied = change) -> str:
            if change.what == _HOOKS:
                return without_hooks(text)
            return without_seat(place.host, text, COMMAND, change.workspace_id)

        undone = place.files.undo(change, take_out)
        words = "as it was before" if undone.exact else f"it was changed since, so only {change.what} was taken out"
        click.echo(f"{change.file}: {words}", err=True)
    _revoke(changes[-1], settings, address)


def _revoke(change: Applied, settings: Settings, address: str) -> None:
    """The token that was made for it opens nothing any more, if this can still be said to the server."""
    if change.token_id is None or Path(change.token_file).exists():
        return
    path = f"/workspaces/{change.workspace_id}/tokens/{change.token_id}"
    try:
        _asking(address, owner_token(settings) or "", lambda api: api.call("DELETE", path))
    except CommandFailed as error:
        click.echo(f"Its token still opens the seat ({error.text}); revoke it there.", err=True)
    else:
        click.echo("Its token was revoked.", err=True)
