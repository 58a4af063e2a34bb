"""`molecule connect`: connects an agent's host: creates a token, configures the host, waits for the agent."""

import asyncio
import shlex
import shutil
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import msgspec

from molecule_core.cli._connect_host import ask_host
from molecule_core.cli._connect_server import (
    AgentWatch,
    WorkspaceAccess,
    WorkspaceChoice,
    create_token,
    find_or_create_workspace,
    is_token_valid,
    reuse_token,
    save_context,
    wait_for_agent,
)
from molecule_core.cli._options import (
    SERVER_OPTION,
    SERVER_VARIABLE,
    TOKEN_VARIABLE,
    load_cli_settings,
    missing_token_reason,
    owner_token,
    server_address,
    state_options,
)
from molecule_core.cli._platform import is_windows
from molecule_core.client.api import ApiClient, ApiError, NoAnswerError
from molecule_core.client.config_files import (
    PROJECT_SCOPE,
    USER_SCOPE,
    AppliedEdit,
    Edit,
    HostConfigFiles,
    PlannedEdit,
    config_file,
    settings_file,
)
from molecule_core.client.contact_file import ContactFile
from molecule_core.client.host_config_edit import (
    add_hooks,
    add_permissions,
    add_workspace,
    check_host_grammar,
    remove_hooks,
    remove_permissions,
    remove_workspace,
    set_remote_entry,
    update_command,
    update_hooks,
)
from molecule_core.client.host_launcher import HostLauncher
from molecule_core.common.clock import SystemClock
from molecule_core.common.errors import CommandFailed
from molecule_core.common.logs import register_secret
from molecule_core.common.settings import Settings, environment
from molecule_core.tools import host_config
from molecule_core.tools.host_config import CLAUDE_CODE, Host, HostWorkspace, workspace_entry

AGENTS_FOLDER = "agents"
EXIT_NOT_SEEN = 3
"""Exit code if everything is configured, but the agent was not seen in time."""
_DEFAULT_WAIT = 120
_DEFAULT_HOST_SECONDS = 60
_HOST_ENTRY, _HOST_HOOKS, _HOST_PERMISSIONS = "our entry", "our hooks", "our permissions"
_EDIT_TITLES = {
    _HOST_ENTRY: "the Molecule server",
    _HOST_HOOKS: "the Molecule hooks",
    _HOST_PERMISSIONS: "the permission to use the tools of Molecule",
}
"""How edits are printed. The keys are stored in the list of edits."""
_ENVIRONMENT = Host("env", "the agent", "generic-mcp", "sh")
"""Used as a host: agents that Molecule runs itself take their workspace from the environment."""
T = TypeVar("T")


class HostPaths(NamedTuple):
    """The host and its files on this machine. `root`: the folder that they belong to."""

    host: Host
    config: Path
    settings: Path
    root: Path
    files: HostConfigFiles
    launcher: HostLauncher
    is_project: bool
    is_remote: bool
    """Whether the host connects over HTTP, where no process of ours can run."""

    def edits(self, workspace: HostWorkspace, *, hooks: bool) -> dict[str, PlannedEdit]:
        """Return the edit of each file, by what is written."""

        def add_entry(text: str) -> str:
            if self.is_remote:
                entry = host_config.remote_entry(self.host, workspace.platform_url)
                return set_remote_entry(self.host, text, entry or {})
            return add_workspace(self.host, text, self.command, workspace)

        found = {_HOST_ENTRY: self._plan(self.config, add_entry)}
        if self.host is CLAUDE_CODE:
            found[_HOST_PERMISSIONS] = self._plan_settings(
                lambda text: add_permissions(text, is_project=self.is_project)
            )
        if hooks and self.has_hooks:
            found[_HOST_HOOKS] = self._plan_settings(lambda text: add_hooks(text, self.program, str(self.config)))
        return found

    def _plan_settings(self, edit: Edit) -> PlannedEdit:
        def checked(text: str) -> str:
            check_host_grammar(self.host, text)
            return edit(text)

        return self._plan(self.settings, checked)

    def _plan(self, file: Path, edit: Edit) -> PlannedEdit:
        return PlannedEdit(file, self.root if file.is_relative_to(self.root) else file.parent, edit)

    @property
    def command(self) -> tuple[str, ...]:
        """Return the command that the host runs. It works from any folder and without a PATH."""
        return (*self.program, "mcp")

    @property
    def program(self) -> tuple[str, ...]:
        """Return the words that start `molecule`."""
        return (str(self.launcher.path),)

    @property
    def has_hooks(self) -> bool:
        """Return whether our hooks run in this host."""
        return self.host is CLAUDE_CODE and not self.is_remote

    def updated(self, change: AppliedEdit) -> Edit:
        """Return the edit that replaces the command of an earlier version."""
        host = host_config.find_host(change.host)
        if change.what == _HOST_HOOKS:
            return lambda text: update_hooks(text, self.program)
        return lambda text: text if host is None else update_command(host, text, self.command)


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
    hooks: bool | None
    scope: str
    file: Path | None
    wait: int | None
    host_seconds: int

    @property
    def wants_hooks(self) -> bool:
        """Return whether hooks are written where they can run."""
        return self.hooks is not False


@click.command("connect")
@click.argument("host", type=click.Choice((*host_config.HOST_NAMES, _ENVIRONMENT.name)))
@click.option("--workspace", metavar="ID|NAME", help="Workspace of the agent.")
@click.option("--create", is_flag=True, help="Create the workspace if it does not exist.")
@click.option("--parent", metavar="ID|NAME", help="With --create: parent of the new workspace.")
@click.option("--org", help="Name of the organisation, if there are several.")
@click.option(
    SERVER_OPTION,
    envvar=SERVER_VARIABLE,
    help=f"Address of the server. Also {SERVER_VARIABLE} in the environment.  [default: that of --state-dir]",
)
@click.option("--own-token", is_flag=True, help="Ask for an existing token of the workspace, instead of creating one.")
@click.option(
    "--apply", is_flag=True, help="Write the configuration into the host's file, and keep a backup next to it."
)
@click.option("--undo", is_flag=True, help="Undo the last --apply.")
@click.option(
    "--hooks/--no-hooks",
    default=None,
    help="Claude Code: wake idle sessions, show waiting messages, relay permission prompts and unanswered messages.  "
    "[default: on]",
)
@click.option(
    "--scope",
    type=click.Choice([PROJECT_SCOPE, USER_SCOPE]),
    default=PROJECT_SCOPE,
    help="Claude Code: configure it for this folder (project) or for all of your folders (user).  [default: project]",
)
@click.option(
    "--file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration file of the host, if it is not the usual one.",
)
@click.option(
    "--wait",
    type=click.IntRange(min=0),
    envvar="MOLECULE_CONNECT_WAIT",
    help=f"Seconds to wait until the agent connects; 0: do not wait.  [default: {_DEFAULT_WAIT}; for env: 0]",
)
@click.option(
    "--host-seconds",
    type=click.IntRange(min=0),
    envvar="MOLECULE_CONNECT_HOST_SECONDS",
    default=_DEFAULT_HOST_SECONDS,
    help="With --apply: seconds to wait until the installed host lists its servers; 0: do not ask it.  "
    f"[default: {_DEFAULT_HOST_SECONDS}]",
)
@click.option("--port", type=int, help="Port of the server on this machine.  [default: that of --state-dir]")
@state_options
def command(host: str, **flags: Any) -> None:
    """Connect an agent that runs in HOST to a workspace.

    Prints the configuration of the host, or writes it with --apply; then waits until the agent connects. The token is
    not in the configuration: it is stored in a separate file.

    HOST env prints the environment of `molecule agent run`, `bridge`, `mcp` and `tool`, as commands for a shell."""
    options = ConnectOptions(**{name: flags.pop(name) for name in ConnectOptions._fields})
    settings = load_cli_settings(**flags)
    paths = _host_paths(host, settings, options)
    address = server_address({"server": options.server, "port": flags["port"]}, settings, for_agents=True)
    _reject_unsupported(paths, options)
    if options.undo:
        _undo_last_apply(paths, settings, address)
    else:
        _connect(paths, settings, options, address)


def _connect(paths: HostPaths, settings: Settings, options: ConnectOptions, address: str) -> None:
    if options.workspace is None:
        raise CommandFailed(reason="no workspace is named. Use --workspace, and --create to create it.")
    if options.apply:  # reject an edit that cannot be written before anything is created
        for planned in paths.edits(HostWorkspace("", address, ""), hooks=options.wants_hooks).values():
            paths.files.check_edit(planned)
    choice = WorkspaceChoice(options.workspace, options.create, options.parent, options.org, paths.host.runtime)
    found = _obtain_access(paths, choice, settings, address, own_token=options.own_token)
    file = paths.files.token_file(paths.host.name, found.workspace_id)
    paths.files.save_token(file, found.token)
    asyncio.run(save_context(address, found, file))
    click.echo(f"Workspace {found.name!r} ({found.workspace_id}): its token is in {file}", err=True)
    if not paths.is_remote:
        paths.launcher.write()
    workspace = HostWorkspace(found.workspace_id, address, str(file))
    if options.apply:
        about = (workspace.workspace_id, workspace.token_file, found.token_id)
        applied = paths.files.apply_edits(paths.edits(workspace, hooks=options.wants_hooks), paths.host.name, about)
        _print_applied(paths, applied)
        for changed in paths.files.update_edited_files(paths.updated):
            click.echo(f"{changed}: replaced the command of an earlier version of Molecule", err=True)
        if not paths.is_remote:
            _print_host_report(paths, options.host_seconds)
    else:
        _print_configuration(paths, workspace, hooks=options.wants_hooks)
    if paths.is_remote:
        _print_token_line(file)
    default_wait = 0 if paths.host is _ENVIRONMENT else _DEFAULT_WAIT
    contact = ContactFile(file) if paths.host.entry_path and not paths.is_remote else None
    watch = AgentWatch(address, found.token, found.workspace_id, contact)
    _wait_until_seen(watch, default_wait if options.wait is None else options.wait, paths.host)


def _host_paths(name: str, settings: Settings, options: ConnectOptions) -> HostPaths:
    host = _ENVIRONMENT if name == _ENVIRONMENT.name else host_config.find_host(name)
    assert host is not None  # click has checked the name
    environ, home, folder, scope = environment(), Path.home(), Path.cwd(), options.scope
    config = config_file(host, environ, home, folder, scope) if options.file is None else options.file.absolute()
    base_folder = folder if options.file is None else config.parent
    files = HostConfigFiles(settings.state_folder.absolute() / AGENTS_FOLDER, SystemClock())
    launcher = HostLauncher(settings.state_folder, Path(sys.executable), Path(__file__).resolve().parents[1])
    is_project = host is CLAUDE_CODE and scope == PROJECT_SCOPE
    root = base_folder if is_project else home
    settings_path = settings_file(environ, home, base_folder, scope)
    is_remote = is_windows() and (bool(host.entry_path) or host is _ENVIRONMENT)
    return HostPaths(host, config, settings_path, root, files, launcher, is_project, is_remote)


def _reject_unsupported(paths: HostPaths, options: ConnectOptions) -> None:
    host = paths.host
    if paths.is_remote and options.hooks:
        raise CommandFailed(reason="hooks cannot run on Windows. Remove --hooks.")
    if paths.is_remote and host_config.remote_entry(host, "") is None:
        raise CommandFailed(
            reason=f"{host.title} cannot be connected on Windows: it needs `molecule mcp`, which cannot run there. "
            "Use WSL, or another host."
        )
    if options.hooks and host.name != "claude-code":
        raise CommandFailed(reason=f"{host.title} has no hooks that Molecule supports. Remove --hooks.")
    if (options.apply or options.undo) and not host.entry_path:
        raise CommandFailed(reason=f"{host.title} has no configuration file. Remove --apply and --undo.")


# -- workspace and token -----------------------------------------------------------------------------------------------


def _obtain_access(
    paths: HostPaths, choice: WorkspaceChoice, settings: Settings, address: str, *, own_token: bool
) -> WorkspaceAccess:
    """Return the workspace with a token for this host. Raises CommandFailed."""
    if own_token:
        token = _read_token()
        return _run_with_api(address, token, lambda api: _check_own_token(api, choice.workspace, token))
    owner = owner_token(settings, address)
    if owner is None:
        raise CommandFailed(
            reason=f"{missing_token_reason(settings)}. Set --state-dir to the server's state folder, set "
            f"{TOKEN_VARIABLE} to the token of an owner, or use --own-token."
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
    token = click.prompt("Token of the workspace", hide_input=True, err=True) if terminal else sys.stdin.readline()
    token = str(token).removeprefix("\ufeff").strip()
    if not token:
        raise CommandFailed(reason="no token was given. Paste it at the prompt, or send it to standard input.")
    register_secret(token)
    return token


async def _check_own_token(api: ApiClient, workspace_id: str, token: str) -> WorkspaceAccess:
    try:
        row = await api.get(f"/workspaces/{workspace_id}/waiting")
    except ApiError as error:
        reason = error.problem.get("error", error)
        raise CommandFailed(reason=f"this token cannot be used for workspace {workspace_id}: {reason}") from None
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
        raise CommandFailed(reason=f"{address} is not a Molecule server. Set --server to the address of one.") from None
    except NoAnswerError:
        raise CommandFailed(reason=f"no server responds at {address}. Start it, or set --server.") from None


# -- output ------------------------------------------------------------------------------------------------------------


def _print_configuration(paths: HostPaths, workspace: HostWorkspace, *, hooks: bool) -> None:
    """Print only the configuration on standard output; hints go to standard error."""
    host, others = paths.host, []
    if paths.is_remote:
        click.echo(f"Add this to {paths.config} (--apply does it for you):", err=True)
        entry = host_config.remote_entry(host, workspace.platform_url)
        click.echo(host_config.render_entry(host, entry or {}), nl=False)
        return
    if host.entry_path:
        click.echo(f"Add this to {paths.config} (--apply does it for you):", err=True)
        others = [
            each for each in paths.files.workspaces_in(host, paths.config) if each["id"] != workspace.workspace_id
        ]
    workspaces = [*others, workspace_entry(workspace)]
    if host is _ENVIRONMENT:
        for name, value in host_config.environment_for(workspaces).items():
            click.echo(f"export {name}={shlex.quote(value)}")
        return
    click.echo(host_config.render_configuration(host, paths.command, workspaces), nl=False)
    if hooks and paths.has_hooks:
        click.echo(f"Add this to {paths.settings}, to wake idle sessions:", err=True)
        click.echo(add_hooks("", paths.program, str(paths.config)), nl=False, err=True)
    if line := host_config.add_server_command(host, paths.command, workspaces):
        click.echo(f"Or run this command: {line}", err=True)
    if host.note:
        click.echo(host.note, err=True)


def _print_token_line(token_file: Path) -> None:
    """Print how the host gets the token on Windows: from its environment."""
    variable = host_config.SINGLE_WORKSPACE_VARIABLES[1]
    click.echo("Windows: the host connects over HTTP. In the PowerShell that starts it, run this first:", err=True)
    click.echo(f'  $env:{variable} = (Get-Content -Raw "{token_file}").Trim()', err=True)


def _print_applied(paths: HostPaths, applied: list[AppliedEdit]) -> None:
    """Print one line for each file. The backup of its first edit is the file as it was before the command."""
    for file, edits in _edits_by_file(applied).items():
        backup = "the file is new" if edits[0].backup is None else f"backup: {edits[0].backup}"
        click.echo(f"{file}: added {' and '.join(_EDIT_TITLES[each.what] for each in edits)} ({backup})", err=True)
    if not applied:
        click.echo("Nothing to write: the host is configured already.", err=True)
        return
    if paths.is_project:
        click.echo(f"Start {paths.host.title} in {paths.root}.", err=True)
    if paths.host.note:
        click.echo(paths.host.note, err=True)


def _edits_by_file(edits: list[AppliedEdit]) -> dict[str, list[AppliedEdit]]:
    found: dict[str, list[AppliedEdit]] = {}
    for each in edits:
        found.setdefault(str(each.file), []).append(each)
    return found


def _print_host_report(paths: HostPaths, seconds: int) -> None:
    """Print what the installed host says about our server. Raises CommandFailed if it does not list it."""
    report = ask_host(paths.host, paths.root if paths.is_project else Path.cwd(), seconds)
    if report is None:
        return
    if report.code or not report.entry:
        command = f"{paths.host.program} mcp list"
        raise CommandFailed(
            reason=f"{paths.host.title} does not list the server ({command} ended with {report.code}): "
            f"{report.text}. Use --undo to restore its files, or repair them."
        )
    click.echo(f"{paths.host.title} lists it: {report.entry}", err=True)


def _wait_until_seen(watch: AgentWatch, seconds: int, host: Host) -> None:
    """Report that the agent is connected, or exit with EXIT_NOT_SEEN."""
    if seconds == 0:
        return
    if watch.contact is not None:
        watch.contact.request()
    if host.program and shutil.which(host.program) is None:
        click.echo(
            f"There is no `{host.program}` on the PATH of this shell. If {host.title} is not installed, install it "
            "first.",
            err=True,
        )
    notice = f"Start {host.title} now. Waiting up to {seconds} s for the agent (Ctrl-C only stops waiting) ..."

    def on_listening() -> None:
        click.echo(notice, err=True)

    try:
        seen = asyncio.run(wait_for_agent(watch, seconds, on_listening))
    except ApiError as error:
        reason = error.problem.get("error", error)
        raise CommandFailed(reason=f"the host is configured, but the server rejects its token: {reason}") from None
    finally:
        if watch.contact is not None:
            watch.contact.remove()
    if seen is None:
        click.echo(
            f"Not yet connected: {host.title} has not started the server within {seconds} s. The configuration takes "
            "effect when it starts. If it is already running, restart it, and look for errors in its list of MCP "
            "servers.",
            err=True,
        )
        sys.exit(EXIT_NOT_SEEN)
    tools = f", {seen.tool_count} tools" if seen.tool_count else ""
    click.echo(f"connected{tools}", err=True)


# -- undo --------------------------------------------------------------------------------------------------------------


def _undo_last_apply(paths: HostPaths, settings: Settings, address: str) -> None:
    changes = paths.files.last_edits(paths.host.name, [paths.config, paths.settings])
    if not changes:
        raise CommandFailed(reason=f"there is nothing to undo: no --apply to {paths.config} is recorded.")
    partly = dict[str, list[str]]()
    for change in reversed(changes):

        def remove_edit(text: str, change: AppliedEdit = change) -> str:
            if change.what == _HOST_HOOKS:
                return remove_hooks(text)
            if change.what == _HOST_PERMISSIONS:
                return remove_permissions(text)
            return remove_workspace(paths.host, text, paths.command, change.workspace_id)

        undone = paths.files.undo_edit(change, remove_edit)
        removed = partly.setdefault(str(change.file), [])
        removed += [] if undone.exact else [_EDIT_TITLES.get(change.what, change.what)]
    for file, removed in partly.items():
        notice = "restored" if Path(file).exists() else "deleted, since it did not exist before"
        if removed:
            notice = f"changed since then, so only {' and '.join(reversed(removed))} was removed"
        click.echo(f"{file}: {notice}", err=True)
    _revoke_token(changes[-1], settings, address)


def _revoke_token(change: AppliedEdit, settings: Settings, address: str) -> None:
    """Revoke the token that was created for the host, if the server can be reached."""
    if change.token_id is None or Path(change.token_file).exists():
        return
    path = f"/workspaces/{change.workspace_id}/tokens/{change.token_id}"
    try:
        _run_with_api(address, owner_token(settings, address) or "", lambda api: api.call("DELETE", path))
    except CommandFailed as error:
        click.echo(f"Its token is still valid ({error.text}). Revoke it on the canvas.", err=True)
    else:
        click.echo("Its token was revoked.", err=True)
