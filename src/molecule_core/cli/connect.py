"""`molecule connect`: connects an agent's host: creates a token, configures the host, waits for the agent."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from molecule_core.cli._connect_server import (
    WorkspaceAccess,
    WorkspaceChoice,
    create_token,
    find_or_create_workspace,
    is_token_valid,
    reuse_token,
    wait_for_agent,
)
from molecule_core.cli._options import (
    TOKEN_VARIABLE,
    load_cli_settings,
    missing_token_reason,
    owner_token,
    server_address,
    state_options,
)
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.config_files import (
    PROJECT_SCOPE,
    USER_SCOPE,
    AppliedEdit,
    Edit,
    HostConfigFiles,
    config_file,
    settings_file,
)
from molecule_core.client.host_config_edit import add_hooks, add_workspace, hook_command, remove_hooks, remove_workspace
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import register_secret
from molecule_core.common.settings import Settings, environment
from molecule_core.tools import host_config
from molecule_core.tools.host_config import Host, HostWorkspace, workspace_entry

AGENTS_FOLDER = "agents"
EXIT_NOT_SEEN = 3
"""Exit code if everything is configured, but the agent was not seen in time."""
_DEFAULT_WAIT = 120
_HOST_ENTRY, _HOST_HOOKS = "our entry", "our hooks"
MCP_COMMAND = (sys.executable, "-m", "molecule_core", "mcp")
"""The command that a host runs. It works from any folder and without a PATH."""

T = TypeVar("T")


class HostPaths(NamedTuple):
    """The host and its files on this machine."""

    host: Host
    config: Path
    settings: Path
    files: HostConfigFiles

    def edits(self, workspace: HostWorkspace, *, hooks: bool) -> dict[str, tuple[Path, Edit]]:
        """Return the edit of each file, by what is written."""
        found: dict[str, tuple[Path, Edit]] = {
            _HOST_ENTRY: (self.config, lambda text: add_workspace(self.host, text, MCP_COMMAND, workspace))
        }
        if hooks:
            found[_HOST_HOOKS] = (self.settings, lambda text: add_hooks(text, self.hook))
        return found

    @property
    def hook(self) -> str:
        """Return the command that the hooks run."""
        return hook_command(sys.executable, str(self.config))


class ConnectOptions(NamedTuple):
    """The options of the command."""

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
@click.argument("host", type=click.Choice(host_config.HOST_NAMES))
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
    type=click.Choice([PROJECT_SCOPE, USER_SCOPE]),
    default=PROJECT_SCOPE,
    help="Claude Code: for this folder, or for all of this person's.  [default: project]",
)
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Another file of the host than usual.")
@click.option(
    "--wait",
    type=click.IntRange(min=0),
    default=_DEFAULT_WAIT,
    envvar="MOLECULE_CONNECT_WAIT",
    help=f"Seconds to wait until the agent is seen; 0: do not wait.  [default: {_DEFAULT_WAIT}]",
)
@click.option("--port", type=int, help="Of the server on this machine.  [default: 8080]")
@state_options
def command(host: str, **flags: Any) -> None:
    """Connect an agent that runs in HOST to a workspace.

    Prints the host's configuration, or writes it with --apply; then waits until the agent is seen. The token is not
    part of the configuration: it is kept in a file of its own."""
    options = ConnectOptions(**{name: flags.pop(name) for name in ConnectOptions._fields})
    settings = load_cli_settings(**flags)
    paths = _host_paths(host, settings, options)
    address = server_address(options.server, "--server", settings)
    _reject_unsupported(paths.host, options)
    if options.undo:
        _undo_last_apply(paths, settings, address)
    else:
        _connect(paths, settings, options, address)


def _connect(paths: HostPaths, settings: Settings, options: ConnectOptions, address: str) -> None:
    if options.workspace is None:
        raise CommandFailed(reason="name the seat with --workspace (and --create, if it is to be made)")
    if options.apply:  # reject an edit that cannot be written before anything is created
        for named, edit in paths.edits(HostWorkspace("", address, ""), hooks=options.hooks).values():
            paths.files.edited_content(named, edit)
    choice = WorkspaceChoice(options.workspace, options.create, options.parent, options.org, paths.host.runtime)
    found = _obtain_access(paths, choice, settings, address, own_token=options.own_token)
    file = paths.files.token_file(paths.host.name, found.workspace_id)
    paths.files.save_token(file, found.token)
    click.echo(f"{found.name!r} ({found.workspace_id}): its token is in {file}", err=True)
    workspace = HostWorkspace(found.workspace_id, address, str(file))
    if options.apply:
        about = (workspace.workspace_id, workspace.token_file, found.token_id)
        _print_applied(
            paths, paths.files.apply_edits(paths.edits(workspace, hooks=options.hooks), paths.host.name, about)
        )
    else:
        _print_configuration(paths, workspace, hooks=options.hooks)
    _wait_until_seen(address, found, options.wait, paths.host)


def _host_paths(name: str, settings: Settings, options: ConnectOptions) -> HostPaths:
    host = host_config.find_host(name)
    assert host is not None  # click has checked the name
    environ, home, folder, scope = environment(), Path.home(), Path.cwd(), options.scope
    config = config_file(host, environ, home, folder, scope) if options.file is None else options.file.absolute()
    base_folder = folder if options.file is None else config.parent
    files = HostConfigFiles(settings.state_folder.absolute() / AGENTS_FOLDER, SystemClock())
    return HostPaths(host, config, settings_file(environ, home, base_folder, scope), files)


def _reject_unsupported(host: Host, options: ConnectOptions) -> None:
    if options.hooks and host.name != "claude-code":
        raise CommandFailed(reason=f"{host.title} has no hooks that Molecule knows; leave --hooks away")
    if (options.apply or options.undo) and not host.entry_path:
        raise CommandFailed(reason=f"{host.title} has no file of its own; leave --apply and --undo away")


# -- workspace and token -----------------------------------------------------------------------------------------------


def _obtain_access(
    paths: HostPaths, choice: WorkspaceChoice, settings: Settings, address: str, *, own_token: bool
) -> WorkspaceAccess:
    """Return the workspace with a token for this host. Raises CommandFailed."""
    if own_token:
        token = _read_token()
        return _run_with_api(address, token, lambda api: _check_own_token(api, choice.workspace, token))
    owner = owner_token(settings)
    if owner is None:
        raise CommandFailed(
            reason=f"{missing_token_reason(settings)}; put an owner's token into {TOKEN_VARIABLE}, name the "
            "right --state-dir, or bring the seat's token with --own-token"
        )

    async def work(api: ApiClient) -> WorkspaceAccess:
        workspace = await find_or_create_workspace(api, choice)
        if workspace.token:
            return workspace
        stored = paths.files.read_token(paths.files.token_file(paths.host.name, workspace.workspace_id))
        if stored and await is_token_valid(address, stored, workspace.workspace_id):
            return await reuse_token(api, workspace, stored)
        return await create_token(api, workspace)

    return _run_with_api(address, owner, work)


def _read_token() -> str:
    """Read a token from a hidden prompt or standard input; never from an argument, which others can see."""
    terminal = sys.stdin.isatty()
    token = click.prompt("Token of the seat", hide_input=True, err=True) if terminal else sys.stdin.readline()
    token = str(token).strip()
    if not token:
        raise CommandFailed(reason="no token came; paste it when it is asked for, or send it to standard input")
    register_secret(token)
    return token


async def _check_own_token(api: ApiClient, workspace_id: str, token: str) -> WorkspaceAccess:
    try:
        row = await api.get(f"/workspaces/{workspace_id}/waiting")
    except ApiError as error:
        reason = error.problem.get("error", error)
        raise CommandFailed(reason=f"this token does not open the seat {workspace_id}: {reason}") from None
    return WorkspaceAccess(str(row["workspace_id"]), str(row["name"]), token)


def _run_with_api(address: str, token: str, work: Callable[[ApiClient], Coroutine[Any, Any, T]]) -> T:
    """Run work with a client of the server. Raises CommandFailed."""

    async def call() -> T:
        async with ApiClient(address, token) as api:
            return await work(api)

    try:
        return asyncio.run(call())
    except ApiError as error:
        raise CommandFailed(reason=error.problem.get("error", error)) from None
    except (msgspec.DecodeError, TypeError, KeyError):
        raise CommandFailed(reason=f"what answers on {address} is no Molecule server; name its --server") from None
    except NoAnswerError:
        raise CommandFailed(reason=f"no server answers on {address}; start it, or name its --server") from None


# -- output ------------------------------------------------------------------------------------------------------------


def _print_configuration(paths: HostPaths, workspace: HostWorkspace, *, hooks: bool) -> None:
    """Print only the configuration on standard output; hints go to standard error."""
    host, others = paths.host, []
    if host.entry_path:
        click.echo(f"Put this into {paths.config}, beside what stands there (--apply does it):", err=True)
        others = [
            each for each in paths.files.workspaces_in(host, paths.config) if each["id"] != workspace.workspace_id
        ]
    workspaces = [*others, workspace_entry(workspace)]
    click.echo(host_config.render_configuration(host, MCP_COMMAND, workspaces), nl=False)
    if hooks:
        click.echo(f"And this into {paths.settings}:", err=True)
        click.echo(add_hooks("", paths.hook), nl=False)
    if line := host_config.add_server_command(host, MCP_COMMAND, workspaces):
        click.echo(f"Or let it write this itself: {line}", err=True)
    if host.note:
        click.echo(host.note, err=True)


def _print_applied(paths: HostPaths, applied: list[AppliedEdit]) -> None:
    for change in applied:
        backup = "it was not there before" if change.backup is None else f"the file as it was: {change.backup}"
        click.echo(f"{change.file}: wrote {change.what}; {backup}", err=True)
    if not applied:
        click.echo("Nothing to write: it is all there already.", err=True)
    elif paths.host.note:
        click.echo(paths.host.note, err=True)


def _wait_until_seen(address: str, workspace: WorkspaceAccess, seconds: int, host: Host) -> None:
    """Report that the agent is connected, or exit with EXIT_NOT_SEEN."""
    if seconds == 0:
        return
    notice = f"Start {host.title} now; waiting {seconds} s for the agent (Ctrl-C ends only the waiting) ..."

    def on_listening() -> None:
        click.echo(notice, err=True)

    try:
        seen = asyncio.run(wait_for_agent(address, workspace.token, workspace.workspace_id, seconds, on_listening))
    except ApiError as error:
        reason = error.problem.get("error", error)
        raise CommandFailed(
            reason=f"all is configured, but the server lets nobody in with its token: {reason}"
        ) from None
    if seen is None:
        click.echo(
            f"Nobody came within {seconds} s. The configuration stands: it counts whenever {host.title} starts. "
            "If it runs already, start it anew; its list of MCP servers says what is wrong.",
            err=True,
        )
        sys.exit(EXIT_NOT_SEEN)
    tools = f", {seen.tool_count} tools" if seen.tool_count else ""
    click.echo(f"connected{tools}{' (it was there before)' if seen.was_present else ''}", err=True)


# -- undo --------------------------------------------------------------------------------------------------------------


def _undo_last_apply(paths: HostPaths, settings: Settings, address: str) -> None:
    changes = paths.files.last_edits(paths.host.name, [paths.config, paths.settings])
    if not changes:
        raise CommandFailed(reason=f"nothing that was applied to {paths.config} is known; so there is nothing to undo")
    for change in reversed(changes):

        def remove_edit(text: str, change: AppliedEdit = change) -> str:
            if change.what == _HOST_HOOKS:
                return remove_hooks(text)
            return remove_workspace(paths.host, text, MCP_COMMAND, change.workspace_id)

        undone = paths.files.undo_edit(change, remove_edit)
        notice = "as it was before" if undone.exact else f"it was changed since, so only {change.what} was taken out"
        click.echo(f"{change.file}: {notice}", err=True)
    _revoke_token(changes[-1], settings, address)


def _revoke_token(change: AppliedEdit, settings: Settings, address: str) -> None:
    """Revoke the token that was created for the host, if the server can be reached."""
    if change.token_id is None or Path(change.token_file).exists():
        return
    path = f"/workspaces/{change.workspace_id}/tokens/{change.token_id}"
    try:
        _run_with_api(address, owner_token(settings) or "", lambda api: api.call("DELETE", path))
    except CommandFailed as error:
        click.echo(f"Its token still opens the seat ({error.text}); revoke it there.", err=True)
    else:
        click.echo("Its token was revoked.", err=True)
